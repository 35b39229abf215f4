"""Settings that run according to verl's own documents: the plan may not refuse them.

The source is verl's docs/perf/device_tuning.rst with its scripts in examples/tuning: GRPO on GSM8K with fp32 weights,
gradient checkpointing, packed rows and flash-attn. A row of GSM8K with its reply has about 400 tokens.
"""

import dataclasses
from collections.abc import Callable

import pytest

from veritas_rl.planning.devices import DEVICES
from veritas_rl.planning.plan import Plan

ROW = 400

COMMON = (
    "algorithm=grpo",
    "veritas_rl.attention=flash_attention_2",
    "data.max_prompt_length=512",
    "data.max_response_length=1024",
    "actor_rollout_ref.actor.use_kl_loss=true",
    "actor_rollout_ref.actor.fsdp_config.param_offload=true",
    "actor_rollout_ref.actor.fsdp_config.optimizer_offload=true",
    "actor_rollout_ref.rollout.max_num_batched_tokens=1536",
)


@pytest.mark.parametrize(
    ("model", "hardware", "rows", "share", "tensor", "more"),
    [
        ("Qwen/Qwen2.5-3B-Instruct", "h200x1", 62, 0.1, 1, ("actor_rollout_ref.actor.entropy_coeff=0.001",)),
        ("Qwen/Qwen2.5-7B-Instruct", "h200x1", 16, 0.2, 1, ("actor_rollout_ref.actor.entropy_coeff=0.001",)),
        ("Qwen/Qwen2.5-72B-Instruct", "h200x8", 22, 0.4, 8, ("actor_rollout_ref.actor.entropy_coeff=0.001",)),
        ("Qwen/Qwen2.5-Coder-14B-Instruct", "h200x4", 16, 0.5, 4, ("lora=off",)),
    ],
)
def test_settings_that_verl_documents_for_80_gb_are_not_refused(
    model: str, hardware: str, rows: int, share: float, tensor: int, more: tuple[str, ...], planned: Callable[..., Plan]
) -> None:
    named = (
        f"actor_rollout_ref.model.path={model}",
        f"actor_rollout_ref.rollout.gpu_memory_utilization={share}",
        f"actor_rollout_ref.rollout.tensor_model_parallel_size={tensor}",
    )
    plan = dataclasses.replace(planned(hardware, *COMMON, *named, *more), device=DEVICES["h100"])
    assert plan.with_tokens(rows * ROW).refusal() is None
