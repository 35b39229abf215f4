"""One FSDP rank and two FSDP ranks over gloo make the same update from the same batch."""

import json
from pathlib import Path

import pytest
from on_ranks import printed
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from veritas_rl.launch.tiny_model import build_tiny_model

PROGRAM = Path(__file__).with_name("update_actor.py")


def updated(ranks: int, *runs: list[str]) -> list[dict[str, list[float]]]:
    """The loss and gradient norm of two updates, for each list of overrides."""
    common = ["hardware=cpu", "rollout=transformers", f"trainer.n_gpus_per_node={ranks}"]
    return printed(PROGRAM, ranks, json.dumps([[*common, *run] for run in runs]))


def adapter_for(model: Path, folder: Path) -> Path:
    """Make an adapter that is not zero, so that all of its weights are trained from the first update on."""
    base = AutoModelForCausalLM.from_pretrained(model)
    adapted = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
    adapted.save_pretrained(str(folder))
    return folder


def test_two_ranks_train_as_one_does(tmp_path: Path) -> None:
    model = build_tiny_model(tmp_path / "model", seed=0)
    adapter = adapter_for(model, tmp_path / "adapter")
    full = ["lora=off", f"actor_rollout_ref.model.path={model}"]
    lora = ["lora=on", *full[1:], f"actor_rollout_ref.model.lora_adapter_path={adapter}"]
    for one, two in zip(updated(1, full, lora), updated(2, full, lora), strict=True):
        # fp32 sums in different orders differ by about 1e-5. The two losses differ, so an update was made.
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-4, abs=1e-6)
        assert two["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-4)
        assert one["loss"][0] != pytest.approx(one["loss"][1], rel=1e-3)
