"""The rules of made-up operators: formulas of two operands, and conditions that choose between two formulas.

If a value of a puzzle may be a fraction, no condition requires whole numbers, such as "is even". Only a rule with the
condition "b is not 0" divides by b. So every rule is defined for all values of its puzzle.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import isqrt, prod

Number = int | Fraction
"""A value; an int if all values of the puzzle are whole."""

_OPERAND = re.compile(r"(?<![A-Za-z])[ab](?![A-Za-z])")


@dataclass(frozen=True)
class FormulaKind:
    """Formulas that differ only in their numbers.

    Attributes:
        text: The formula, with {0} and {1} for its numbers.
        ranges: The range of each number.
        value: Computes the value for a, b and the numbers.
    """

    text: str
    ranges: tuple[range, ...]
    value: Callable[..., Number]

    @property
    def count(self) -> int:
        """The number of formulas."""
        return prod(map(len, self.ranges))


@dataclass(frozen=True)
class ConditionKind:
    """Conditions that differ only in their number.

    Attributes:
        english: The condition in English, with {0} for its number.
        chinese: The condition in Chinese, with {0} for its number.
        ranges: The range of the number; empty for a condition without a number.
        holds: Computes whether a, b and the number fulfil the condition.
        of_whole_numbers: Whether the condition is defined only for whole numbers.
        guards: Whether the condition ensures that b is not 0, so that its formula may divide by b.
    """

    english: str
    chinese: str
    ranges: tuple[range, ...]
    holds: Callable[..., bool]
    of_whole_numbers: bool = False
    guards: bool = False

    @property
    def count(self) -> int:
        """The number of conditions."""
        return prod(map(len, self.ranges))


def is_square(number: Number) -> bool:
    """Whether a whole number is the square of a whole number."""
    return number >= 0 and isqrt(int(number)) ** 2 == number


def is_prime(number: Number) -> bool:
    """Whether a whole number is a prime number."""
    return number > 1 and all(number % divisor for divisor in range(2, isqrt(int(number)) + 1))


_FACTOR, _SUMMAND, _DIVISOR = range(2, 10), range(1, 10), range(2, 6)

WHOLE: tuple[FormulaKind, ...] = (
    FormulaKind("{0} × a + {1} × b", (_FACTOR, _FACTOR), lambda a, b, p, q: p * a + q * b),
    FormulaKind("{0} × a - {1} × b", (_FACTOR, _FACTOR), lambda a, b, p, q: p * a - q * b),
    FormulaKind("a × b + {0}", (range(1, 21),), lambda a, b, p: a * b + p),
    FormulaKind("a × b - {0} × a + {1}", (_FACTOR, _SUMMAND), lambda a, b, p, q: a * b - p * a + q),
    FormulaKind("a × b + {0} × a - {1} × b", (_FACTOR, _FACTOR), lambda a, b, p, q: a * b + p * a - q * b),
    FormulaKind("(a + {0}) × (b - {1})", (_SUMMAND, _SUMMAND), lambda a, b, p, q: (a + p) * (b - q)),
    FormulaKind("a² - {0} × b", (_FACTOR,), lambda a, b, p: a * a - p * b),
    FormulaKind("b² + {0} × a - {1}", (_FACTOR, _SUMMAND), lambda a, b, p, q: b * b + p * a - q),
    FormulaKind("{0} × (a + b) - {1}", (_FACTOR, _SUMMAND), lambda a, b, p, q: p * (a + b) - q),
    FormulaKind("{0} × |a - b| + {1}", (_FACTOR, _SUMMAND), lambda a, b, p, q: p * abs(a - b) + q),
    FormulaKind(
        "{0} × max(a, b) - {1} × min(a, b)", (_FACTOR, _FACTOR), lambda a, b, p, q: p * max(a, b) - q * min(a, b)
    ),
    FormulaKind("{0} - a + {1} × b", (range(1, 21), _FACTOR), lambda a, b, p, q: p - a + q * b),
)
"""Formulas with whole values for whole operands."""

FRACTIONAL: tuple[FormulaKind, ...] = (
    FormulaKind("(a + b) ÷ {0} + {1}", (_DIVISOR, _SUMMAND), lambda a, b, p, q: Fraction(a + b, p) + q),
    FormulaKind("(a - b) ÷ {0} - {1}", (_DIVISOR, _SUMMAND), lambda a, b, p, q: Fraction(a - b, p) - q),
    FormulaKind("a ÷ {0} + {1} × b", (_DIVISOR, _FACTOR), lambda a, b, p, q: Fraction(a, p) + q * b),
    FormulaKind("{0} × a - b ÷ {1}", (_FACTOR, _DIVISOR), lambda a, b, p, q: p * a - Fraction(b, q)),
    FormulaKind("a × b ÷ {0} - {1}", (_DIVISOR, _SUMMAND), lambda a, b, p, q: Fraction(a * b, p) - q),
)
"""Formulas that divide by a fixed number."""

DIVIDING: tuple[FormulaKind, ...] = (
    FormulaKind("a ÷ b + {0}", (range(1, 21),), lambda a, b, p: Fraction(a, b) + p),
    FormulaKind("{0} × a ÷ b - {1}", (_FACTOR, _SUMMAND), lambda a, b, p, q: Fraction(p * a, b) - q),
    FormulaKind("(a + {0}) ÷ b", (range(1, 21),), lambda a, b, p: Fraction(a + p, b)),
)
"""Formulas that divide by b."""

CONDITIONS: tuple[ConditionKind, ...] = (
    ConditionKind("a is even", "a 是偶数", (), lambda a, b: a % 2 == 0, True),
    ConditionKind("b is odd", "b 是奇数", (), lambda a, b: b % 2 == 1, True),
    ConditionKind("a + b is even", "a + b 是偶数", (), lambda a, b: (a + b) % 2 == 0, True),
    ConditionKind("both a and b are odd", "a 和 b 都是奇数", (), lambda a, b: a % 2 == b % 2 == 1, True),
    ConditionKind("exactly one of a and b is even", "a 和 b 中恰有一个是偶数", (), lambda a, b: (a + b) % 2 == 1, True),
    ConditionKind(
        "a + b is divisible by {0}", "a + b 能被 {0} 整除", (range(3, 6),), lambda a, b, p: (a + b) % p == 0, True
    ),
    ConditionKind(
        "a - b is divisible by {0}", "a - b 能被 {0} 整除", (range(3, 6),), lambda a, b, p: (a - b) % p == 0, True
    ),
    ConditionKind(
        "a × b is divisible by {0}", "a × b 能被 {0} 整除", (range(3, 8),), lambda a, b, p: a * b % p == 0, True
    ),
    ConditionKind(
        "max(a, b) is the square of a whole number",
        "max(a, b) 是某个整数的平方",
        (),
        lambda a, b: is_square(max(a, b)),
        True,
    ),
    ConditionKind(
        "a + b is the square of a whole number", "a + b 是某个整数的平方", (), lambda a, b: is_square(a + b), True
    ),
    ConditionKind("a + b is a prime number", "a + b 是质数", (), lambda a, b: is_prime(a + b), True),
    ConditionKind("a > b", "a > b", (), lambda a, b: a > b),
    ConditionKind("a < {0} × b", "a < {0} × b", (range(2, 5),), lambda a, b, p: a < p * b),
    ConditionKind("a + b > {0}", "a + b > {0}", (range(5, 25),), lambda a, b, p: a + b > p),
    ConditionKind("a × b < {0}", "a × b < {0}", (range(10, 60),), lambda a, b, p: a * b < p),
    ConditionKind("|a - b| < {0}", "|a - b| < {0}", (range(3, 12),), lambda a, b, p: abs(a - b) < p),
    ConditionKind("min(a, b) < {0}", "min(a, b) < {0}", (range(3, 9),), lambda a, b, p: min(a, b) < p),
    ConditionKind("b is not 0", "b 不是 0", (), lambda a, b: b != 0, guards=True),
)
"""The kinds of conditions. Each is defined for negative numbers and for 0."""


@dataclass(frozen=True)
class Formula:
    """A formula of a and b.

    Attributes:
        kind: The kind of the formula.
        numbers: The numbers in the formula.
    """

    kind: FormulaKind
    numbers: tuple[int, ...]

    @cached_property
    def text(self) -> str:
        """The formula as text."""
        return self.kind.text.format(*self.numbers)

    def filled(self, a: Number, b: Number) -> str:
        """The formula as text, with values instead of a and b."""
        values = {"a": inside(a), "b": inside(b)}
        return _OPERAND.sub(lambda found: values[found[0]], self.text)

    def value(self, a: Number, b: Number) -> Number:
        """The value of the formula."""
        return self.kind.value(a, b, *self.numbers)


@dataclass(frozen=True)
class Condition:
    """A condition on a and b.

    Attributes:
        kind: The kind of the condition.
        numbers: The numbers in the condition.
    """

    kind: ConditionKind
    numbers: tuple[int, ...]

    def text(self, language: str) -> str:
        """The condition as text."""
        return (self.kind.chinese if language == "zh" else self.kind.english).format(*self.numbers)

    def holds(self, a: Number, b: Number) -> bool:
        """Whether a and b fulfil the condition."""
        return self.kind.holds(a, b, *self.numbers)


@dataclass(frozen=True)
class Rule:
    """The rule of an operator.

    Attributes:
        formula: The formula, or with a condition the formula if the condition is true.
        condition: The condition; None for a rule with one formula.
        otherwise: The formula if the condition is false; None for a rule with one formula.
    """

    formula: Formula
    condition: Condition | None = None
    otherwise: Formula | None = None

    def chosen(self, a: Number, b: Number) -> Formula:
        """The formula that applies to these operands."""
        if self.condition is None or self.otherwise is None or self.condition.holds(a, b):
            return self.formula
        return self.otherwise

    def value(self, a: Number, b: Number) -> Number:
        """The value of the operator for these operands."""
        return self.chosen(a, b).value(a, b)

    def text(self, sign: str, language: str) -> str:
        """The definition of an operator with this sign, on one line."""
        first = f"a {sign} b = {self.formula.text}"
        if self.condition is None or self.otherwise is None:
            return first
        second, condition = f"a {sign} b = {self.otherwise.text}", self.condition.text(language)
        if language == "zh":
            return f"若 {condition},则 {first};否则 {second}"
        return f"{first} if {condition}; otherwise {second}"


Shape = tuple[FormulaKind, ConditionKind | None, FormulaKind | None]
"""The kinds of a rule's formula, condition and other formula."""


