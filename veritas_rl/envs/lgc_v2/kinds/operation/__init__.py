"""Type 2, operation: evaluate an expression of made-up operators, whose definitions are given."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from veritas_rl.envs.lgc_v2.kinds.operation.expressions import Tree, Use, value
from veritas_rl.envs.lgc_v2.kinds.operation.puzzle import OperationPuzzle
from veritas_rl.envs.lgc_v2.kinds.operation.rules import Number, Rule, rule_at
from veritas_rl.envs.lgc_v2.puzzle import PuzzleKind, indexed

SIGNS = "※△◎☆◇□⊕⊗⊙▲◆★"
"""The signs of operators."""

ATTEMPTS = 60
"""The number of expressions to try until one has only small values."""

WIDE_ATTEMPTS = 40
"""The number of attempts with operands of the level's full range; later attempts have small operands."""

SMALL_OPERANDS = 5
"""The largest of the small operands."""

LARGEST_DENOMINATOR = 60
"""The largest denominator of a value, including intermediate values."""


@dataclass(frozen=True)
class OperationConfig:
    """The sizes of a level's puzzles.

    Attributes:
        operators: The number of defined operators, 1 to 3.
        conditional: The number of operators with a condition.
        uses: The number of uses of operators in the expression; at least the number of operators.
        operand: The largest number in the expression, at least 5.
        limit: The largest absolute value, including intermediate values; at least 300.
        fractions: The share of puzzles with divisions, in percent.
    """

    operators: int
    conditional: int
    uses: int
    operand: int
    limit: int
    fractions: int

    def __post_init__(self) -> None:
        if not 0 <= self.conditional <= self.operators or not 1 <= self.operators <= min(3, self.uses):
            raise ValueError(f"operators must be 1 to 3, at most as many as uses, with conditions on some: {self}")
        if self.operand < SMALL_OPERANDS or self.limit < 300 or not 0 <= self.fractions <= 100:
            raise ValueError(
                f"the limits must be at least 5 for operands and 300 for values, and shares percentages: {self}"
            )


class Operation(PuzzleKind):
    """Expressions of made-up operators to evaluate."""

    name = "operation"
    type_id = 2
    asked_in = "box"
    levels: ClassVar[Mapping[int, OperationConfig]] = {
        1: OperationConfig(1, 0, 1, 12, 300, 0),
        2: OperationConfig(1, 1, 2, 12, 300, 20),
        3: OperationConfig(2, 1, 3, 12, 500, 30),
        4: OperationConfig(2, 2, 4, 15, 1000, 40),
        5: OperationConfig(3, 3, 5, 15, 2000, 40),
    }

    def make(self, level: int, number: int, random: Random) -> OperationPuzzle:
        config = self.levels[level]
        fractional = random.randrange(100) < config.fractions
        # The puzzle's number determines the first rule, and for expressions of one use also the operands, so that
        # consecutive puzzles differ.
        pairs = config.operand**2 if config.uses == 1 else 1
        style = "fractional" if fractional else "whole"
        first, pair = rule_at(
            style,
            config.conditional > 0,
            number,
            lambda index, space: indexed(index, space, random, self.name, level, style),
            pairs,
        )
        if config.uses == 1:
            a, b = divmod(pair, config.operand)
            return _puzzle([first], Use(0, a + 1, b + 1), random)
        for attempt in range(ATTEMPTS):
            rules = [first, *(_other_rule(place, config, style, random) for place in range(1, config.operators))]
            random.shuffle(rules)
            operand = config.operand if attempt < WIDE_ATTEMPTS else SMALL_OPERANDS
            expression = _expression(config.operators, config.uses, operand, random)
            if _small(expression, rules, config.limit):
                return _puzzle(rules, expression, random)
        return _puzzle([first], Use(0, 2, 1), random)


def _other_rule(place: int, config: OperationConfig, style: str, random: Random) -> Rule:
    """A random rule that is defined for all values of the style."""
    conditional = place < config.conditional
    if style == "fractional" and conditional and random.randrange(2):
        style = "ordering"
    return rule_at(style, conditional, random.getrandbits(48), lambda index, space: index % space)[0]


def _expression(operators: int, uses: int, operand: int, random: Random) -> Use:
    """A random tree in which every operator occurs."""
    drawn = [*range(operators), *(random.randrange(operators) for _ in range(uses - operators))]
    random.shuffle(drawn)
    if random.randrange(2):
        # Operators that bind loosely are near the root, so few parentheses are necessary and precedence matters.
        drawn.sort(reverse=True)

    def grow(uses: int) -> Tree:
        if not uses:
            return random.randint(1, operand)
        operator, left = drawn.pop(0), random.randrange(uses)
        return Use(operator, grow(left), grow(uses - 1 - left))

    tree = grow(uses)
    assert isinstance(tree, Use)
    return tree


def _small(expression: Use, rules: list[Rule], limit: int) -> bool:
    """Whether all values, including intermediate values, are small."""
    seen: list[Number] = []

    def apply(operator: int, a: Number, b: Number) -> Number:
        seen.append(rules[operator].value(a, b))
        return seen[-1]

    value(expression, apply)
    return all(abs(each) <= limit and each.denominator <= LARGEST_DENOMINATOR for each in seen)


def _puzzle(rules: list[Rule], expression: Use, random: Random) -> OperationPuzzle:
    signs = tuple(random.sample(SIGNS, len(rules)))
    shown = tuple(random.sample(range(len(rules)), len(rules)))
    return OperationPuzzle(signs, tuple(rules), shown, expression)
