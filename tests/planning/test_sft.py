"""Supervised fine-tuning: phases calculated by hand, offloading, refused plans and proposed alternatives."""

import dataclasses

import pytest

from veritas_rl.errors import UserError
from veritas_rl.launch import sft
from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.machine_checks import check_memory, sft_forecast
from veritas_rl.planning.compose import sft_plan_of
from veritas_rl.planning.devices import DEVICES, GIB
from veritas_rl.planning.sft import SftPlan

QWEN3_4B = 4_022_468_096


def planned(hardware: str, *overrides: str) -> SftPlan:
    """The plan of supervised fine-tuning on a hardware group."""
    typed = sft.overrides_for([f"hardware={hardware}", *overrides], {}, Hardware(16, 8, 140 << 30))
    return sft_plan_of(compose_configuration(typed, sft.SFT_CONFIG), hardware)


def test_an_update_holds_sixteen_bytes_a_parameter_and_the_logits_of_all_rows() -> None:
    plan = planned("h200x1")
    update = next(phase for phase in plan.phases() if phase.name == "update")
    assert sum(update.parts[name] for name in ("weights", "gradients", "optimizer")) == 16 * QWEN3_4B
    # Eight rows of 2,048 tokens in bf16: logits, gradients of each chunk and of all logits, a copy of the padded rows.
    assert update.parts["logits"] == 8 * 2048 * 151_936 * 10
    assert plan.peak.name == "update"
    assert plan.fits
    assert plan.checkpoint()["model's weights"] == 4 * QWEN3_4B


def test_more_ranks_need_less_of_each_and_take_less_time() -> None:
    one, eight = planned("h200x1"), planned("h200x8")
    assert eight.engine.weights == one.engine.weights // 8
    assert eight.seconds()["update"] < one.seconds()["update"]
    assert one.tokens() == (32 * 522, 32 * 763)


def test_an_offload_policy_keeps_weights_gradients_and_moments_on_the_host() -> None:
    plan = planned("h100x1")
    update = plan.phases()[0]
    assert not {"weights", "gradients", "optimizer", "optimizer step"} & update.parts.keys()
    pinned = sum(size for name, size in plan.host().items() if name.endswith("pinned"))
    # torch rounds each block up to a power of two.
    assert 16 * QWEN3_4B < pinned < 1.5 * 16 * QWEN3_4B
    assert "weights, pinned" not in planned("h200x1").host()


def test_a_refused_plan_proposes_changes_that_fit() -> None:
    plan = dataclasses.replace(planned("h200x1"), device=DEVICES["a100-40g"])
    assert not plan.fits
    assert plan.changes()
    for change in plan.changes():
        again = dataclasses.replace(planned("h200x1", *change.split()), device=plan.device)
        assert again.fits, change
    machine = Hardware(cores=16, gpus=1, gpu_bytes=40 << 30)
    typed = sft.overrides_for(["hardware=h200x1"], {}, machine)
    configuration = compose_configuration(typed, sft.SFT_CONFIG)
    said = r"update needs about .* of the 40\.0 of this GPU.*; set hardware=rtx24g for this machine"
    with pytest.raises(UserError, match=said):
        check_memory(configuration, sft_forecast(configuration, "h200x1", machine), machine)


@pytest.mark.parametrize(
    ("hardware", "gpus", "gib"),
    [("rtx16g", 1, 16), ("rtx24g", 1, 24), ("h100x1", 1, 80), ("h200x1", 1, 141), ("h200x4", 4, 80), ("h200x8", 8, 80)],
)
def test_each_group_fits_the_machine_that_it_is_for(hardware: str, gpus: int, gib: int) -> None:
    plan = planned(hardware)
    assert plan.settings.gpus == gpus
    assert dataclasses.replace(plan, device=dataclasses.replace(plan.device, memory=int(gib * 0.985 * GIB))).fits
