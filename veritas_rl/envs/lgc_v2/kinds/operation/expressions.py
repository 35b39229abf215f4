"""Expressions of made-up operators as trees, and their text with as few parentheses as possible."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from veritas_rl.envs.lgc_v2.kinds.operation.rules import Number, inside

Tree: TypeAlias = "Use | Number"
"""An expression: a use of an operator, or a number."""


@dataclass(frozen=True)
class Use:
    """One use of an operator.

    Attributes:
        operator: The number of the operator; lower numbers bind tighter.
        left: The first operand.
        right: The second operand.
    """

    operator: int
    left: Tree
    right: Tree


def written(tree: Tree, signs: Sequence[str], full: bool = False) -> str:
    """An expression as text.

    Args:
        tree: The expression.
        signs: The operators' signs, the tightest first.
        full: Whether every operand that is not a number is in parentheses.
    """
    if not isinstance(tree, Use):
        return str(tree)

    def operand(part: Tree, loosest: int) -> str:
        if not isinstance(part, Use):
            return inside(part)
        text = written(part, signs, full)
        return text if part.operator <= loosest and not full else f"({text})"

    left, right = operand(tree.left, tree.operator), operand(tree.right, tree.operator - 1)
    return f"{left} {signs[tree.operator]} {right}"


def value(tree: Tree, apply: Callable[[int, Number, Number], Number]) -> Number:
    """The value of an expression.

    Args:
        tree: The expression.
        apply: Computes the value of an operator, given by its number, for two operands.
    """
    if not isinstance(tree, Use):
        return tree
    return apply(tree.operator, value(tree.left, apply), value(tree.right, apply))


def next_use(tree: Use) -> tuple[int, Number, Number]:
    """The first use whose operands are both numbers, as its operator and its operands."""
    if isinstance(tree.left, Use):
        return next_use(tree.left)
    if isinstance(tree.right, Use):
        return next_use(tree.right)
    return tree.operator, tree.left, tree.right


def after(tree: Use, result: Number) -> Tree:
    """An expression with its `next_use` replaced by the result."""
    if isinstance(tree.left, Use):
        return Use(tree.operator, after(tree.left, result), tree.right)
    if isinstance(tree.right, Use):
        return Use(tree.operator, tree.left, after(tree.right, result))
    return result


def used(tree: Tree) -> Iterator[int]:
    """The operators of an expression in pre-order."""
    if isinstance(tree, Use):
        yield tree.operator
        yield from used(tree.left)
        yield from used(tree.right)
