"""Checks of the machine before a run starts: verl, GPUs, memory, disk, and Ray's token."""

import dataclasses
import importlib.metadata
import math
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from veritas_rl.checkpoints.adapter import check_size
from veritas_rl.checkpoints.room import cannot_write, nearest_existing
from veritas_rl.errors import UserError
from veritas_rl.launch import attention, quantization, rollout_backend
from veritas_rl.launch.hardware import Hardware
from veritas_rl.paths import TOKEN, has_token
from veritas_rl.pins import required_version
from veritas_rl.planning.compose import plan_of, plan_of_known, sft_plan_of, this_machine
from veritas_rl.planning.devices import DEVICES, Device
from veritas_rl.planning.forecast import Forecast
from veritas_rl.planning.plan import Plan
from veritas_rl.planning.sft import SftPlan

LEAST_GPU_BYTES = 15 << 30
"""The memory that hardware=rtx16g, the smallest GPU group, needs."""


def check_verl() -> None:
    """Check that the pinned verl is installed and loads this package's plugin.

    Raises:
        UserError: verl is missing or has another version, or this package is not installed. verl finds the plugin by
            its entry point, and does not report a missing plugin.
    """
    plugins = importlib.metadata.entry_points(group="verl.plugins", name="veritas_rl")
    if not plugins:
        raise UserError("verl cannot find this package's plugin: run pip install -e . in the repository's root")
    required = required_version("verl")
    try:
        installed = importlib.metadata.version("verl")
    except importlib.metadata.PackageNotFoundError:
        raise UserError(f"verl {required} is not installed: run bash train/scripts/setup.sh") from None
    if installed != required:
        raise UserError(f"verl {installed} is installed, but {required} is required: run pip install verl=={required}")
    try:
        # verl imports the plugin too, but logs a failure at debug level only.
        next(iter(plugins)).load()
    except ImportError as error:
        raise UserError(
            f"this package's verl plugin cannot be imported ({error}): run bash train/scripts/setup.sh"
        ) from error


def check_devices(configuration: DictConfig, hardware: Hardware) -> None:
    """Check that the machine has the configured GPUs and packages.

    Raises:
        UserError: A GPU, the rollout backend or the package of a 4-bit base is missing.
    """
    quantization.check_installed(configuration)
    if configuration.trainer.device != "cpu":
        wanted = configuration.trainer.n_gpus_per_node
        if wanted > hardware.gpus:
            fitting = f"hardware={hardware.group}"
            raise UserError(
                f"the configuration needs {wanted} GPUs, and this machine has {hardware.gpus}: use {fitting}"
            )
        attention.check(configuration)
    rollout_backend.check_installed(configuration)


def idle_note(configuration: DictConfig, hardware: Hardware) -> str | None:
    """Say which GPUs of this machine the run does not use, and what to type; None if it uses all.

    Args:
        configuration: The resolved configuration.
        hardware: The machine.
    """
    trainer, batch, gpus = configuration.trainer, configuration.data.train_batch_size, hardware.gpus
    if trainer.device == "cpu" or trainer.nnodes > 1 or trainer.n_gpus_per_node >= gpus:
        return None
    # Each GPU gets as many rows; in fine-tuning whole micro-batches.
    unit = gpus * (configuration.data.get("micro_batch_size_per_gpu") or 1)
    typed = [f"trainer.n_gpus_per_node={gpus}"]
    typed += [f"data.train_batch_size={max(unit, batch // unit * unit)}"] if batch % unit else []
    return f"note: {gpus - trainer.n_gpus_per_node} of {gpus} GPUs are idle: {' '.join(typed)} uses them"


def forecast(configuration: DictConfig, overrides: Sequence[str], hardware: Hardware) -> Plan | None:
    """Forecast the run's memory, time and storage; None if no model is named, or its architecture is unknown.

    Args:
        configuration: The resolved configuration.
        overrides: The configuration's overrides, which name the hardware group unless a recipe chooses it.
        hardware: The machine.
    """
    path, device = configuration.actor_rollout_ref.model.path, _device(configuration, hardware)
    return plan_of_known(plan_of, configuration, path, _group(overrides), device)


def sft_forecast(configuration: DictConfig, overrides: Sequence[str], hardware: Hardware) -> SftPlan | None:
    """As `forecast`, for a run of supervised fine-tuning."""
    path, device = configuration.model.path, _device(configuration, hardware)
    return plan_of_known(sft_plan_of, configuration, path, _group(overrides), device)


