"""game_of_24 by dynamic programming over subsets of the numbers: all fractions that each subset can make.

Python's own parser parses an expression, and its tree is evaluated in exact fractions.
"""

import ast
import re
from collections import Counter
from fractions import Fraction

GIVEN = re.compile(r"^Numbers: ([0-9, ]+)\nTarget: ([0-9]+)$", re.MULTILINE)


def check(question: str, answer: str) -> str:
    """The error in an answer to a question, or ""; see `second`."""
    given = GIVEN.search(question)
    if given is None:
        return "the question names no numbers"
    numbers = [int(number) for number in given[1].split(",")]
    target = int(given[2])
    if answer == "None":
        if len(numbers) != 4:
            return f"None is an answer for four numbers only, there are {len(numbers)}"
        return f"{numbers} do make {target}" if can_make(numbers, target) else ""
    used: Counter[int] = Counter()
    try:
        value = worth(ast.parse(answer, mode="eval").body, used)
    except (SyntaxError, ValueError, ZeroDivisionError) as error:
        return f"{answer!r} cannot be worked out: {error}"
    if used != Counter(numbers):
        return f"{answer!r} does not use each of {numbers} once"
    if value != target:
        return f"{answer!r} is {value}, not {target}"
    return ""


def worth(node: ast.expr, used: Counter[int]) -> Fraction:
    """The value of a tree. The numbers in the tree are added to `used`."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        used[node.value] += 1
        return Fraction(node.value)
    if not isinstance(node, ast.BinOp):
        raise ValueError(f"the expression is no arithmetic: {ast.dump(node)}")
    left, right = worth(node.left, used), worth(node.right, used)
    match node.op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case other:
            raise ValueError(f"the expression is no arithmetic: {other}")


def can_make(numbers: list[int], target: int) -> bool:
    """Whether numbers can make a target. Each subset is combined from two smaller subsets in every way."""
    everything = (1 << len(numbers)) - 1
    made: dict[int, set[Fraction]] = {1 << place: {Fraction(number)} for place, number in enumerate(numbers)}
    for subset in range(1, everything + 1):
        if subset in made:
            continue
        values: set[Fraction] = set()
        part = (subset - 1) & subset
        while part:
            rest = subset ^ part
            for a in made[part]:
                for b in made[rest]:
                    values |= {a + b, a - b, a * b}
                    if b:
                        values.add(a / b)
            part = (part - 1) & subset
        made[subset] = values
    return target in made[everything]
