"""Where a group's prompt is computed once, and where a run that asks for it is refused."""

import json
from datetime import datetime
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from veritas_rl.errors import UserError
from veritas_rl.launch import shared_prompts
from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.rl import plan
from veritas_rl.launch.tiny_model import build_tiny_model

CPU = Hardware(cores=2, gpus=0, gpu_bytes=0)
ON, OFF = ([f"{shared_prompts.KEY}={value}"] for value in ("true", "false"))


@pytest.mark.parametrize(("algorithm", "expected"), [("grpo", True), ("ppo", False)])
def test_groups_on_a_cpu_share_their_prompts(algorithm: str, expected: bool) -> None:
    run = plan([f"algorithm={algorithm}"], {}, CPU, datetime.now())
    assert run.configuration.actor_rollout_ref.actor.use_prefix_grouper is expected
    assert run.environment().get("VERL_ENGINE_VENDOR") == ("shared_prompts" if expected else None)


def test_a_gpu_shares_no_prompts_until_it_is_asked_to() -> None:
    settings = ["hardware=h200x1", "algorithm=grpo", "actor_rollout_ref.model.path=Qwen/Qwen3-4B"]
    configuration = compose_configuration(settings)
    assert shared_prompts.overrides(configuration) == []
    assert shared_prompts.environment(configuration) == {}
    shared_prompts.check(compose_configuration([*settings, *ON, "veritas_rl.attention=sdpa"]))
    for setting, said in (
        ("veritas_rl.attention=flash_attention_2", "the attention flash_attention_2 has no mask for it"),
        ("actor_rollout_ref.actor.strategy=veomni", "strategy=veomni has no engine for it"),
        ("actor_rollout_ref.model.use_fused_kernels=true", "use_fused_kernels=true makes no logits"),
        (f"{shared_prompts.KEY}=auto", "use_prefix_grouper=auto must be true, false, or auto with hardware=cpu"),
    ):
        with pytest.raises(UserError, match=said):
            shared_prompts.check(compose_configuration([*settings, *ON, "veritas_rl.attention=sdpa", setting]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "mistral"}, "has the type mistral, not one of llama, qwen2, qwen3"),
        ({"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": True}, "has sliding windows"),
        (
            {"model_type": "gemma3_text"},
            "is not here, or its type is not one of llama, qwen2, qwen3",
        ),
    ],
)
def test_other_attention_is_refused_by_name(changes: dict[str, object], said: str, tmp_path: Path) -> None:
    file = build_tiny_model(tmp_path / "model", seed=0) / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    settings = ["hardware=cpu", "start=made", "algorithm=grpo", f"actor_rollout_ref.model.path={file.parent}"]
    assert shared_prompts.overrides(compose_configuration(settings)) == OFF
    with pytest.raises(UserError, match=f"{said}: set {OFF[0]}"):
        shared_prompts.check(compose_configuration([*settings, *ON]))
    # A window that is not used is none.
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model_type": "qwen2", "use_sliding_window": False}))
    assert shared_prompts.overrides(compose_configuration(settings)) == ON


def test_a_wrong_value_is_refused() -> None:
    configuration = compose_configuration(["hardware=cpu", "start=made", "algorithm=grpo"])
    OmegaConf.update(configuration, shared_prompts.KEY, "yes please")
    with pytest.raises(UserError, match="use_prefix_grouper=yes please must be true, false, or auto"):
        shared_prompts.check(configuration)