def _shapes() -> Mapping[tuple[str, bool], tuple[Shape, ...]]:
    ordering = tuple(kind for kind in CONDITIONS if not kind.of_whole_numbers and not kind.guards)
    guards = tuple(kind for kind in CONDITIONS if kind.guards)
    whole = tuple(kind for kind in CONDITIONS if not kind.guards)

    def two(
        firsts: tuple[FormulaKind, ...], conditions: tuple[ConditionKind, ...], others: tuple[FormulaKind, ...]
    ) -> tuple[Shape, ...]:
        return tuple(shape for shape in product(firsts, conditions, others) if shape[0] is not shape[2])

    return {
        ("whole", False): tuple((kind, None, None) for kind in WHOLE),
        ("whole", True): two(WHOLE, whole, WHOLE),
        ("ordering", True): two(WHOLE, ordering, WHOLE),
        ("fractional", False): tuple((kind, None, None) for kind in FRACTIONAL),
        ("fractional", True): two(FRACTIONAL, ordering, WHOLE + FRACTIONAL) + two(DIVIDING, guards, WHOLE),
    }


SHAPES = _shapes()
"""The shapes of rules, by style and by whether they have a condition.

"whole" has conditions and formulas for whole numbers. "ordering" has conditions for all numbers, and formulas without a
division. "fractional" has conditions for all numbers, and at least one formula with a division.
"""


