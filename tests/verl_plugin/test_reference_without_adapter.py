"""An adapter trains on after a pass of the reference, which is the model without the adapter."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from verl.workers.engine.base import EngineRegistry


@pytest.fixture(autouse=True)
def _group() -> Iterator[None]:
    distributed.init_process_group("fake", rank=0, world_size=1, store=FakeStore())
    yield
    distributed.destroy_process_group()


@pytest.mark.parametrize("trained_before", [False, True])
@pytest.mark.parametrize("reshard", [False, True])
def test_every_update_after_a_pass_of_the_reference_trains_the_adapter(reshard: bool, trained_before: bool) -> None:
    torch.manual_seed(0)
    base: Any = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    settings = LoraConfig(target_modules=["0", "1"], r=2, init_lora_weights=False)
    module: Any = get_peft_model(base, settings)
    inputs = torch.ones(1, 3)
    plain = base[1].base_layer(base[0].base_layer(inputs)).detach()
    mesh = init_device_mesh("cpu", (1,))
    for part in (base[0], base[1], module):
        fully_shard(part, mesh=mesh, reshard_after_forward=reshard)
    engine: Any = SimpleNamespace(module=module, _start_adapter=None)

    def trained() -> int:
        """The number of weights of the adapter that get a gradient."""
        module.zero_grad()
        module(inputs.clone().requires_grad_()).sum().backward()
        return sum(bool(weight.grad is not None and weight.grad.any()) for weight in module.parameters())

    if trained_before:
        assert trained() == 4
    for _ in range(2):
        with torch.no_grad(), EngineRegistry.get_engine_cls("language_model", "fsdp2").disable_adapter(engine):
            torch.testing.assert_close(module(inputs), plain)
        assert [trained() for _ in range(3)] == [4] * 3
