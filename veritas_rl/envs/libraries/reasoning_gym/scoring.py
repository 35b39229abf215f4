"""What is an answer to a question of reasoning-gym, and what it is paid.

The library scores an answer. Some of its scores would pay for more than a right answer, or evaluate an answer as
Python, so `paid_answer` decides first which answers it sees.
"""

import ast
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO

from veritas_rl.envs.answers import marked, visible_part
from veritas_rl.envs.answers.parts import code_blocks
from veritas_rl.envs.base import Reason, Reply, Score

LITERALS = ("binary_matrix", "n_queens", "spiral_matrix", "string_insertion")
"""Sets whose scoring evaluates an answer as Python, to find a list."""

NUMBERS, FORMULAS = ("countdown",), ("intermediate_integration", "simple_integration")
"""Sets whose scoring evaluates an answer as Python, to find a number, or a formula with names and functions."""

WITH_ENDS = ("spell_backward",)
"""Sets whose scoring pays an answer that goes on after the right one in full."""

FUNCTIONS = ("Abs", "acos", "asin", "atan", "cos", "cosh", "exp", "ln", "log", "sin", "sinh", "sqrt", "tan", "tanh")
"""The functions that a formula may have."""

MOST_NODES = 200
"""The most operations, numbers and names of a formula, as nodes of its syntax tree."""

MOST_POWER = 64
"""The largest product of nested exponents of a formula."""

NESTED = 8
"""A function counts as a power of this exponent, so that two may be nested."""

MOST_NUMBER = 1e12
"""The largest number of a formula."""

_NO_NUMBER = re.compile(r"nan|inf|[0-9]e\+?[0-9]{3}", re.IGNORECASE)
"""What Python reads as a number that compares with nothing, or with everything."""

_THOUSANDS = re.compile(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")
"""A number with commas between its thousands."""

_TRUTH_VALUES = ("true", "false", "yes", "no")


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
        question: The question.
        reply: Any reply.
        name: The question's set.
        brief: Whether the reply is the answer if it marks none.
        partly: Whether a part of the library's score is paid.
    """
    said = read(reply, brief)
    if isinstance(said, Reason):
        return Score(0.0, False, said)
    value = paid_answer(name, question, said)
    details = {"answer": said, "value_source": "exact"}
    if value == 1:
        return Score(1.0, True, Reason.CORRECT, details)
    return Score(value if partly else 0.0, False, Reason.WRONG, details)


def read(reply: Reply, brief: bool) -> str | Reason:
    """The answer of a reply: the content of its answer marks and boxes, without a code block around it."""
    said = visible_part(reply)
    if isinstance(said, Reason):
        return said
    found = marked(said)
    if isinstance(found, Reason):
        return found
    if not found and brief and isinstance(said, str):
        found = [said]
    answers = {_bare(text) for text in found}
    if len(answers) > 1:
        return Reason.AMBIGUOUS
    return (answers.pop() if answers else "") or Reason.UNPARSEABLE


def solution(truth: str, brief: bool) -> str:
    """A reply with an answer: the answer itself if a brief question is answered so, else in an answer mark."""
    return truth if brief and read(Reply(truth), True) == truth.strip() else f"<answer>{truth}</answer>"


def paid_answer(name: str, question: Question, answer: str) -> float:
    """The library's score of an answer, from 0 to 1; 0 for what it must not pay, or must not run.

    - An answer with more words than the right one, which may say it several times or inside a sentence.
    - An answer that goes on after the right one.
    - "nan" and "inf", which some comparisons take for any number.
    - Another word where the right answer is a truth value.
    - Python that is neither a literal nor a formula, where the scoring evaluates answers.
    """
    truth = question.truth
    if truth is not None and "," not in truth and _THOUSANDS.fullmatch(answer):
        answer = answer.replace(",", "")
    if not _is_scored(name, truth, answer):
        return 0.0
    if truth is not None and truth.strip().lower() in _TRUTH_VALUES:
        return float(answer.lower() == truth.strip().lower())
    try:
        with redirect_stdout(StringIO()):  # some scores print
            value = float(question.score(answer))
    except Exception:
        # The library's scores raise for some answers that they cannot read.
        return 0.0
    return min(value, 1.0) if value >= 0 else 0.0


def _is_scored(name: str, truth: str | None, answer: str) -> bool:
    """Whether the library may see an answer; see `paid_answer`."""
    if name in LITERALS:
        return answer == truth or _is_literal(answer)
    if name in (*NUMBERS, *FORMULAS):
        return _is_formula(answer, name in FORMULAS)
    if name in WITH_ENDS and truth is not None and len(answer) > len(truth):
        return False
    if _NO_NUMBER.search(answer) and not _NO_NUMBER.search(truth or ""):
        return False
    return truth is None or len(_words(answer)) <= len(_words(truth))


def _bare(text: str) -> str:
    """A text without white space around it and without a code block around it."""
    blocks = code_blocks(text) if text.lstrip().startswith("```") else []
    return (blocks[0].text if len(blocks) == 1 else text).strip()


def _words(text: str) -> list[str]:
    """The words and numbers of a text."""
    return re.findall(r"\w+", text)


def _is_literal(answer: str) -> bool:
    """Whether Python's evaluation of an answer does nothing: it is a literal, or words and numbers alone."""
    if re.fullmatch(r"[\w\s,]*", answer):
        return True
    try:
        ast.literal_eval(answer)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return True


def _is_formula(answer: str, named: bool) -> bool:
    """Whether an answer is a formula whose evaluation is quick, with names and known functions only if `named`."""
    try:
        body = ast.parse(answer, mode="eval").body
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    parts = [*ast.walk(body)]
    if len(parts) > MOST_NODES or (not named and any(isinstance(part, ast.Name) for part in parts)):
        return False
    try:
        return _power(body) <= MOST_POWER
    except ValueError:
        return False


def _power(node: ast.expr) -> float:
    """The largest product of nested exponents. Raises `ValueError` for anything that is no part of a formula."""
    match node:
        case ast.Constant(value=int() | float() as number) if (
            not isinstance(number, bool) and abs(number) < MOST_NUMBER
        ):
            return 1
        case ast.Name(id=name) if len(name) == 1 or name in ("pi", *FUNCTIONS):
            return 1
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            return _power(operand)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            return max(_power(left), _power(right))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return max(1.0, _size(right)) * _power(left)
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
            return NESTED * _power(argument)
    raise ValueError


def _size(node: ast.expr) -> float:
    """The largest absolute value of an exponent, in which a name counts as 1. Raises `ValueError` as `_power`."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return abs(number)
        case ast.Name():
            return 1
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            return _size(operand)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return _size(left) + _size(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _size(left) * _size(right)
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=int() | float() as number)) if number:
            return _size(left) / abs(number)
    raise ValueError


def can_be_answered(name: str, question: Question) -> bool:
    """Whether the right answer can be read from a reply, and is paid."""
    truth = question.truth
    if truth is None:
        return True
    bare = truth.strip()
    if any(read(Reply(solution(truth, brief)), brief) != bare for brief in (True, False)):
        return False
    return _is_scored(name, truth, bare) and (bare == truth or paid_answer(name, question, bare) == 1)
