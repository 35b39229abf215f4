"""Make a plan from a resolved configuration."""

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from omegaconf import DictConfig

from veritas_rl.planning.devices import Device, device_for
from veritas_rl.planning.duration import Assumptions
from veritas_rl.planning.forecast import Forecast
from veritas_rl.planning.models import Shape, UnknownShape, find_shape
from veritas_rl.planning.plan import Plan
from veritas_rl.planning.settings import settings_of
from veritas_rl.planning.sft import SftPlan, sft_settings_of

AnyPlan = TypeVar("AnyPlan", bound=Forecast)


def plan_of(
    configuration: DictConfig,
    hardware: str,
    device: Device | None = None,
    shape: Shape | None = None,
    assumed: Mapping[str, float] | None = None,
) -> Plan:
    """The plan of a run.

    Args:
        configuration: The resolved RL configuration.
        hardware: The name of the hardware group.
        device: The device; None for the group's device, or for this machine without a GPU.
        shape: The model's shape; None to find the shape of the configured model.
        assumed: Values of `Assumptions`, by name.

    Raises:
        UserError: The model or the device is not known.
    """
    settings = settings_of(configuration)
    if device is None:
        device = this_machine(settings.actor.compute_bytes) if settings.cpu else device_for(hardware)
    limit = settings.rollout.reply
    guessed = {"reply": limit // 2, "longest": limit, "turns": 20 if settings.episodes else 1}
    if settings.cpu:
        guessed |= CPU_SHARES[settings.actor.compute_bytes]
    guessed["prompt"] = min(Assumptions.prompt, settings.rollout.prompt)
    assumptions = Assumptions(**{**guessed, **(assumed or {})})
    return Plan(shape or find_shape(settings.model), device, hardware, assumptions, settings)


def sft_plan_of(
    configuration: DictConfig,
    hardware: str,
    device: Device | None = None,
    shape: Shape | None = None,
    assumed: Mapping[str, float] | None = None,
) -> SftPlan:
    """The plan of a run of supervised fine-tuning, as `plan_of`.

    Raises:
        UserError: The model or the device is not known.
    """
    settings = sft_settings_of(configuration)
    if device is None:
        device = this_machine(settings.role.compute_bytes) if settings.cpu else device_for(hardware)
    prompt = min(Assumptions.prompt, settings.length // 2)
    guessed = {"prompt": prompt, "reply": (settings.length - prompt) // 2}
    if settings.cpu:
        guessed |= CPU_SHARES[settings.role.compute_bytes]
    assumptions = Assumptions(**{**guessed, **(assumed or {})})
    return SftPlan(shape or find_shape(settings.model), device, hardware, assumptions, settings)


def plan_of_known(
    make: Callable[..., AnyPlan],
    configuration: DictConfig,
    model: str | None,
    hardware: str,
    device: Device | None = None,
) -> AnyPlan | None:
    """The plan of a run whose model's shape is found without a download; None for other runs.

    Args:
        make: `plan_of` or `sft_plan_of`.
        configuration: The resolved configuration.
        model: The model's folder or hub id; None if the run names none.
        hardware: As in `plan_of`.
        device: As in `plan_of`.

    Raises:
        UserError: The device is not known.
    """
    if model is None:
        return None
    try:
        return make(configuration, hardware, device, find_shape(model, ask_hub=False))
    except UnknownShape:
        return None


CORE_RATES = {4: 108e9, 2: 491e9}
"""FLOP/s of matrix products of 1,024 rows on one core, by the bytes of a number: fp32, and bf16 where the processor has
products of it. Measured on an AMD EPYC with avx512_bf16, 2026-11-26."""

CPU_SHARES = {
    4: {"mfu": 0.62, "infer": 0.77, "prefill": 0.77, "generate": 0.53},
    2: {"mfu": 0.26, "infer": 0.57, "prefill": 0.57, "generate": 0.18},
}
"""`Assumptions` of a CPU, by the bytes of a number. Measured on the same processor with 135M weights: prompts
of 392 and 1,322 tokens a core and second, replies of 212 and 330 in a batch of 32, and updates of adapters of 151 and
292."""


def this_machine(width: int = 4) -> Device:
    """This machine's memory, and the rates of its cores.

    Args:
        width: The bytes of a number in computation.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return cpu(memory, len(os.sched_getaffinity(0)), width if width == 4 or multiplies_bf16() else 4)


def cpu(memory: int, cores: int, width: int) -> Device:
    """A machine without a GPU: its memory in bytes, its cores, and the bytes of a number in computation."""
    return Device("this machine", memory, cores * CORE_RATES[width], 20e9, 10e9, 10e9)


@cache
def multiplies_bf16() -> bool:
    """Whether this processor has matrix products of bf16; False if the system does not list its features."""
    listed = Path("/proc/cpuinfo")
    features = set(listed.read_text().split()) if listed.exists() else set[str]()
    return not features.isdisjoint(("avx512_bf16", "amx_bf16", "bf16"))
