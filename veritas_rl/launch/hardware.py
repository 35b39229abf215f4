"""Detect the machine's hardware, and choose the configuration groups for it."""

import os
from dataclasses import dataclass
from functools import cache

SMALL_GPU_BYTES = 70 << 30
"""GPUs below this size count as small, because settings for 80 GB do not fit."""

LONE_GPUS = ((20 << 30, "rtx16g"), (SMALL_GPU_BYTES, "rtx24g"), (120 << 30, "h100x1"))
"""The hardware group for one GPU below each size in bytes."""

NODE_SIZES = (8, 4, 2, 1)


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

    def overrides(self) -> list[str]:
        """The groups for this machine: full training of a small model on a CPU, adapters and vLLM on GPUs."""
        if not self.gpus:
            return ["hardware=cpu", "lora=off", "rollout=transformers"]
        if self.gpus == 1 or self.gpu_bytes < SMALL_GPU_BYTES:
            for most, group in LONE_GPUS:
                if self.gpu_bytes < most:
                    return [f"hardware={group}"]
        return [f"hardware=h200x{next(size for size in NODE_SIZES if size <= self.gpus)}"]


@cache
def this_machine() -> Hardware:
    """The hardware of this machine."""
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    sizes = [torch.cuda.get_device_properties(index).total_memory for index in range(gpus)]
    return Hardware(cores=len(os.sched_getaffinity(0)), gpus=gpus, gpu_bytes=min(sizes, default=0))
