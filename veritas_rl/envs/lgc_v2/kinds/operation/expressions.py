"""Expressions of made-up operators: a tree, and how it is written with as few parentheses as possible."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from veritas_rl.envs.lgc_v2.kinds.operation.rules import Number, inside

Tree: TypeAlias = "Use | Number"
"""An expression."""


@dataclass(frozen=True)
class Use:
    """One use of an operator.

    Attributes:
        operator: Which one. Those with lower numbers bind tighter.
        left: Its first operand.
        right: Its second operand.
    """

    operator: int
    left: Tree
    right: Tree


def written(tree: Tree, signs: Sequence[str], full: bool = False) -> str:
    """An expression as text.

    Args:
        tree: The expression.
        signs: The operators' signs, the one that binds tightest first.
        full: Put parentheses around every operand that is no number.
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
        apply: The value of an operator, given by its number, for two operands.
    """
    if not isinstance(tree, Use):
        return tree
    return apply(tree.operator, value(tree.left, apply), value(tree.right, apply))


def next_use(tree: Use) -> tuple[int, Number, Number]:
    """The first use of which both operands are numbers: its operator and its operands."""
    if isinstance(tree.left, Use):
        return next_use(tree.left)
    if isinstance(tree.right, Use):
        return next_use(tree.right)
    return tree.operator, tree.left, tree.right


def after(tree: Use, result: Number) -> Tree:
    """An expression after its next use has been replaced by what it gives."""
    if isinstance(tree.left, Use):
        return Use(tree.operator, after(tree.left, result), tree.right)
    if isinstance(tree.right, Use):
        return Use(tree.operator, tree.left, after(tree.right, result))
    return result


def used(tree: Tree) -> Iterator[int]:
    """The operators of an expression, in the order of a walk from the root, left before right."""
    if isinstance(tree, Use):
        yield tree.operator
        yield from used(tree.left)
        yield from used(tree.right)