def rule_at(
    style: str, conditional: bool, number: int, at: Callable[[int, int], int], more: int = 1
) -> tuple[Rule, int]:
    """The rule with this number. Consecutive numbers give different rules.

    Args:
        style: The style of the rule, see `SHAPES`.
        conditional: Whether the rule has a condition.
        number: The number of the rule.
        at: Maps a number to an index below a given size.
        more: The number of options of a further choice that the number also determines.

    Returns:
        The rule, and the index of the further choice.
    """
    shapes = SHAPES[style, conditional]
    first, condition, other = shapes[at(number, len(shapes))]
    counts = (first.count, condition.count if condition else 1, other.count if other else 1)
    index = at(number // len(shapes), prod(counts) * more)
    index, rest = divmod(index, more)
    index, of_first = divmod(index, counts[0])
    of_other, of_condition = divmod(index, counts[1])
    return (
        Rule(
            Formula(first, _numbers(first.ranges, of_first)),
            Condition(condition, _numbers(condition.ranges, of_condition)) if condition else None,
            Formula(other, _numbers(other.ranges, of_other)) if other else None,
        ),
        rest,
    )


def _numbers(ranges: tuple[range, ...], index: int) -> tuple[int, ...]:
    numbers: list[int] = []
    for values in ranges:
        index, place = divmod(index, len(values))
        numbers.append(values[place])
    return tuple(numbers)


def inside(value: Number) -> str:
    """The text of a number within a formula: in parentheses unless the number is whole and not negative."""
    text = str(value)
    return text if text.isdigit() else f"({text})"
