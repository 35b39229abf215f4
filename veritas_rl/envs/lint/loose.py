"""Checks of what is paid besides the right answer, of the generator that questions draw from, and of the splits."""

import random
import re
from collections.abc import Iterator

from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.lint.answers import MANY_QUESTIONS
from veritas_rl.envs.lint.case import Case, question
from veritas_rl.envs.lint.findings import Log, NotApplicable, quote
from veritas_rl.envs.registry import is_remote
from veritas_rl.envs.task import Task

NONSENSE = ("xyzzy", "nan", "inf", "[]", "?")
"""Answers that are right nowhere, some of which programs read as a number or as an empty list."""

AROUND = ("I think that it is {}, or so it seems", "{0} {0} {0}")
"""Texts around a right answer."""

SEEDS = (1, 2)
"""Seeds of the global generator."""

_MARKED = re.compile(r"(.*(?:\\boxed\{|<answer>))(.*?)(\}|</answer>)(.*)", re.DOTALL)
"""A reply with its last answer mark or box."""


def nonsense_pays_nothing(case: Case, log: Log) -> str:
    """An answer that is right nowhere pays nothing."""
    count = 0
    for task, turn, before, truth, behind in _solutions(case):
        for said in NONSENSE:
            if said.casefold() == truth.strip().casefold():
                continue
            with log.guard(task.id):
                count += 1
                value = case.answer(task, turn.seat, Reply(f"{before}{said}{behind}")).value
                if value > 0:
                    log.found(task.id, f"{said!r} pays {value:.3g}; the right answer is {quote(truth)}")
    return f"{count} answers"


def answers_stand_alone(case: Case, log: Log) -> str:
    """A right answer inside a sentence, or several times in one mark, does not pay in full."""
    count = 0
    for task, turn, before, truth, behind in _solutions(case):
        with log.guard(task.id):
            once = case.answer(task, turn.seat, Reply(f"{before}{truth}{behind}")).value
            for around in AROUND:
                said = around.format(truth.strip())
                count += 1
                value = case.answer(task, turn.seat, Reply(f"{before}{said}{behind}")).value
                if value >= once > 0:
                    log.found(task.id, f"{quote(said)} pays as much as {quote(truth)}")
    return f"{count} answers"


def own_generator(case: Case, log: Log) -> str:
    """Questions do not depend on the global generator, and leave its state as it is."""
    if is_remote(case.tasks[0]):
        raise NotApplicable("a server has a generator of its own")
    kept = random.getstate()
    try:
        for task in case.tasks:
            with log.guard(task.id):
                shown = set()
                for seed in SEEDS:
                    random.seed(seed)
                    before = random.getstate()
                    shown.add(question(list(case.environment.start(task).turns())))
                    if random.getstate() != before:
                        log.found(task.id, "the task draws from the global generator")
                if len(shown) > 1:
                    log.found(task.id, "the question depends on the global generator")
    finally:
        random.setstate(kept)
    return f"{len(case.tasks)} tasks, {len(SEEDS)} seeds each"


def splits_apart(case: Case, log: Log) -> str:
    """Training and validation share no question, if there are enough."""
    if case.tasks[0].mode == "episode":
        raise NotApplicable("whole games may begin alike")
    if is_remote(case.tasks[0]):
        raise NotApplicable("a server knows no split")
    exist = case.audit.question_count(case.tasks[0])
    if exist is not None and exist < MANY_QUESTIONS * len(case.tasks):
        raise NotApplicable(f"{exist} questions exist")
    here = {question(turns): task.id for task, turns in case.asked}
    count = 0
    for task in case.others:
        with log.guard(task.id):
            count += 1
            shown = question(list(case.environment.start(task).turns()))
            if shown in here:
                log.found(task.id, f"the question is that of {here[shown]}")
    return f"{count} questions of validation"


def _solutions(case: Case) -> Iterator[tuple[Task, Turn, str, str, str]]:
    """Tasks whose solution has an answer mark or a box: the task, its turn, and the parts of the solution.

    Raises:
        NotApplicable: There is none.
    """
    found = False
    for task, turns in case.asked:
        for turn in turns[:1]:
            if parts := _MARKED.fullmatch(turn.solution):
                found = True
                yield task, turn, parts[1], parts[2], parts[3] + parts[4]
    if not found:
        raise NotApplicable("no solution has an answer mark or a box")
