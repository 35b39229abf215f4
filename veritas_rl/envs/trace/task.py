"""The task of the trace environment."""

from dataclasses import dataclass
from typing import ClassVar

from veritas_rl.envs.task import Manner, Parameters, Pay, Task, check_choice
from veritas_rl.envs.trace.injection import MOST_PRINTS
from veritas_rl.errors import UserError

PROMPTS = ("full", "brief")
COMPARISONS = ("exact", "lenient")


@dataclass(frozen=True)
class TraceParameters(Parameters):
    """The environment's own part of the identity.

    Attributes:
        debug_prints: The most prints `__DBG_0__` to `__DBG_5__` that are injected.
    """

    debug_prints: int = MOST_PRINTS

    def __post_init__(self) -> None:
        if not 0 <= self.debug_prints <= MOST_PRINTS:
            raise UserError(f"debug_prints must lie between 0 and {MOST_PRINTS}, {self.debug_prints} was given")


@dataclass(frozen=True)
class TraceManner(Manner):
    """How a program is shown: "full" with instructions, "brief" with only the program and its input."""

    prompts: ClassVar[tuple[str, ...]] = PROMPTS


@dataclass(frozen=True)
class TracePay(Pay):
    """The pay of an answer.

    Attributes:
        reward: "outcome" pays 1 for the right output and 0 otherwise; "partial" pays a wrong output the share of its
            right lines.
        compare: "exact" ignores white space at the ends of lines and of the output; "lenient" also treats any white
            space between words as one space, and ignores white space before lines and empty lines.
    """

    rewards: ClassVar[tuple[str, ...]] = ("outcome", "partial")

    compare: str = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("compare", self.compare, COMPARISONS)


@dataclass(frozen=True)
class TraceTask(Task):
    """One program, whose output is to be predicted."""

    parameters: TraceParameters = TraceParameters()
    manner: TraceManner = TraceManner()
    pay: TracePay = TracePay()
