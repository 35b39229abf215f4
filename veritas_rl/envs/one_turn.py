"""Environments of one question and one answer: a function makes the questions, and a decorator the environment.

    @environment("quiz", cases=("sums", "differences"), form=r"-?[0-9]+")
    def quiz(case, random):
        first, second = random.randrange(50), random.randrange(50)
        sign, truth = ("+", first + second) if case == "sums" else ("-", first - second)
        return Question(f"{first} {sign} {second} = ?", str(truth))

A tool takes it as `--env quiz.py:quiz`, the trainer as `environment=quiz.py:quiz`. Equal tasks have equal questions in
every process, a quarter of the questions belongs to validation, and the answer is read from a box. What the function
does wrong is a `UserError` with its line.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from numbers import Real
from random import Random
from typing import Any, ClassVar

from veritas_rl.envs.answers import boxed
from veritas_rl.envs.audit import Audit
from veritas_rl.envs.base import Reason, Reply, Score, Session, Turn
from veritas_rl.envs.environment import Environment, PlayerKind
from veritas_rl.envs.own_code import calls, first_line, watched
from veritas_rl.envs.single import SingleAnswerAudit, SingleAnswerConfig, SingleAnswerSession, with_level
from veritas_rl.envs.task import Manner, Pay, Task
from veritas_rl.errors import UserError
from veritas_rl.seeding import digest, generator, uniform

VALIDATION_SHARE = 0.25
"""The share of the questions in validation."""

TRIES = 1000
"""The most questions that are made until one belongs to the split of its task."""

LOOKED_AT = 16
"""The tasks of a case that are looked at before the first use, and the tasks among which repetitions are counted."""


@dataclass(frozen=True)
class Question:
    """A question.

    Attributes:
        text: The question, as a model sees it.
        truth: The right answer, as it stands in a box.
    """

    text: str
    truth: str


@dataclass(frozen=True)
class Words:
    """What the author of an environment says of it; see `environment`."""

    form: str
    levels: int
    score: Callable[[Question, str], float] | None
    canonical: Callable[[str], Any]
    split_by: Callable[[Question], str]
    demonstration: Callable[[Question], str] | None
    teacher: Callable[[Question], str] | None


def environment(
    name: str,
    *,
    form: str = "",
    cases: Sequence[str] = ("all",),
    levels: int = 0,
    score: Callable[[Question, str], float] | None = None,
    canonical: Callable[[str], Any] = str,
    split_by: Callable[[Question], str] = lambda question: question.text,
    demonstration: Callable[[Question], str] | None = None,
    teacher: Callable[[Question], str] | None = None,
) -> Callable[[Callable[..., Question]], "OneTurn"]:
    """Make an environment of the decorated function, which makes a question of `(case, random)`.

    Args:
        name: The environment's name in tasks, metrics and recipes.
        form: A regular expression that matches every readable answer completely. Another answer is a mistake.
        cases: The kinds of questions.
        levels: The number of levels of difficulty. The function then takes `(case, level, random)`, with levels from 1,
            a case is named `sums_level_1`, and the default curriculum begins with the first level.
        score: The value of a readable answer, in [0, 1]; by default 1 for the truth, else 0. Success is a value of 1.
        canonical: Gives equal values for different spellings of one answer, such as `float` for 0.5 and .50.
        split_by: What decides the split of a question. Questions that are one and the same problem give the same text.
        demonstration: The worked way to the answer, which demonstrations show before the box.
        teacher: A player named "teacher", which replies to a question. Demonstrations and the warm-up imitate it.

    Raises:
        UserError: Something is missing or wrong; the message has the line of the function.
    """

    def decorate(make: Callable[..., Question]) -> OneTurn:
        place = first_line(make)
        if not form:
            raise UserError(
                f"{place}: the environment {name} needs form=, a regular expression of all readable answers, such as "
                'form=r"-?[0-9]+"'
            )
        try:
            re.compile(form)
        except re.error as error:
            raise UserError(f"{place}: form={form!r} is no regular expression: {error}") from error
        if not re.fullmatch(r"[A-Za-z][\w-]*", name, re.ASCII):
            raise UserError(f"{place}: a name begins with a letter and has letters, digits, - and _, not {name!r}")
        named = () if isinstance(cases, str) else tuple(cases)
        if not named or not all(isinstance(case, str) and case for case in named) or len(set(named)) < len(named):
            raise UserError(f"{place}: cases= is a sequence of names, such as cases=('sums',), not {cases!r}")
        if not isinstance(levels, int) or levels < 0:
            raise UserError(f"{place}: levels= is the number of levels, not {levels!r}")
        known = tuple(with_level(case, level) for level in range(1, levels + 1) for case in named) or named
        words = Words(form, levels, score, canonical, split_by, demonstration, teacher)
        members: dict[str, Any] = {
            "__doc__": make.__doc__,
            "name": name,
            "config_type": type("Config", (OneTurnConfig,), {"known_cases": lambda config: known}),
            "stages": tuple(
                {"name": f"level {level}", "cases": list(known[: level * len(named)])} for level in range(1, levels + 1)
            ),
        }
        if teacher:
            members |= {"teacher": "teacher", "expert": "teacher", "players": (_kind_of(teacher),)}
        return type(OneTurn.__name__, (OneTurn,), members)(make, words)

    return decorate


class OneTurnConfig(SingleAnswerConfig):
    """The settings of an environment of one question and one answer."""

    single: ClassVar[Mapping[str, Any]] = {"reward": "outcome"}


class OneTurn(Environment):
    """An environment of one question and one answer.

    Args:
        make: Makes a question.
        words: What its author says of it.
    """

    answers, solved = "answers in the asked form", "right answers"

    def __init__(self, make: Callable[..., Question], words: Words) -> None:
        self._make = make
        self._words = words
        self._looked_at: set[str] = set()
        self._question = lru_cache(maxsize=4096)(self._drawn)

    def catalogue(self, config: Any, split: str) -> Sequence[Task]:
        """The tasks: `num_tasks_per_case` of each case. The first use of a case looks at some of its questions.

        Raises:
            UserError: A question is none, or the function does what it must not do.
        """
        manner, pay = config.part(Manner), config.part(Pay)

        def make(case: str, k: int) -> Task:
            return Task(self.name, case, k, seed=config.seed, split=split, manner=manner, pay=pay)

        for case in config.cases:
            if case not in self._looked_at:
                watched(self._make, partial(self._look_at, case))
                self._looked_at.add(case)
        return config.tasks(split, make)

    def start(self, task: Task) -> Session:
        question = self.question(task)
        asked = question.text
        if task.manner.prompt != "brief":
            asked += "\n\nWrite only the answer in a box, as \\boxed{ANSWER}. Several boxes must hold the same answer."
        solution = f"\\boxed{{{question.truth}}}"
        if self._words.demonstration and task.manner.prompt != "brief":
            solution = f"{_said(self._words.demonstration, question)}\n\n{solution}"
        shown = ({"role": "user", "content": asked},)
        turn = Turn(0, shown, (), dice=(task.chance_seed, 0, 0), solution=solution, view=question)
        return SingleAnswerSession(task, turn, partial(self.judge, question))

    def question(self, task: Task) -> Question:
        """The question of a task.

        Raises:
            UserError: The function fails, or makes no question of the task's split.
        """
        return self._question(task.case, task.chance_seed, task.split)

    def judge(self, question: Question, reply: Reply) -> Score:
        """The score of a reply.

        Raises:
            UserError: The author's function fails, or gives no number in [0, 1].
        """
        said = boxed(reply)
        if isinstance(said, Reason):
            return Score(0.0, False, said)
        if not re.fullmatch(self._words.form, said):
            return Score(0.0, False, Reason.ILLEGAL)
        value = self._value(question, said)
        if value is None:
            return Score(0.0, False, Reason.ILLEGAL)
        details = {"answer": said, "value_source": "exact"}
        return Score(value, value == 1, Reason.CORRECT if value == 1 else Reason.WRONG, details)

    def equivalence_class(self, task: Task, turn: Turn | None = None) -> str:
        """The class of all tasks with the same question."""
        question = self.question(task) if turn is None else turn.view
        return f"{task.case}/{digest(self._split_text(question)):016x}"

    def audit(self) -> Audit:
        return SingleAnswerAudit(self.start)

    def survey(self, tasks: Iterable[Task], progress: Callable[[str, int, int], None]) -> Sequence[str]:
        """Cases whose tasks repeat questions."""
        texts: dict[str, list[str]] = {}
        for task in tasks:
            some = texts.setdefault(task.case, [])
            if len(some) < LOOKED_AT:
                some.append(self._split_text(self.question(task)))
        return [
            f"{self.name}: of {len(some)} tasks of {case}, {len(some) - len(set(some))} repeat a question"
            for case, some in texts.items()
            if len(set(some)) < len(some) / 2
        ]

    def _value(self, question: Question, answer: str) -> float | None:
        """The value of an answer; None if it matches the form and is no answer, such as 1.2.3 for `float`."""
        words = self._words
        if words.score is None:
            truth = calls(self._make, words.canonical, question.truth)
            try:
                given = calls(self._make, words.canonical, answer)
            except UserError as error:
                if isinstance(error.__cause__, ValueError | ArithmeticError):
                    return None
                raise
            return float(given == truth)
        value = calls(self._make, words.score, question, answer)
        if not isinstance(value, Real) or not 0 <= value <= 1:
            raise UserError(f"{first_line(words.score)}: score gave {value!r} for {answer!r}; it gives 0 to 1")
        return float(value)

    def _split_text(self, question: Question) -> str:
        return calls(self._make, self._words.split_by, question)

    def _made(self, case: str, random: Random) -> Question:
        """A question of a case. Raises `UserError` if it is none."""
        name, _, level = case.rpartition("_level_")
        question = calls(self._make, self._make, *((name, int(level)) if self._words.levels else (case,)), random)
        place = first_line(self._make)
        if not isinstance(question, Question):
            raise UserError(f"{place}: {case} gave {question!r} and no Question")
        for part, text in vars(question).items():
            if not isinstance(text, str):
                raise UserError(f"{place}: {part} of a question of {case} is no text but {text!r}: use str()")
            if not text.strip():
                raise UserError(f"{place}: {part} of a question of {case} is empty")
        return question

    def _drawn(self, case: str, chance_seed: str, split: str) -> Question:
        """The first question of the task's generator that belongs to the split."""
        random = generator(chance_seed)
        for _ in range(TRIES):
            question = self._made(case, random)
            share = uniform("split", self.name, self._split_text(question))
            if (share < VALIDATION_SHARE) == (split == "val"):
                return question
        raise UserError(
            f"{first_line(self._make)}: {TRIES} questions of {case} had none for the split {split}: draw more "
            "different ones from the argument random"
        )

    def _look_at(self, case: str) -> None:
        """Raise `UserError` for what the author of an environment most easily forgets."""
        place, first = first_line(self._make), generator("look", case)
        second = generator("look", case)
        texts = set[str]()
        for _ in range(LOOKED_AT):
            question = self._made(case, first)
            if self._made(case, second) != question:
                raise UserError(
                    f"{place}: equal generators made different questions of {case}: draw only from the argument random"
                )
            said, wrong = self.judge(question, Reply(f"\\boxed{{{question.truth}}}")), ""
            if not re.fullmatch(self._words.form, question.truth):
                wrong = f"does not match form={self._words.form!r}"
            elif said.reason not in (Reason.CORRECT, Reason.WRONG):
                wrong = "cannot be read from a box"
            elif said.value != 1:
                wrong = f"is paid {said.value:g} and not 1"
            if wrong:
                raise UserError(f"{place}: the truth {question.truth!r} of {case} {wrong}")
            texts.add(question.text)
        if len(texts) == 1:
            raise UserError(f"{place}: {LOOKED_AT} questions of {case} are all the same: draw from the argument random")


@dataclass(frozen=True)
class _Teacher:
    """The player of an author's function."""

    reply: Callable[[Question], str]

    def act(self, turns: Sequence[Turn]) -> Sequence[Reply]:
        return [Reply(_said(self.reply, turn.view)) for turn in turns]


def _said(function: Callable[[Question], str], question: Question) -> str:
    """The text that an author's function gives for a question."""
    text = calls(function, function, question)
    if not isinstance(text, str):
        raise UserError(f"{first_line(function)}: it gave {text!r} and no text")
    return text


def _kind_of(reply: Callable[[Question], str]) -> PlayerKind:
    return PlayerKind(("teacher",), "teacher", "the environment's own teacher", lambda name, seed: _Teacher(reply))
