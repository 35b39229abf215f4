"""The rollout generates with the trainer's adapter after each weight sync."""

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from on_ranks import printed
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from veritas_rl import announcements
from veritas_rl.errors import UserError
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.verl_plugin.adapter_delivery import AdapterWatch, scaling_of
from veritas_rl.verl_plugin.adapter_digest import digests_of, together

PROGRAM = Path(__file__).with_name("sync_adapter.py")


def adapted(model: Path) -> Any:
    """A model with an adapter that is not zero."""
    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_pretrained(model)
    return get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False))


@pytest.mark.training
def test_two_ranks_deliver_their_adapter_however_they_hold_and_send_it(tmp_path: Path) -> None:
    model = build_tiny_model(tmp_path / "model", seed=0, weights=0.1, embeddings=0.5)
    adapted(model).save_pretrained(str(tmp_path / "adapter"))
    runs = printed(PROGRAM, 2, model, tmp_path / "adapter")
    assert [(run["strategy"], run["layered"]) for run in runs] == [
        ("fsdp", False),
        ("fsdp", True),
        ("fsdp2", False),
        ("fsdp2", True),
    ]
    file = together(digests_of(load_file(tmp_path / "adapter/adapter_model.safetensors").items(), torch.float32))
    for run in runs:
        # Before each sync the rollout has different values.
        assert run["before"] == [False] * 3
        assert run["same"] == [True] * 3
        # At the first sync the rollout gets the adapter of the file, and a different adapter at each sync.
        assert file in run["lines"][0]
        assert len(set(run["lines"])) == 3
        # Without the adapter the rollout's probabilities differ.
        assert max(run["differences"]) < 1e-5
        assert run["without"][0] > 1e-3
    for whole, layered in (runs[:2], runs[2:]):
        assert whole["lines"] == layered["lines"]


class OneRank:
    """A rollout of one rank with given adapter tensors."""

    config = SimpleNamespace(name="transformers", dtype="float32")

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        self.tensors = tensors

    async def adapter_digests(self, dtype: torch.dtype) -> dict[str, int]:
        return digests_of(self.tensors.items(), dtype)


def test_a_rollout_with_another_adapter_ends_the_run(tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = adapted(tiny_model)
    engine = SimpleNamespace(module=model, device_mesh=None)
    rollout = OneRank({name: value.detach().clone() for name, value in model.named_parameters() if "lora_" in name})
    watch = AdapterWatch(rollout)
    for step in range(6):
        asyncio.run(watch.check(engine, step, rank=0))
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["step 0", "step 1", "step 2", "step 3"]
    with torch.no_grad():
        model.base_model.model.model.layers[2].mlp.up_proj.lora_B.default.weight[0, 0] += 1e-3
    with pytest.raises(
        UserError, match=r"step 6: .* 1 of 56 tensors have other values: layers\.2\.mlp\.up_proj\.lora_B"
    ):
        asyncio.run(watch.check(engine, 6, rank=0))
    rollout.tensors = {}
    with pytest.raises(UserError, match="it holds no adapter"):
        asyncio.run(watch.check(engine, 7, rank=0))


def test_an_adapter_that_vllm_does_not_show_is_announced_once(
    tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def answer(method: str, args: tuple[str]) -> list[dict[str, int]]:
        raise KeyError("model.layers.0.self_attn.o_proj")

    rollout = SimpleNamespace(config=SimpleNamespace(name="vllm", dtype="float32"), _execute_method=answer)
    engine = SimpleNamespace(module=adapted(tiny_model), device_mesh=None)
    for rank in (0, 1):
        watch = AdapterWatch(rollout)
        for step in range(3):
            asyncio.run(watch.check(engine, step, rank))
    (line,) = capsys.readouterr().out.splitlines()
    # The launcher shows it on the console.
    assert re.search(announcements.PATTERN, f"(WorkerDict pid=1) {line}")
    assert "KeyError('model.layers.0.self_attn.o_proj')" in line


@pytest.mark.parametrize(("stabilized", "scaling"), [(False, 2.0), (True, 4.0)])
def test_the_scaling_is_pefts(tiny_model: Path, stabilized: bool, scaling: float) -> None:
    config = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj"], use_rslora=stabilized)
    model: Any = get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), config)
    assert model.base_model.model.model.layers[0].self_attn.q_proj.scaling["default"] == scaling
    assert scaling_of(model.peft_config["default"]) == scaling
