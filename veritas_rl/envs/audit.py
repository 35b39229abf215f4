"""The facts that an environment reports to the linter, in addition to its prompts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from veritas_rl.envs.base import Turn
from veritas_rl.envs.task import Task

OwnCheck = Callable[[Sequence[Task], Callable[[str, str], None]], str]
"""A check that an environment adds. It takes the tasks of one case, and a function that records a finding from a task's
id and a text. It returns a remark on what it checked, and raises `NotApplicable` if it does not apply."""


class NotApplicable(Exception):
    """Raised by a check that does not apply; the message gives the reason."""


@dataclass(frozen=True)
class LegalAnswer:
    """One legal answer to a turn.

    Attributes:
        replies: All documented replies that give this answer, such as by number and by name.
        line: The line of a full prompt that lists this answer.
    """

    replies: tuple[str, ...]
    line: str


@dataclass(frozen=True)
class TurnFacts:
    """The facts of a turn, independent of its prompt.

    Attributes:
        to_act: The seats to move; empty if there are none.
        legal: The legal answers of the turn's seat, in the order of `Turn.answers`.
        hidden: Whether there is information hidden from this seat.
    """

    to_act: tuple[int, ...]
    legal: tuple[LegalAnswer, ...]
    hidden: bool


class Audit:
    """The facts of an environment, which the linter compares with its prompts.

    Every method may return None for an unknown fact. In this base class all facts are unknown.
    """

    selection: ClassVar[tuple[str, tuple[str, ...]] | None] = None
    """A key of the configuration that selects tasks, and several names that it must be able to select together."""

    settings: ClassVar[Mapping[str, Sequence[Any]]] = {"num_tasks_per_case": (3, 5), "seed": (41, 43)}
    """Keys of the configuration, each with values that must give different tasks."""

    checks: Mapping[str, OwnCheck] = MappingProxyType({})
    """Further checks of this environment, by name."""

    def facts(self, turn: Turn) -> TurnFacts | None:
        """The facts of a turn, from its view."""
        return None

    def phase_lines(self, turn: Turn) -> Mapping[str, bool]:
        """The beginnings of the lines by which full prompts show the phase of the game; empty for a single phase.

        True means that the prompt of this turn must have such a line, and False that it must not.
        """
        return {}

    def redealt(self, task: Task, count: int) -> Sequence[Turn] | None:
        """The same seat's turn in up to `count` other states that this seat cannot distinguish.

        Empty if no such state was found.
        """
        return None

    def seats_alike(self, case: str) -> bool | None:
        """Whether a case is symmetric in its seats, so that rotated seats give rotated results."""
        return None

    def coarse(self, task: Task) -> Task:
        """The same task with a cheaper estimate of values, for comparisons of the same answer."""
        return task

    def finer(self, task: Task) -> Task | None:
        """The same task with a finer scale of values; None if there is none."""
        return None

    def pays_in_proportion(self, task: Task) -> bool:
        """Whether a win may be worth little more than a loss, because the pay is proportional to the result."""
        return False

    def question_count(self, task: Task) -> int | None:
        """The number of different questions in the case of this task; None if there are too many to count."""
        return None
