"""Common parts of single-answer environments: a session, a catalogue, an audit, a base configuration."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from veritas_rl.configs import split_list
from veritas_rl.envs.audit import Audit, TurnFacts
from veritas_rl.envs.base import Reply, Score, Session, Turn
from veritas_rl.envs.lazy import LazyTasks
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


@dataclass(frozen=True)
class SingleAnswerConfig:
    """The settings of every single-answer environment. Each environment defines `known_cases`.

    Attributes:
        cases: Names of cases, as a list or a text with commas; empty for all. The value becomes a tuple.
        num_tasks_per_case: The number of tasks of each case.
        seed: The seed of the set of tasks.
        prompt: The kind of prompt, see `Manner`.
        reward: The reward, see `Pay`.
        legal_share: The share of the reward that is paid for an answer that could be read.

    Raises:
        UserError: A value is invalid; the message names a valid one.
    """

    cases: Any = ()
    num_tasks_per_case: int = 1000
    seed: int = 42
    prompt: str = "full"
    reward: str = "outcome"
    legal_share: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("num_tasks_per_case", 1), ("seed", 0)):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least))
        named = split_list(self.cases, "cases")
        known = self.known_cases()
        for case in named:
            if case not in known and not self.accepts(case):
                raise unknown("case", case, known)
        object.__setattr__(self, "cases", tuple(dict.fromkeys(named)) or known)

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


def whole_number(name: str, value: Any, least: int) -> int:
    """An integer from an integer or a text.

    Raises:
        UserError: The value is no integer, or is less than `least`.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{name} must be a whole number of at least {least}, {value!r} was given")
    return value
