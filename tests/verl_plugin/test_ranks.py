"""One FSDP rank and two FSDP ranks over gloo make the same update from the same batch."""

import json
from pathlib import Path

import pytest
from on_ranks import printed
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.shared_prompts import VENDOR

PROGRAM = Path(__file__).with_name("update_actor.py")


def updated(ranks: int, *runs: list[str], **variables: str) -> list[dict[str, list[float]]]:
    """The loss and gradient norm of two updates, for each list of overrides."""
    common = ["hardware=cpu", "start=made", "rollout=transformers", f"trainer.n_gpus_per_node={ranks}"]
    return printed(PROGRAM, ranks, json.dumps([[*common, *run] for run in runs]), **variables)


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
    alone = updated(1, full, lora)
    for one in alone:
        # The two losses differ, so an update was made.
        assert one["loss"][0] != pytest.approx(one["loss"][1], rel=1e-3)
    # As two nodes of one rank, which exchange gradients once per update, after its last micro-batch.
    node = "actor_rollout_ref.actor"
    apart = [f"{node}.fsdp_config.{said}" for said in ("fsdp_size=1", "use_no_sync_for_gradient_accumulation=true")]
    small = [f"{node}.ppo_max_token_len_per_gpu=200"]
    shared = updated(2, [*full, *small], [*lora, *small], VERL_ENGINE_VENDOR=VENDOR)
    # Without shared prompts at least each real token is computed.
    assert all(max(other["waste"]) < 1 for other in shared)
    two = updated(2, full, lora, [*full, *apart, *small], [*lora, *apart, *small])
    for others in (two[:2], two[2:], shared):
        for one, other in zip(alone, others, strict=True):
            # fp32 sums in different orders differ by about 1e-5.
            assert other["loss"] == pytest.approx(one["loss"], rel=1e-4, abs=1e-6)
            assert other["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-4)
