"""Plans that fit, plans that are refused, and the proposed alternatives."""

import dataclasses
import re
from collections.abc import Callable

import pytest

from veritas_rl.errors import UserError
from veritas_rl.launch.configuration import compose_configuration, overrides_for
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.machine_checks import check_memory
from veritas_rl.planning.devices import DEVICES, GIB
from veritas_rl.planning.forecast import ERROR
from veritas_rl.planning.plan import Plan


def on(plan: Plan, gib: float) -> Plan:
    """The same run on a device with a different amount of memory."""
    return dataclasses.replace(plan, device=dataclasses.replace(plan.device, memory=int(gib * GIB)))


def test_each_phase_of_a_step_is_there(planned: Callable[..., Plan]) -> None:
    ppo = [phase.name for phase in planned("h200x1").phases()]
    assert ppo == [
        "rollout",
        "old log-probabilities",
        "values",
        "critic's update",
        "actor's update",
        "weights to the rollout",
        "checkpoint",
    ]
    kl = planned("h200x1", "algorithm=grpo", "actor_rollout_ref.actor.use_kl_loss=true")
    names = [phase.name for phase in kl.phases()]
    assert "reference" in names
    assert "values" not in names
    averaged = planned("h200x1", "actor_rollout_ref.actor.use_kl_loss=true", "veritas_rl.reference=average")
    assert averaged.host()["reference's average"] == averaged.checkpoint()["reference's average"]
    assert "reference's average" not in kl.host() | kl.checkpoint()
    bypassed = planned("h200x1", "algorithm.rollout_correction.bypass_mode=true")
    assert "old log-probabilities" not in [phase.name for phase in bypassed.phases()]


def test_the_peak_is_the_largest_phase_and_decides(planned: Callable[..., Plan]) -> None:
    plan = planned("h200x1")
    peak = max(phase.total for phase in plan.phases())
    assert plan.peak.total == peak
    assert on(plan, peak / GIB + 0.01).peak.total / GIB <= peak / GIB + 0.01


def test_only_what_cannot_fit_even_with_the_error_is_refused(planned: Callable[..., Plan]) -> None:
    plan = planned("h200x1", "rollout=transformers", "algorithm=grpo", "actor_rollout_ref.rollout.max_num_seqs=8")
    need = plan.peak.total / GIB
    assert on(plan, need + 0.1).fits
    assert on(plan, need + 0.1).refusal() is None
    tight = on(plan, need * (1 - ERROR / 2))
    assert not tight.fits
    assert tight.refusal() is None
    reason = on(plan, need * (1 - 2 * ERROR)).refusal()
    assert reason is not None
    assert reason.startswith(plan.peak.name)
    assert "\n" not in reason


def test_4b_with_all_parameters_does_not_fit_on_24_gb(planned: Callable[..., Plan]) -> None:
    plan = planned("rtx24g", "lora=off", "actor_rollout_ref.model.path=Qwen/Qwen3-4B-Instruct-2507")
    # The actor's weights, gradients and moments alone take 60 GiB.
    assert plan.actor.weights + plan.actor.gradients + plan.actor.optimizer > 59 * GIB
    assert plan.refusal() is not None


def test_a_rollout_without_room_for_one_sequence_is_refused(planned: Callable[..., Plan]) -> None:
    plan = planned("h200x1", "actor_rollout_ref.rollout.gpu_memory_utilization=0.05")
    assert plan.server.at_once == 0
    reason = plan.refusal()
    assert reason is not None
    assert "cache" in reason
    has, needs = map(float, re.findall(r"([\d.]+) GiB", reason))
    assert 0 < has < needs < 141
    assert any("gpu_memory_utilization" in change for change in plan.changes())


@pytest.mark.parametrize("gib", [60, 79, 139])
def test_the_largest_micro_batch_fits_and_more_does_not(planned: Callable[..., Plan], gib: float) -> None:
    plan = on(planned("h200x1"), gib)
    tokens = plan.largest_tokens()
    assert tokens is not None

    def trains(count: int) -> bool:
        phases = plan.with_tokens(count).phases()
        return all(phase.total <= plan.device.memory for phase in phases if phase.name != "rollout")

    assert trains(tokens)
    assert not trains(tokens + 1024)


def test_the_largest_share_fits_and_more_does_not(planned: Callable[..., Plan]) -> None:
    plan = on(planned("h200x1"), 79)
    share = plan.largest_share()
    assert share is not None
    waiting = plan.actor.idle + (plan.critic.idle if plan.critic else 0)
    assert (
        share * plan.device.memory + waiting
        <= plan.device.memory
        < (share + 0.03) * plan.device.memory + waiting + 2 * GIB
    )


