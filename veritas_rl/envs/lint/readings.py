"""Checks that the text of an answer is not parsed as another answer."""

import re

from veritas_rl.envs.audit import TurnFacts
from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.lint.case import Case
from veritas_rl.envs.lint.findings import Log, NotApplicable, quote
from veritas_rl.envs.lint.hostile import inside_of

_NUMBER = re.compile(r"(?<![^\s(])[0-9]+(?![^\s).,:])")
"""A number that is a separate word, as in "card 5"."""


def numbers_in_names(case: Case, log: Log) -> str:
    """A number from an answer's name, used as an answer, does not select another answer."""
    count = 0
    for task, turns in case.asked:
        for turn in turns[:1]:
            names = {name for legal in _facts(case, turn).legal for _, _, name in [legal.line.partition(": ")] if name}
            for name in sorted(names):
                for number in _NUMBER.findall(name):
                    count += 1
                    with log.guard(task.id):
                        score = case.answer(task.replace(reward="legal"), turn.seat, Reply(f"\\boxed{{{number}}}"))
                        taken = score.details.get("action", name)
                        if score.legal and taken != name:
                            log.found(task.id, f"{quote(number)} plays {taken}, and there is {name}")
    return f"{count} numbers in names"


def other_answers_refused(case: Case, log: Log) -> str:
    """The name of an answer that is not legal in this turn is refused.

    The check uses names that differ from a legal name only in case, because a lowercase letter may have another meaning
    than an uppercase letter. The names are from turns that share an answer with this turn.
    """
    kinds = {frozenset(_said(case.facts(turn))) for turn in _met(case)}
    count = 0
    for task, turns in case.asked:
        for turn in turns[:1]:
            legal = _said(_facts(case, turn))
            folded = {said.casefold() for said in legal}
            others = {said for kind in kinds if kind & legal for said in kind - legal if said.casefold() in folded}
            for said in sorted(others):
                count += 1
                with log.guard(task.id):
                    score = case.answer(task.replace(reward="legal"), turn.seat, Reply(f"\\boxed{{{said}}}"))
                    if score.legal:
                        taken = score.details.get("action", "a legal answer")
                        log.found(task.id, f"{quote(said)} is not legal here and was taken as {taken}")
    return f"{count} names of other answers"


def _met(case: Case) -> list[Turn]:
    """All turns of the case's tasks and played games."""
    asked = [turn for _, turns in case.asked for turn in turns]
    return asked + [turn for _, rounds, _ in case.played for turns in rounds for turn in turns]


def _said(facts: TurnFacts | None) -> set[str]:
    """All documented boxed answers to a turn."""
    return {said for legal in facts.legal for said in inside_of(legal.replies)} if facts else set()


def _facts(case: Case, turn: Turn) -> TurnFacts:
    facts = case.facts(turn)
    if facts is None:
        raise NotApplicable("the environment does not report the names of legal answers")
    return facts
