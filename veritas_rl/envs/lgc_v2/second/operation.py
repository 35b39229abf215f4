"""operation by Python's own parser: the signs are replaced by Python operators with the stated precedence.

This file evaluates the parsed tree, which is never executed.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction

Operands = Mapping[str, Fraction]

_PLAIN: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_RELATIONS: Mapping[str, Callable[[Fraction, Fraction], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "is not": operator.ne,
}
_FUNCTIONS: Mapping[str, Callable[..., Fraction]] = {"abs": Fraction.__abs__, "max": max, "min": min}
_STAND_INS: tuple[tuple[str, type[ast.operator]], ...] = (("*", ast.Mult), ("+", ast.Add), ("<<", ast.LShift))
"""Left-associative operators of Python, the tightest first."""


def check(question: str, answer: str) -> str:
    """The error in an answer to a question, or ""; see `second`."""
    definitions = dict(
        found for line in question.splitlines() if " = " in line and (found := _definition(line.strip())) is not None
    )
    asked = re.search(r"What is the value of (.*) \?", question)
    if not definitions or asked is None:
        return "the question defines nothing, or asks for nothing"
    order = _tightest_first(set(definitions), re.findall(r"(\S) binds tighter than (\S)\.", question))
    if order is None:
        return "the question leaves open which operator binds tighter"
    text = asked[1]
    for sign, (stand_in, _) in zip(order, _STAND_INS, strict=False):
        text = text.replace(sign, stand_in)
    meaning = {kind: definitions[sign] for sign, (_, kind) in zip(order, _STAND_INS, strict=False)}
    try:
        value = _worked_out(ast.parse(text, mode="eval").body, {}, meaning)
        said = Fraction(answer)
    except (ValueError, ZeroDivisionError, SyntaxError) as error:
        return f"not defined: {error}"
    return "" if said == value else f"the answer is {answer}, the value is {value}"


def _definition(line: str) -> tuple[str, Callable[[Fraction, Fraction], Fraction]] | None:
    """The sign of the operator that a line defines, and the function that computes its value."""
    found = re.fullmatch(r"a (\S) b = (.+?)(?: if (.+); otherwise a \1 b = (.+))?", line)
    if found is None:
        return None
    sign, first, condition, second = found.groups()

    def meaning(a: Fraction, b: Fraction) -> Fraction:
        operands = {"a": a, "b": b}
        return _number(first if condition is None or _holds(condition, operands) else second, operands)

    return sign, meaning


def _tightest_first(signs: set[str], pairs: list[tuple[str, str]]) -> list[str] | None:
    """The signs in the order that the pairs state; None if the pairs do not determine the order."""
    order: list[str] = []
    left = set(signs)
    while left:
        first = [sign for sign in left if not any(looser == sign and tighter in left for tighter, looser in pairs)]
        if len(first) != 1:
            return None
        order += first
        left -= set(first)
    return order


def _holds(condition: str, operands: Operands) -> bool:
    if condition == "both a and b are odd":
        return all(_whole(value) % 2 == 1 for value in operands.values())
    if condition == "exactly one of a and b is even":
        return sorted(_whole(value) % 2 for value in operands.values()) == [0, 1]
    if found := re.fullmatch(r"(.+) (<|>|is not) ([^<>]+)", condition):
        return _RELATIONS[found[2]](_number(found[1], operands), _number(found[3], operands))
    found = re.fullmatch(
        r"(.+) is (even|odd|divisible by (\d+)|the square of a whole number|a prime number)", condition
    )
    if found is None:
        raise ValueError(f"the condition {condition!r} is of an unknown kind")
    number = _whole(_number(found[1], operands))
    if found[2] == "even":
        return str(number)[-1] in "02468"
    if found[2] == "odd":
        return str(number)[-1] in "13579"
    if found[3]:
        return int(found[3]) * (number // int(found[3])) == number
    if found[2].startswith("the square"):
        return any(root * root == number for root in range(max(number, 0) + 1))
    return sum(not number % divisor for divisor in range(1, number + 1)) == 2


def _whole(value: Fraction) -> int:
    if value.denominator != 1:
        raise ValueError(f"the condition needs a whole number, got {value}")
    return value.numerator


def _number(text: str, operands: Operands) -> Fraction:
    """The value of a formula."""
    text = re.sub(r"\|([^|]*)\|", r"abs(\1)", text.replace("×", "*").replace("÷", "/").replace("²", "**2"))
    return _worked_out(ast.parse(text, mode="eval").body, operands, _PLAIN)


def _worked_out(
    tree: ast.expr, operands: Operands, meaning: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]]
) -> Fraction:
    match tree:
        case ast.Constant(value=int(number)):
            return Fraction(number)
        case ast.Name(id=name) if name in operands:
            return operands[name]
        case ast.BinOp(left=base, op=ast.Pow(), right=ast.Constant(value=2)):
            return _worked_out(base, operands, meaning) ** 2
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in meaning:
            return meaning[type(sign)](_worked_out(left, operands, meaning), _worked_out(right, operands, meaning))
        case ast.Call(func=ast.Name(id=name), args=parts) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_worked_out(part, operands, meaning) for part in parts))
    raise ValueError(f"the expression {ast.unparse(tree)} is not supported")
