"""Common parts of single-answer environments: a session, a catalogue, an audit, a base configuration."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import model_validator

from veritas_rl.envs.audit import Audit, TurnFacts
from veritas_rl.envs.base import Reply, Score, Session, Turn
from veritas_rl.envs.lazy import LazyTasks
from veritas_rl.envs.settings import Settings, numbers
from veritas_rl.envs.task import SPLITS, Task, check_choice
from veritas_rl.errors import UserError, unknown


class SingleAnswerSession(Session):
    """A session with one question to one seat. The first reply ends it.

    Args:
        task: The task.
        turn: The question.
        judge: Scores the reply. It never raises.
    """

    def __init__(self, task: Task, turn: Turn, judge: Callable[[Reply], Score]) -> None:
        self.task = task
        self._turn = turn
        self._judge = judge
        self._score: Score | None = None

    def turns(self) -> Sequence[Turn]:
        return [] if self._score is not None else [self._turn]

    def step(self, replies: Mapping[int, Reply]) -> None:
        if self._score is not None:
            raise RuntimeError("the session is over")
        self._score = self._judge(replies[self._turn.seat])
        if self._score.reason.is_mistake:
            self.rejected = {self._turn.seat: self._score.reason}

    def scores(self) -> dict[int, Score]:
        if self._score is None:
            raise RuntimeError("the session is not over")
        return {self._turn.seat: self._score}


class CaseTasks(LazyTasks):
    """The tasks of several cases, case by case, made on access.

    Args:
        cases: The cases.
        per_case: The number of tasks of each case.
        make: Makes a task from its case and number.
    """

    def __init__(self, cases: Sequence[str], per_case: int, make: Callable[[str, int], Task]) -> None:
        self._cases = cases
        self._per_case = per_case
        self._make = make

    def __len__(self) -> int:
        return len(self._cases) * self._per_case

    def task(self, index: int) -> Task:
        which, k = divmod(index, self._per_case)
        return self._make(self._cases[which], k)


class SingleAnswerAudit(Audit):
    """The facts of all single-answer environments, and the turns of tasks.

    Args:
        start: Starts a session of a task.
    """

    def __init__(self, start: Callable[[Task], Session]) -> None:
        self._start = start

    def facts(self, turn: Turn) -> TurnFacts:
        """The facts: the only seat is to move, answers cannot be listed, and nothing is hidden."""
        return TurnFacts(to_act=(0,), legal=(), hidden=False)

    def asked(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Turn]]:
        """Each task with its turn. Tasks that do not start are skipped; another check reports them."""
        for task in tasks:
            try:
                (turn,) = self._start(task).turns()
            except Exception:
                continue
            yield task, turn


class SingleAnswerConfig(Settings):
    """The settings of every single-answer environment. Each environment defines `known_cases`."""

    @model_validator(mode="after")
    def _has_known_cases(self) -> Self:
        known = self.known_cases()
        for case in self.cases:
            if case not in known and not self.accepts(case):
                raise unknown("case", case, known)
        self._put(cases=tuple(dict.fromkeys(self.cases)) or known)
        return self

    def known_cases(self) -> tuple[str, ...]:
        """The known cases, which are the default value of `cases`."""
        raise NotImplementedError

    def accepts(self, case: str) -> bool:
        """Whether a case exists although it is not one of `known_cases`."""
        return False

    def tasks(self, split: str, make: Callable[[str, int], Task]) -> CaseTasks:
        """The tasks of every case.

        Raises:
            UserError: There is no such split.
        """
        check_choice("split", split, SPLITS)
        return CaseTasks(self.cases, self.num_tasks_per_case, make)


_LEVEL = re.compile(r"(\w+)_level_([1-9]\d?)")


def with_level(name: str, level: int) -> str:
    """The case of one level: sudoku_level_1."""
    return f"{name}_level_{level}"


def split_level(case: str) -> tuple[str, int]:
    """The name and the level of a case; level 0 for a case without one."""
    found = _LEVEL.fullmatch(case)
    return (found[1], int(found[2])) if found else (case, 0)


class LevelledConfig(SingleAnswerConfig):
    """The settings of an environment whose cases may name a level.

    Attributes:
        levels: The levels, from 1 (the easiest), of cases that are named without one. A list, or a text with commas.
    """

    selecting_keys: ClassVar[tuple[str, ...]] = ("levels",)
    single: ClassVar[Mapping[str, Any]] = {"reward": "outcome"}

    levels: Annotated[Any, numbers(1)] = ()

    @model_validator(mode="after")
    def _with_levels(self) -> Self:
        if self.levels:
            each = [[case] if split_level(case)[1] else self.cases_at(case) for case in self.cases]
            self._put(cases=tuple(dict.fromkeys(case for cases in each for case in cases)))
            if not self.cases:
                raise UserError(f"no case has a level of levels={list(self.levels)}")
        return self

    def cases_at(self, name: str) -> list[str]:
        """The cases of a name at the levels."""
        return [with_level(name, level) for level in self.levels]
