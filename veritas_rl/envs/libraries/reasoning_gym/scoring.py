"""What is an answer to a question of reasoning-gym, and what it is paid.

The library scores an answer. Some of its scores would pay for more than a right answer, or evaluate an answer as
Python, so `paid_answer` decides first which answers it sees.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from veritas_rl.envs.answers import boxed
from veritas_rl.envs.answers.parts import code_blocks
from veritas_rl.envs.base import Reason, Reply, Score, error_detail

EXACT = (
    "binary_matrix",
    "figlet_font",
    "knights_knaves",
    "spell_backward",
    "spiral_matrix",
    "string_insertion",
    "time_intervals",
)
"""Sets whose right answer is compared as a text here. Their scores pay parts and surplus, or evaluate an answer."""

FORMS = {"countdown": r"[0-9+\-*/() ]{1,200}", "n_queens": r"[_Q\s]*"}
"""The regular expressions of all answers of sets whose scores evaluate an answer as Python."""

PLANS = ("jugs",)
"""Sets whose right answers have any number of words."""

SCORE_ERROR = "score_error"
"""The key of the details of a score that has what the library's score raised."""

MOST_WITHOUT_TRUTH = 10_000
"""The most characters of an answer to a question without a right answer."""

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,2})?", re.IGNORECASE)
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")
"""A number with commas between its thousands."""
_NO_NUMBER = re.compile(r"(?<![a-z])(nan|inf(inity)?)(?![a-z])", re.IGNORECASE)
"""What Python reads as a number that compares with nothing, or with everything."""
_TRUTH_VALUES = ("true", "false", "yes", "no")


class ScoreFailed(Exception):
    """The library's score of an answer raised; the text has its error."""


@dataclass(frozen=True)
class Question:
    """A question.

    Attributes:
        text: The question, as the library asks it.
        truth: The right answer; None if the library has only a rule for it.
        score: The library's score of an answer, from 0 to 1. It may raise for an answer that it cannot read.
    """

    text: str
    truth: str | None
    score: Callable[[str], float]


def judge(question: Question, reply: Reply, name: str, brief: bool, partly: bool) -> Score:
    """The score of a reply.

    Args:
        question: A question that `can_be_answered`, so that its right answer need not be scored again.
        reply: Any reply.
        name: The question's set.
        brief: Whether the reply is the answer if it marks none.
        partly: Whether a part of the library's score is paid.
    """
    said = read(reply, brief)
    if isinstance(said, Reason):
        return Score(0.0, False, said)
    right = question.truth is not None and said == question.truth.strip()
    details = {"answer": said, "value_source": "exact"}
    try:
        value = 1.0 if right else paid_answer(name, question, said)
    except ScoreFailed as error:
        # Some scores raise for an answer that they cannot read. It pays nothing, and the error is kept, because it may
        # be a fault of the library.
        value = 0.0
        details[SCORE_ERROR] = str(error)
    if value == 1:
        return Score(1.0, True, Reason.CORRECT, details)
    return Score(value if partly else 0.0, False, Reason.WRONG, details)


def read(reply: Reply, brief: bool) -> str | Reason:
    """The answer of a reply: the content of its answer marks and boxes, without a code block around it."""
    return boxed(reply, _bare, whole=brief)


def solution(truth: str, brief: bool) -> str:
    """A reply with an answer: the answer itself if a brief question is answered so, else in an answer mark."""
    return truth if brief and read(Reply(truth), True) == truth.strip() else _marked(truth)


def paid_answer(name: str, question: Question, answer: str) -> float:
    """The library's score of an answer, from 0 to 1; 0 for what it must not pay, or must not see.

    - Where the right answer is a number, a truth value, or one of `EXACT`, an answer is one of them, too.
    - Where a score would evaluate an answer, the answer has one of `FORMS`, which has no names.
    - Elsewhere, except in `PLANS`, an answer has no more words than the right one, which it could say several times or
      inside a sentence.
    - No answer is much longer than the right one, because some scores need more than linear time.

    Raises:
        ScoreFailed: The library's score raised.
    """
    truth = question.truth.strip() if question.truth is not None else None
    if truth is None:
        return _scored(question, answer) if len(answer) <= MOST_WITHOUT_TRUTH else 0.0
    if len(answer) > 4 * len(truth) + 100:
        return 0.0
    if name in EXACT or truth.lower() in _TRUTH_VALUES:
        return float(answer.lower().split() == truth.lower().split())
    if form := FORMS.get(name):
        fits = re.fullmatch(form, answer) and "**" not in answer and "//" not in answer
        return _scored(question, answer) if fits else 0.0
    if _NUMBER.fullmatch(truth):
        plain = answer.replace(",", "") if _THOUSANDS.fullmatch(answer) else answer
        if not _NUMBER.fullmatch(plain):
            return 0.0
        # This score looks for a number anywhere, and leaves out its sign.
        return float(Decimal(plain) == Decimal(truth)) if name == "gsm_symbolic" else _scored(question, plain)
    if _NO_NUMBER.search(answer) and re.search(r"[0-9]", truth):
        return 0.0
    if name not in PLANS and len(_words(answer)) > len(_words(truth)):
        return 0.0
    return _scored(question, answer)


def can_be_answered(name: str, question: Question) -> bool:
    """Whether the right answer can be read from a reply, and is paid. True where there is only a rule for it."""
    if question.truth is None:
        return True
    bare = question.truth.strip()
    # `solution` gives a brief answer without a mark only if that can be read.
    if read(Reply(_marked(question.truth)), False) != bare:
        return False
    try:
        return paid_answer(name, question, bare) == 1
    except ScoreFailed:
        return False


def _marked(truth: str) -> str:
    return f"<answer>{truth}</answer>"


def _scored(question: Question, answer: str) -> float:
    """The library's score, between 0 and 1; 0 if it is not a number."""
    try:
        value = question.score(answer)
    except Exception as error:  # any: the scores are the library's, and so are their faults
        raise ScoreFailed(error_detail(error)) from error
    return min(value, 1.0) if value >= 0 else 0.0


def _bare(text: str) -> str:
    """A text without white space around it and without a code block around it."""
    blocks = code_blocks(text) if text.lstrip().startswith("```") else []
    return (blocks[0].text if len(blocks) == 1 else text).strip()


def _words(text: str) -> list[str]:
    """The words and numbers of a text."""
    return re.findall(r"\w+", text)
