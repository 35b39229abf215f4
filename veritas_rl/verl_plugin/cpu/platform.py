"""A CPU as a verl platform. Choose it with VERL_PLATFORM=cpu.

Ray gets one resource "GPU" for each rank, because verl's resource pools ask for that resource on every platform.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import psutil
import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry


class _CpuDeviceModule(ModuleType):
    """`torch.cpu` with the functions of `torch.cuda` that verl uses. Memory figures are those of this process."""

    def __init__(self) -> None:
        super().__init__("veritas_rl_cpu_device")

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def empty_cache(self) -> None:
        """A CPU has no cache of its own to empty."""

    def ipc_collect(self) -> None:
        """A CPU has no handles to collect."""

    def memory_allocated(self, device: object = None) -> int:
        """Resident memory of this process, in bytes."""
        return psutil.Process().memory_info().rss

    def max_memory_allocated(self, device: object = None) -> int:
        """The peak resident memory of this process, in bytes."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    memory_reserved = memory_allocated
    max_memory_reserved = max_memory_allocated

    def mem_get_info(self, device: object = None) -> tuple[int, int]:
        """Free and total memory of the machine, in bytes."""
        memory = psutil.virtual_memory()
        return memory.available, memory.total

    def get_device_name(self, device: object = None) -> str:
        return "cpu"

    def get_rng_state(self, device: object = None) -> torch.Tensor:
        """The state of the CPU's random generator."""
        return torch.get_rng_state()

    def set_rng_state(self, new_state: torch.Tensor, device: object = None) -> None:
        """Set the generator's state. verl calls it when it loads a checkpoint."""
        torch.set_rng_state(new_state)


class CpuPlatform(PlatformBase):
    """verl's device interface on a CPU: gloo, no CUDA IPC, no device profiler."""

    _module = _CpuDeviceModule()

    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def vendor_name(self) -> str:
        return "cpu"

    @property
    def device_module(self) -> ModuleType:
        return self._module

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """Always False: a machine whose GPU is not visible must not silently train on its CPU."""
        return False

    def current_device(self) -> Any:
        """ "cpu" instead of an index, because verl calls `tensor.to(current_device())`, where 0 means a GPU."""
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        """There is one CPU device."""

    def synchronize(self, device_index: int | None = None) -> None:
        """CPU work is synchronous."""

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """There is no device allocator to set."""

    def empty_cache(self) -> None:
        """A CPU has no cache of its own to empty."""

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        yield

    def profiler_start(self) -> None:
        """There is no device profiler."""

    def profiler_stop(self) -> None:
        """There is no device profiler."""

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


def register() -> None:
    """Add the platform "cpu" to verl's registry."""
    PlatformRegistry.register(platform="cpu")(CpuPlatform)
