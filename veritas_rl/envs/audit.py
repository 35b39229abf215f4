"""What an environment shows a linter about itself beside its prompts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from veritas_rl.envs.base import Turn
from veritas_rl.envs.task import Task

OwnCheck = Callable[[Sequence[Task], Callable[[str, str], None]], str]
"""A check that an environment brings: it takes tasks of one case, and a function that notes a finding, given the task's
id and what is wrong; it returns what was looked at. It raises `NotApplicable` where it does not apply."""


class NotApplicable(Exception):
    """Raised by a check that does not apply; the message says why."""


@dataclass(frozen=True)
class LegalAnswer:
    """One legal answer to a turn, as an environment knows it.

    Attributes:
        replies: Every documented way to give it, each a whole reply, such as by number and by name.
        line: The line by which a full prompt lists it.
    """

    replies: tuple[str, ...]
    line: str


@dataclass(frozen=True)
class TurnFacts:
    """What is true of a turn, whatever it shows.

    Attributes:
        to_act: The seats that have to act now; empty where nobody has.
        legal: The legal answers of the turn's seat, in the order of `Turn.answers`.
        hidden: Whether there is something that this seat must not see.
    """

    to_act: tuple[int, ...]
    legal: tuple[LegalAnswer, ...]
    hidden: bool


class Audit:
    """What an environment knows about itself, so that a linter can compare it with what it shows.

    Every method may answer None: the environment does not know. This base knows nothing.
    """

    selection: ClassVar[tuple[str, tuple[str, ...]] | None] = None
    """A key of the configuration that selects by name, and names that it must all select when given at once."""

    settings: ClassVar[Mapping[str, Sequence[Any]]] = {"num_tasks_per_case": (3, 5), "seed": (41, 43)}
    """Keys of the configuration with values, two of which must make different tasks."""

    checks: Mapping[str, OwnCheck] = MappingProxyType({})
    """Checks that only this environment knows, by name."""

    def facts(self, turn: Turn) -> TurnFacts | None:
        """The truth about a turn, from its view."""
        return None

    def phase_lines(self, turn: Turn) -> Mapping[str, bool]:
        """Beginnings of lines by which a full prompt of the turn's case shows what is asked now, each with whether this
        turn's prompt must have such a line; it must not where False. Empty where a case always asks the same."""
        return {}

    def redealt(self, task: Task, count: int) -> Sequence[Turn] | None:
        """The same seat's turn in up to `count` other states that look the same to it, as it is shown there.

        Empty where no other such state was found.
        """
        return None

    def seats_alike(self, case: str) -> bool | None:
        """Whether a case is the same game from every seat: seats passed round give results passed round."""
        return None

    def coarse(self, task: Task) -> Task:
        """The same task, valued with less work: for comparing an answer with itself."""
        return task

    def finer(self, task: Task) -> Task | None:
        """The same task on a finer scale of pay; None where there is none."""
        return None

    def pays_in_proportion(self, task: Task) -> bool:
        """Whether a won game may be worth little more than a lost one, because results are paid in proportion."""
        return False

    def question_count(self, task: Task) -> int | None:
        """How many different questions the tasks beside this one can ask; None if more than can be counted."""
        return None
