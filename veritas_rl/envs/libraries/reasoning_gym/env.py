"""The environment of reasoning-gym.

Each task draws a seed of its own, because neighbouring seeds of the library share questions. A hash of the question
decides the split.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from queue import Full, Queue
from threading import Thread
from time import perf_counter
from typing import Any, ClassVar

from veritas_rl.envs.audit import Audit
from veritas_rl.envs.base import Session, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.libraries.reasoning_gym import sets
from veritas_rl.envs.libraries.reasoning_gym.scoring import Question, can_be_answered, judge, solution
from veritas_rl.envs.libraries.words import shared_words
from veritas_rl.envs.single import LevelledConfig, SingleAnswerAudit, SingleAnswerSession, split_level
from veritas_rl.envs.task import Manner, Parameters, Pay, Task
from veritas_rl.errors import UserError
from veritas_rl.seeding import digest, generator, uniform

VALIDATION_SHARE = 0.1
"""The share of the questions in validation. A training task draws 1.1 questions on average."""

TRIES = 200
"""The most questions that are drawn until one belongs to the split of its task."""

LOOKED_AT = 16
"""The questions of a case that are looked at for its words."""

SLOW = 0.05
"""Seconds. If two questions of a case took longer, the next ones are made in the background. The first question of a
case also loads its data."""

AHEAD = 1024
"""The most questions that wait for the background."""

_slow: Counter[str] = Counter()
"""How many questions of a case took longer than `SLOW`."""


@dataclass(frozen=True)
class ReasoningGymManner(Manner):
    """How a question is shown: "full" says how to answer; "brief" shows only the question."""

    prompts: ClassVar[tuple[str, ...]] = ("full", "brief")


@dataclass(frozen=True)
class ReasoningGymPay(Pay):
    """The pay of an answer: "outcome" pays 1 for the full score, else 0; "partial" pays the library's score."""

    rewards: ClassVar[tuple[str, ...]] = ("outcome", "partial")


@dataclass(frozen=True)
class ReasoningGymTask(Task):
    """One question of a set."""

    manner: ReasoningGymManner = ReasoningGymManner()
    pay: ReasoningGymPay = ReasoningGymPay()


class ReasoningGymConfig(LevelledConfig):
    """The settings of questions.

    Attributes:
        cases: Sets, such as chain_sum with its own settings or chain_sum_level_2 for a level of its curriculum. A list,
            or a text with commas; empty for all sets.
        levels: Levels, from 1, of sets that are named without one. Sets of fewer levels are left out, and sets
            without a curriculum keep their own settings. Empty for each set's own settings.
        prompt: "full" says how to answer; "brief" shows only the question.
        reward: "outcome" pays for the full score of the library alone; "partial" pays its score.
    """

    part_types = (Parameters, ReasoningGymManner, ReasoningGymPay)

    def known_cases(self) -> tuple[str, ...]:
        """The sets that can be used."""
        return sets.names()

    def accepts(self, case: str) -> bool:
        """Whether a case names a set and a level.

        Raises:
            UserError: The set or the level cannot be used, or does not exist.
        """
        if split_level(case)[0] not in sets.library().DATASETS:
            return False
        sets.settings_of(case, 0)
        return True

    def cases_at(self, name: str) -> list[str]:
        """The levels of a set that exist; the set itself if it has no curriculum."""
        return sets.cases_of(name, self.levels)


class ReasoningGymEnvironment(Environment):
    """The sets of questions of reasoning-gym."""

    name: ClassVar[str] = sets.NAME
    config_type = ReasoningGymConfig
    task_type: ClassVar[type[Task]] = ReasoningGymTask
    stages: ClassVar[tuple[Mapping[str, Any], ...]] = tuple(
        {"name": f"level {last}", "levels": list(range(1, last + 1))} for last in range(1, 5)
    )
    answers, solved = "answers in the asked form", "right answers"

    def __init__(self) -> None:
        self._coming: Queue[tuple[str, str, str]] = Queue(AHEAD)
        self._background: Thread | None = None

    def catalogue(self, config: ReasoningGymConfig, split: str) -> Sequence[Task]:
        """The tasks: `num_tasks_per_case` of each case, case by case."""
        manner, pay = config.part(ReasoningGymManner), config.part(ReasoningGymPay)

        def make(case: str, k: int) -> Task:
            return ReasoningGymTask(self.name, case, k, seed=config.seed, split=split, manner=manner, pay=pay)

        return config.tasks(split, make)

    def start(self, task: Task) -> Session:
        """A new session of a task.

        Raises:
            UserError: The set cannot be used, or has no question of the task's split.
        """
        question, brief = self.question(task), task.manner.prompt == "brief"
        asked = question.text
        if not brief:
            asked += (
                "\n\nWrite the final answer, and nothing else, between <answer> and </answer>. If you write several "
                "answers, they must be equal."
            )
        turn = Turn(
            seat=0,
            messages=({"role": "user", "content": asked},),
            answers=(),
            dice=(task.chance_seed, 0, 0),
            solution="" if question.truth is None else solution(question.truth, brief),
            view=question,
        )
        partly = task.pay.reward == "partial"
        return SingleAnswerSession(
            task, turn, partial(judge, question, name=split_level(task.case)[0], brief=brief, partly=partly)
        )

    def prepare(self, tasks: Iterable[Task]) -> None:
        """Make the questions of slow cases in the background, as far as there is room for them in the queue."""
        for task in tasks:
            if _slow[task.case] > 1:
                if self._background is None:
                    self._background = Thread(target=self._make_ahead, name=self.name, daemon=True)
                    self._background.start()
                with suppress(Full):
                    self._coming.put_nowait(_identity(task))

    def question(self, task: Task) -> Question:
        """The question of a task.

        Raises:
            UserError: The set cannot be used, or has no question of the task's split.
        """
        return _drawn(*_identity(task))

    def words(self, cases: Iterable[str]) -> Sequence[str]:
        """The words that most questions of a case share."""
        texts = ([sets.asked(case, index).text for index in range(LOOKED_AT)] for case in cases)
        return sorted(set().union(*map(shared_words, texts)))

    def equivalence_class(self, task: Task, turn: Turn | None = None) -> str:
        """The class of all tasks with the same question."""
        question = self.question(task) if turn is None else turn.view
        return f"{task.case}/{digest(question.text):016x}"

    def refused(self) -> Mapping[str, str]:
        """The sets and levels that cannot be used, and why."""
        return {**sets.REFUSED, **sets.REFUSED_LEVELS}

    def audit(self) -> Audit:
        return SingleAnswerAudit(self.start)

    def _make_ahead(self) -> None:
        while True:
            with suppress(UserError):  # it is raised again where the question is asked
                _drawn(*self._coming.get())


def _identity(task: Task) -> tuple[str, str, str]:
    return task.case, task.chance_seed, task.split


@lru_cache(maxsize=4096)
def _drawn(case: str, chance_seed: str, split: str) -> Question:
    """The first question of the task's generator that belongs to the split and can be answered.

    Raises:
        UserError: The set cannot be used, or has no such question.
    """
    drawing = generator(chance_seed)
    for _ in range(TRIES):
        started = perf_counter()
        try:
            question = sets.asked(case, drawing.randrange(1 << 31))
        except sets.NotMade:
            continue
        _slow[case] += perf_counter() - started > SLOW
        in_validation = uniform("split", sets.NAME, question.text) < VALIDATION_SHARE
        if in_validation == (split == "val") and can_be_answered(split_level(case)[0], question):
            return question
    raise UserError(
        f"{TRIES} questions of {case} had none for the split {split}: it has too few different ones, or fails"
    )