def test_each_proposed_change_fits(planned: Callable[..., Plan]) -> None:
    names = ("lora=off", "algorithm=grpo", "actor_rollout_ref.model.path=Qwen/Qwen3-4B-Instruct-2507")
    plan = dataclasses.replace(planned("h200x1", *names), device=DEVICES["h100"])
    kept = "actor_rollout_ref.actor.fsdp_config.optimizer_offload=false"
    changed = dataclasses.replace(planned("h200x4", *names, kept), device=DEVICES["a100-40g"])
    for refused in (plan, changed):
        for change in refused.changes():
            again = planned(refused.hardware, *names, *change.split())
            assert dataclasses.replace(again, device=refused.device).fits, change


def test_more_ranks_need_less_of_each(planned: Callable[..., Plan]) -> None:
    updates = [
        next(phase.total for phase in planned(f"h200x{ranks}", "lora=off").phases() if phase.name == "actor's update")
        for ranks in (4, 8)
    ]
    assert updates[0] > updates[1]


ROOMY = (
    *("actor_rollout_ref.model.path=HuggingFaceTB/SmolLM2-135M-Instruct", "algorithm=grpo", "data.train_batch_size=32"),
    *("data.max_prompt_length=2000", "data.max_response_length=48", "actor_rollout_ref.rollout.dtype=float32"),
    *("actor_rollout_ref.rollout.max_num_seqs=512", "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=32768"),
    *("actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp32",),
    *("actor_rollout_ref.actor.fsdp_config.model_dtype=fp32",),
)
"""A real model on a CPU, with a cache and micro-batches that do not fit."""


def test_on_a_cpu_the_cache_is_in_the_rollout_alone(planned: Callable[..., Plan]) -> None:
    plan = planned("cpu", *ROOMY)
    rollout, *others = plan.phases()
    # Keys and values of 30 layers with 3 heads of 64 dimensions, in fp32.
    assert rollout.parts["KV cache"] == 512 * 2048 * 2 * 30 * 3 * 64 * 4
    # The engine frees its cache when the last reply ends, and keeps its copy of the weights.
    assert {phase.parts.get("rollout, asleep") for phase in others} == {plan.server.weights + plan.server.adapter}
    assert not any("KV cache" in phase.parts for phase in others)


def test_a_refusal_on_a_cpu_names_each_key_its_value_and_one_that_fits(planned: Callable[..., Plan]) -> None:
    plan = planned("cpu", *ROOMY)
    machine = Hardware(cores=2, gpus=0, gpu_bytes=0)
    made = compose_configuration(overrides_for(["hardware=cpu", *ROOMY], {}, machine))
    with pytest.raises(UserError) as caught:
        check_memory(made, plan, machine)
    change = plan.changes()[0]
    assert str(caught.value).startswith("actor's update needs about ")
    assert (
        "most of it for activations, with actor_rollout_ref.actor.ppo_max_token_len_per_gpu=32768 and "
        f"actor_rollout_ref.rollout.max_num_seqs=512; it fits with {change}; "
    ) in str(caught.value)
    # Neither alone is enough.
    assert planned("cpu", *ROOMY, *change.split()).fits
    assert not any(planned("cpu", *ROOMY, one).fits for one in change.split())
    sequences = plan.largest_sequences()
    assert sequences is not None
    more = f"actor_rollout_ref.rollout.max_num_seqs={sequences + 1}"
    assert not planned("cpu", *ROOMY, *change.split(), more).fits


def test_a_model_that_no_setting_fits_is_refused_as_such(planned: Callable[..., Plan]) -> None:
    plan = on(planned("cpu", *ROOMY), 2)
    assert plan.changes() == []
    machine = Hardware(cores=2, gpus=0, gpu_bytes=0)
    made = compose_configuration(overrides_for(["hardware=cpu", *ROOMY], {}, machine))
    with pytest.raises(UserError, match="; no setting makes it fit: choose a smaller model; "):
        check_memory(made, plan, machine)


def test_adapters_are_proposed_where_every_parameter_does_not_fit(planned: Callable[..., Plan]) -> None:
    small = ("actor_rollout_ref.actor.ppo_max_token_len_per_gpu=2048", "actor_rollout_ref.rollout.max_num_seqs=8")
    full, adapters = (planned("cpu", *ROOMY, *small, f"lora={choice}") for choice in ("off", "on"))
    between = (full.peak.total + adapters.peak.total) / 2 / GIB
    assert on(full, between).changes() == ["lora=on"]
    assert on(adapters, between).fits
