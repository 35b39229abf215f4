"""Make a plan from a resolved configuration."""

import os
from collections.abc import Mapping

from omegaconf import DictConfig

from veritas_rl.planning.devices import Device, device_for
from veritas_rl.planning.duration import Assumptions
from veritas_rl.planning.models import Shape, find_shape
from veritas_rl.planning.plan import Plan
from veritas_rl.planning.settings import settings_of
from veritas_rl.planning.sft import SftPlan, sft_settings_of


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
        device = this_machine() if settings.cpu else device_for(hardware)
    guessed = {"reply": settings.rollout.reply // 2, "turns": 20 if settings.episodes else 1}
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
        device = this_machine() if settings.cpu else device_for(hardware)
    prompt = min(Assumptions.prompt, settings.length // 2)
    guessed = {"prompt": prompt, "reply": (settings.length - prompt) // 2}
    assumptions = Assumptions(**{**guessed, **(assumed or {})})
    return SftPlan(shape or find_shape(settings.model), device, hardware, assumptions, settings)


def this_machine() -> Device:
    """This machine's memory, with the rates of two cores."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Device("this machine", memory, 100e9, 20e9, 10e9, 10e9)
