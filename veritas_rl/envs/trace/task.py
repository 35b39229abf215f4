"""What a trace task adds to `Task`."""

from dataclasses import dataclass
from typing import ClassVar

from veritas_rl.envs.task import Manner, Parameters, Pay, Task, check_choice
from veritas_rl.envs.trace.injection import MOST_PRINTS
from veritas_rl.errors import UserError

PROMPTS = ("full", "brief")
COMPARISONS = ("exact", "lenient")


@dataclass(frozen=True)
class TraceParameters(Parameters):
    """What chooses the program, beside what every task has.

    Attributes:
        debug_prints: At most so many prints `__DBG_0__` .. `__DBG_5__` are injected.
    """

    debug_prints: int = MOST_PRINTS

    def __post_init__(self) -> None:
        if not 0 <= self.debug_prints <= MOST_PRINTS:
            raise UserError(f"debug_prints must lie between 0 and {MOST_PRINTS}, {self.debug_prints} was given")


@dataclass(frozen=True)
class TraceManner(Manner):
    """How a program is shown: "full" says what is asked and how to answer, "brief" shows the program alone."""

    prompts: ClassVar[tuple[str, ...]] = PROMPTS


@dataclass(frozen=True)
class TracePay(Pay):
    """What an answer is worth.

    Attributes:
        reward: "outcome" pays 1 for the right output and nothing else; "partial" pays a wrong one the share of its
            lines that are right.
        compare: "exact" strips white space from the ends of lines and from the end; "lenient" also takes any white
            space between words for a space, and leaves empty lines out.
    """

    rewards: ClassVar[tuple[str, ...]] = ("outcome", "partial")

    compare: str = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("compare", self.compare, COMPARISONS)


@dataclass(frozen=True)
class TraceTask(Task):
    """One program, whose output is asked."""

    parameters: TraceParameters = TraceParameters()
    manner: TraceManner = TraceManner()
    pay: TracePay = TracePay()
