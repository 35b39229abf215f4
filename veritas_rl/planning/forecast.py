"""The base class of plans: phases with their memory, and whether they fit."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from veritas_rl.planning.devices import GIB, Device
from veritas_rl.planning.duration import Assumptions
from veritas_rl.planning.models import Shape
from veritas_rl.planning.serving import CONTEXT

JUDGING = "judging, before and after"
"""The judgements of a run, as a part of its time."""

ERROR = 0.15
"""The relative error of a forecast, see docs/planning.md. A run beyond this error cannot fit."""

FRAGMENTED = 0.05
"""The allocator's overhead as a share of the trainer's temporary memory. Assumed."""

COLLECTIVES = int(0.6 * GIB)
"""NCCL buffers in the trainer's process with several GPUs. Assumed."""

CPU_PROCESS = int(0.55 * GIB)
"""A process that has imported torch, transformers and verl, on a CPU. Measured."""

STEP = 1024
"""The step of the search for the largest micro-batch, in tokens."""

MOST_STEPS = 1024
"""The end of the search, in steps: a million tokens."""


@dataclass(frozen=True)
class Phase:
    """One phase of a step on one device.

    Attributes:
        name: The phase's name.
        parts: Bytes by part.
        setting: The setting that changes the phase's memory.
    """

    name: str
    parts: Mapping[str, int]
    setting: str

    @property
    def total(self) -> int:
        """Bytes of the device."""
        return sum(self.parts.values())

    @property
    def largest(self) -> str:
        """The part that takes the most memory."""
        return max(self.parts, key=lambda part: self.parts[part])


@dataclass(frozen=True)
class Forecast(ABC):
    """The forecast of a run: device memory, host memory, disk and time.

    Attributes:
        shape: The model.
        device: One GPU, or the machine without a GPU.
        hardware: The hardware group.
        assumed: The assumptions.
    """

    shape: Shape
    device: Device
    hardware: str
    assumed: Assumptions

    @abstractmethod
    def phases(self) -> list[Phase]:
        """Each phase of a step, in order."""

    @abstractmethod
    def changes(self) -> list[str]:
        """Overrides that make the run fit, alone or together; empty if it fits already or nothing helps."""

    @abstractmethod
    def host(self) -> dict[str, int]:
        """Memory of one node's host, by part."""

    @abstractmethod
    def checkpoint(self) -> dict[str, int]:
        """One checkpoint on the disk, by part."""

    @abstractmethod
    def seconds(self) -> dict[str, float]:
        """A step's time by phase."""

    @abstractmethod
    def run_seconds(self) -> dict[str, float]:
        """The whole run's time by part; empty if its number of steps is not known."""

    @abstractmethod
    def tokens(self) -> tuple[float, float]:
        """Prompt and reply tokens of a step."""

    @property
    @abstractmethod
    def kept(self) -> int:
        """Checkpoints that are kept."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """Tokens of the longest sequence."""

    @abstractmethod
    def trains(self, tokens: int) -> bool:
        """Whether micro-batches of `tokens` tokens fit."""

    @property
    def peak(self) -> Phase:
        """The phase with the most memory."""
        return max(self.phases(), key=lambda phase: phase.total)

    @property
    def fits(self) -> bool:
        """Whether every phase fits into the device."""
        return self.peak.total <= self.device.memory

    def refusal(self) -> str | None:
        """Why the run cannot fit, even within the forecast's error; None if the run can fit."""
        peak = self.peak
        if peak.total * (1 - ERROR) <= self.device.memory:
            return None
        return (
            f"{peak.name} needs about {peak.total / GIB:.1f} GiB of the {self.device.memory / GIB:.1f} of "
            f"{self.device.name}, most of it for {peak.largest}"
        )

    def largest_tokens(self) -> int | None:
        """The largest micro-batch that fits in tokens, a multiple of 1024 or one longest sequence; None if no
        micro-batch fits."""
        if not self.trains(self.longest):
            return None
        fits = self.longest // STEP
        too_many = fits + 1
        while too_many < MOST_STEPS and self.trains(too_many * STEP):
            fits, too_many = too_many, too_many * 2
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            fits, too_many = (middle, too_many) if self.trains(middle * STEP) else (fits, middle)
        return max(self.longest, fits * STEP)


def process_bytes(ranks: int) -> int:
    """GPU memory of a trainer's process beside tensors."""
    return CONTEXT + (COLLECTIVES if ranks > 1 else 0)


def phase_of(name: str, parts: Mapping[str, int], setting: str) -> Phase:
    """A phase without empty parts."""
    return Phase(name, {part: size for part, size in parts.items() if size}, setting)


def with_fragments(parts: Mapping[str, int]) -> dict[str, int]:
    """Add the allocator's overhead for temporary parts."""
    passing = sum(size for name, size in parts.items() if name not in ("weights", "optimizer", "gradients"))
    return {**parts, "fragments": int(FRAGMENTED * passing)}
