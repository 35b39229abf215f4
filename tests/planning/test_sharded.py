"""Complete updates of published shapes under FSDP2, against torch's own tracker of FSDP's memory.

The tensors and the process group are fake, so nothing is allocated. verl's own function shards the model, as on the
first of several ranks.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import distributed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import AutoConfig, AutoModelForCausalLM
from verl.utils import torch_functional
from verl.utils.fsdp_utils import apply_fsdp2

from veritas_rl.planning.forecast import ERROR
from veritas_rl.planning.models import config_of
from veritas_rl.planning.plan import Plan
from veritas_rl.planning.training import Engine
from veritas_rl.verl_plugin import patches  # noqa: F401  the forecast of the logits assumes these patches


@pytest.fixture
def ranks(request: pytest.FixtureRequest) -> Iterator[int]:
    """The number of ranks of a fake process group in which this process is the first."""
    distributed.init_process_group("fake", rank=0, world_size=request.param, store=FakeStore())
    yield request.param
    distributed.destroy_process_group()


def tracked(engine: Engine, tokens: int, ranks: int) -> dict[str, int]:
    """Bytes of one device at the peak of a second update of two micro-batches, by torch's memory categories."""
    role, config = engine.role, AutoConfig.for_model(**config_of(engine.shape))
    config._attn_implementation = "sdpa"
    sharding = {
        "mesh": init_device_mesh("cpu", (ranks,)),
        "mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=True),
        "reshard_after_forward": role.reshard,
    }
    # Adapters are added on the meta device, because PEFT moves new adapters, which fake tensors do not allow.
    with torch.device("meta"):
        base = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        base.enable_input_require_grads()
        lora = LoraConfig(r=role.lora_rank, target_modules="all-linear") if role.lora_rank else None
        model: Any = get_peft_model(base, lora) if lora else base
    with FakeTensorMode(allow_non_fake_inputs=True):
        model.to_empty(device="cpu")
        base.tie_weights()
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.train()
        apply_fsdp2(model, sharding, {})
        optimizer = torch.optim.AdamW([tensor for tensor in model.parameters() if tensor.requires_grad], foreach=True)
        ids = torch.zeros(1, tokens, dtype=torch.int64)
        mask = torch.ones(1, 1, tokens, tokens, dtype=torch.bool)
        tracker = FSDPMemTracker(model, optimizer)
        tracker.track_inputs((ids,))
        for _ in range(2):
            with tracker:
                # From the second micro-batch on there are gradients beside activations and logits.
                for _ in range(2):
                    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[0]
                    computed: Any = torch_functional.logprobs_from_logits_v2
                    computed(logits, ids[0]).sum().backward()
                    del logits
                    tracker.reset_mod_stats()
                optimizer.step()
                optimizer.zero_grad()
        (peak,) = tracker.get_tracker_snapshot("peak").values()
    return {str(getattr(name, "value", name)): size for name, size in peak.items() if size}


@pytest.mark.long
@pytest.mark.parametrize(
    ("tokens", "lora", "ranks"),
    [(1024, "off", 8), (5120, "on", 2)],
    indirect=["ranks"],
)
def test_an_update_of_4b_takes_what_torch_tracks(
    tokens: int, lora: str, ranks: int, planned: Callable[..., Plan]
) -> None:
    plan = planned(f"h200x{ranks}", f"lora={lora}", "actor_rollout_ref.model.path=Qwen/Qwen3-4B-Instruct-2507")
    role = dataclasses.replace(plan.settings.actor, update_tokens=tokens, entropy=False, flash=False)
    engine = Engine(plan.shape, role)
    forecast, peak = engine.update_parts(), tracked(engine, tokens, ranks)
    total = peak.pop("Total")
    print(ranks, lora, tokens, f"forecast {sum(forecast.values()):,}, tracked {total:,}", forecast, peak)
    assert sum(forecast.values()) == pytest.approx(total, rel=ERROR)
