"""Detect the machine's hardware, and choose the configuration groups for it."""

import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from veritas_rl.launch.start import GROUP, MADE, choice_for
from veritas_rl.planning.devices import DEVICES

SEVERAL_GPU_BYTES = 38 << 30
"""The least memory of each of several GPUs that share a model of 4B in RL: GPUs of 40 GB."""

SEVERAL_SFT_GPU_BYTES = 70 << 30
"""The same for supervised fine-tuning of all parameters: GPUs of 80 GB."""

LONE_GPUS = ((20 << 30, "rtx16g"), (SEVERAL_SFT_GPU_BYTES, "rtx24g"), (120 << 30, "h100x1"))
"""The hardware group for one GPU below each size in bytes."""

NODE_SIZES = (8, 4, 2, 1)

DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"), Path("/dev/kfd"))
"""The device files of the drivers of GPUs: NVIDIA's, that of WSL 2, and AMD's."""


@dataclass(frozen=True)
class Hardware:
    """The machine's hardware.

    Attributes:
        cores: Processor cores that this process may use.
        gpus: CUDA devices that torch sees.
        gpu_bytes: Memory of the smallest GPU in bytes; 0 without a GPU.
    """

    cores: int
    gpus: int
    gpu_bytes: int

    @property
    def group(self) -> str:
        """The choice of the group hardware for this machine."""
        return self._group(SEVERAL_GPU_BYTES)

    @property
    def sft_group(self) -> str:
        """The choice of the group sft_hardware for this machine."""
        return self._group(SEVERAL_SFT_GPU_BYTES)

    def _group(self, several: int) -> str:
        if not self.gpus:
            return "cpu"
        if self.gpus == 1 or self.gpu_bytes < several:
            for most, group in LONE_GPUS:
                if self.gpu_bytes < most:
                    return group
        return f"h200x{next(size for size in NODE_SIZES if size <= self.gpus)}"

    def overrides(self, start: str | None = None) -> list[str]:
        """The groups for this machine: adapters for pretrained models, all parameters for made ones; vLLM on GPUs; and
        GRPO for pretrained models on a CPU, where a critic would double the work.

        Args:
            start: The choice of the group start; None if the run names no model.
        """
        start = start or choice_for(None, self.gpus)
        groups = [f"hardware={self.group}"]
        if start == MADE:
            groups.append("lora=off")
        elif not self.gpus:
            groups.append("algorithm=grpo")
        if not self.gpus:
            groups.append("rollout=transformers")
        return [*groups, f"{GROUP}={start}"]


def suited_to(machine: str) -> str | None:
    """What to type for a machine that is named by its GPUs, such as "h100x8" or "8xH100"; None if none is known."""
    named = re.fullmatch(r"(?:(?P<before>[1-9]\d*)x)?(?P<name>[a-z].*?)(?:x(?P<after>[1-9]\d*))?", machine.lower())
    if not named or named["name"] not in DEVICES:
        return None
    name, number = named["name"], named["before"] or named["after"] or "1"
    group = Hardware(cores=1, gpus=int(number), gpu_bytes=DEVICES[name].memory).group
    alone = group in dict(LONE_GPUS).values()
    return f"hardware={group}" + (f" trainer.n_gpus_per_node={number}" if alone and int(number) > 1 else "")


@cache
def this_machine() -> Hardware:
    """The hardware of this machine."""
    cores = len(os.sched_getaffinity(0))
    # Without a driver torch is not imported, which takes a third of a dry run.
    if not any(driver.exists() for driver in DRIVERS):
        return Hardware(cores=cores, gpus=0, gpu_bytes=0)
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    sizes = [torch.cuda.get_device_properties(index).total_memory for index in range(gpus)]
    return Hardware(cores=cores, gpus=gpus, gpu_bytes=min(sizes, default=0))
