"""Parses arithmetic in an answer, and evaluates it in exact fractions.

Expressions consist of whole numbers, + - * /, minus signs and parentheses. Powers, factorials, names, function calls
and digits of other scripts are not accepted. No text is run as a program. Numbers, depth and length are limited, so
the work is small for every text.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

MAX_CHARACTERS = 400
"""The most characters of an expression."""

MAX_DEPTH = 50
"""The deepest nesting of parentheses."""

MAX_DIGITS = 6
"""The most digits of a number."""

_TOKEN = re.compile(r"\s*(?:(?P<number>[0-9]+)|(?P<sign>[-+*/()]))")
_SQUARE = str.maketrans("[]", "()")
_TIMES = re.compile(r"(?<!^0)(?<![^0-9]0)(?<=[0-9)\s])[xX](?=[0-9(\s])")
_NEGATE = "negate"
_RANK: Mapping[str, int] = {"(": 0, "+": 1, "-": 1, "*": 2, "/": 2, _NEGATE: 3}
_OPERATIONS: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


@dataclass(frozen=True)
class Expression:
    """The value and the numbers of an expression.

    Attributes:
        value: The exact value.
        numbers: The used numbers, ascending; a number that is used twice is listed twice.
    """

    value: Fraction
    numbers: tuple[int, ...]


def parsed(text: str) -> Expression | None:
    """Parse a complete text as an expression; None if the text is no expression or divides by zero.

    Operators of equal rank are left-associative. An operand may have one minus sign. A number has no leading zero.
    Square brackets count as parentheses, and an x between operands as a multiplication sign. The sign may be left out
    beside a parenthesis, as in 5(4+6), but not behind a division, where 8/2(4) would have two meanings.

    Args:
        text: Any text.
    """
    text = text.strip()
    if not text or len(text) > MAX_CHARACTERS:
        return None
    text = _TIMES.sub("*", text.translate(_SQUARE))
    values: list[Fraction] = []
    waiting: list[str] = []
    numbers: list[int] = []
    depth = place = 0
    before = "("
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            return None
        place = token.end()
        number, sign = token["number"], token["sign"]
        operand_next = before in _RANK
        if not operand_next and (sign == "(" or (number and before == ")")):
            # A multiplication sign is left out.
            if (waiting and waiting[-1] == "/") or not _apply(values, waiting, _RANK["*"]):
                return None
            waiting.append("*")
            operand_next = True
        if number:
            if not operand_next or len(number) > MAX_DIGITS or (number[0] == "0" and number != "0"):
                return None
            numbers.append(int(number))
            values.append(Fraction(numbers[-1]))
            before = "number"
        elif sign == "(":
            depth += 1
            if not operand_next or depth > MAX_DEPTH:
                return None
            waiting.append(sign)
            before = "("
        elif sign == ")":
            depth -= 1
            if operand_next or depth < 0 or not _apply(values, waiting, 1):
                return None
            waiting.pop()
            before = ")"
        elif operand_next:
            # An operand may have only one sign, a minus.
            if sign != "-" or before == _NEGATE:
                return None
            waiting.append(_NEGATE)
            before = _NEGATE
        else:
            if not _apply(values, waiting, _RANK[sign]):
                return None
            waiting.append(sign)
            before = sign
    if before in _RANK or depth or not _apply(values, waiting, 1):
        return None
    return Expression(values[0], tuple(sorted(numbers)))


def _apply(values: list[Fraction], waiting: list[str], least: int) -> bool:
    """Apply the waiting operators of rank `least` or higher, from the end; return whether none divides by zero."""
    while waiting and _RANK[waiting[-1]] >= least:
        operator = waiting.pop()
        right = values.pop()
        if operator == _NEGATE:
            values.append(-right)
        elif operator == "/" and not right:
            return False
        else:
            values.append(_OPERATIONS[operator](values.pop(), right))
    return True