def _group(overrides: Sequence[str]) -> str:
    return next((item.partition("=")[2] for item in overrides if re.match("(sft_)?hardware=", item)), "of the recipe")


def _device(configuration: DictConfig, hardware: Hardware) -> Device | None:
    """A GPU of the machine; None for its processor, at the rates of the run's dtype."""
    if configuration.trainer.device == "cpu":
        return None
    # Only the time depends on the device's speed, and it is not used here for GPUs.
    return dataclasses.replace(DEVICES["h200"], name="this GPU", memory=hardware.gpu_bytes)


def check_memory(
    configuration: DictConfig, plan: Forecast | None, hardware: Hardware, model: str | None = None
) -> None:
    """Check that the run is forecast to fit into the machine's memory; without a forecast, that the weights do.

    Args:
        configuration: The resolved configuration.
        plan: The forecast, if known.
        hardware: The machine.
        model: The model's folder, or its hub id.

    Raises:
        UserError: The run does not fit, even within the forecast's error.
    """
    if not configuration.veritas_rl.check_memory:
        return
    if plan is None and model is not None and Path(model).is_dir():
        cpu, gpus = configuration.trainer.device == "cpu", configuration.trainer.n_gpus_per_node
        memory = this_machine().memory if cpu else hardware.gpu_bytes * gpus * configuration.trainer.nnodes
        check_size(Path(model), memory, "; veritas_rl.check_memory=false skips this check")
    if plan is None or (reason := plan.refusal()) is None:
        return
    group = hardware.sft_group if isinstance(plan, SftPlan) else hardware.group
    suited, changes = f"hardware={group}", plan.changes()[:1]
    if 0 < hardware.gpu_bytes < LEAST_GPU_BYTES:
        fitting = "; set hardware=cpu to train a small model"
    elif configuration.trainer.device != "cpu" and suited != f"hardware={plan.hardware}":
        fitting = f"; set {suited} for this machine"
    else:
        fitting = f"; it fits with {changes[0]}" if changes else "; no setting makes it fit: choose a smaller model"
        keys = [item.partition("=")[0] for change in changes for item in change.split()]
        given = [f"{key}={OmegaConf.select(configuration, key)}" for key in keys if "." in key]
        reason += f", with {' and '.join(given)}" if given else ""
    raise UserError(
        f"{reason}{fitting}; train/tools/plan.py shows the forecast, and veritas_rl.check_memory=false skips this check"
    )


def check_disk(configuration: DictConfig, plan: Forecast | None) -> None:
    """Check that the disk has room for the run's checkpoints.

    Args:
        configuration: The resolved configuration.
        plan: The forecast, if known. It includes the size of a checkpoint.

    Raises:
        UserError: The disk is too full, or the folder is not writable.
    """
    # One checkpoint more than is kept: the oldest is removed after the newest is complete.
    kept = (plan.kept + 1) * sum(plan.checkpoint().values()) if plan is not None else 0
    needed = spare_bytes(configuration) + kept
    existing = nearest_existing(Path(configuration.trainer.default_local_dir))
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise UserError(
            f"{existing} has {free / 2**30:.1f} GiB free, and the checkpoints need {needed / 2**30:.1f} GiB: free some "
            "space, or set trainer.default_local_dir to a larger disk"
        )
    if reason := cannot_write(existing):
        raise UserError(f"{reason}: set trainer.default_local_dir to a folder that can")


def check_token(configuration: DictConfig) -> None:
    """Check that a Ray of the run's own can write its token, which it does once for a user.

    Raises:
        UserError: The user's home is not writable.
    """
    own = configuration.ray_kwargs.ray_init.address == "local"
    if not own or os.environ.get("RAY_AUTH_MODE", "token").lower() != "token" or has_token():
        return
    if reason := cannot_write(nearest_existing(TOKEN.expanduser().parent)):
        raise UserError(
            f"{reason}, and Ray keeps its token in {TOKEN.parent}: set HOME to a folder that can be written"
        )


def spare_bytes(configuration: DictConfig) -> int:
    """The bytes that a run needs besides checkpoints, for logs, metrics and curves.

    Raises:
        UserError: `veritas_rl.spare_disk_gib` is not a valid size.
    """
    spare = configuration.veritas_rl.spare_disk_gib
    if isinstance(spare, bool) or not isinstance(spare, int | float) or not 0 <= spare < math.inf:
        raise UserError(f"veritas_rl.spare_disk_gib={spare} is no size: a number of GiB, such as 1")
    return int(spare * 2**30)
