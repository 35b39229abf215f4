"""Boolean expressions as trees: drawing with a given truth value, writing with few parentheses, and simplifying."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

WORDS = ("not", "and", "xor", "or")
"""The operators of expressions, the tightest first."""

LIGHT = 2
"""The maximum depth of the shallower side of an expression."""

MOST_STATED = 60
"""The largest number in statements such as "4 is even"; the smallest is 1."""

Tree: TypeAlias = "Leaf | Node"


@dataclass(frozen=True)
class Leaf:
    """An expression without parts.

    Attributes:
        english: Its English text.
        chinese: Its Chinese text.
        true: Its truth value.
    """

    english: str
    chinese: str
    true: bool


@dataclass(frozen=True)
class Node:
    """An operator with its operands.

    Attributes:
        word: One of `WORDS`.
        parts: The operands: one for "not", otherwise two.
    """

    word: str
    parts: tuple[Tree, ...]


CONSTANTS: Mapping[bool, Leaf] = {true: Leaf(str(true), str(true), true) for true in (False, True)}

_RELATIONS: Mapping[str, Callable[[int, int], bool]] = {
    "<": lambda left, right: left < right,
    ">": lambda left, right: left > right,
    "<=": lambda left, right: left <= right,
    ">=": lambda left, right: left >= right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
}

_STATEMENTS: tuple[tuple[str, str, Callable[[int], bool]], ...] = (
    ("is even", "是偶数", lambda number: number % 2 == 0),
    ("is odd", "是奇数", lambda number: number % 2 == 1),
    ("is a prime number", "是质数", lambda number: number > 1 and all(number % by for by in range(2, number))),
    ("is divisible by 3", "能被 3 整除", lambda number: number % 3 == 0),
    ("is divisible by 4", "能被 4 整除", lambda number: number % 4 == 0),
    ("is divisible by 7", "能被 7 整除", lambda number: number % 7 == 0),
    ("is the square of a whole number", "是某个整数的平方", lambda number: round(number**0.5) ** 2 == number),
)

_STATED: Mapping[tuple[int, bool], tuple[tuple[str, str], ...]] = {
    (number, true): tuple((english, chinese) for english, chinese, holds in _STATEMENTS if holds(number) is true)
    for number in range(1, MOST_STATED + 1)
    for true in (False, True)
}
"""The statements about a number, by the number and their truth value. Because of even and odd, no entry is empty."""


def truth(tree: Tree) -> bool:
    """Whether an expression is true."""
    if isinstance(tree, Leaf):
        return tree.true
    parts = [truth(part) for part in tree.parts]
    match tree.word:
        case "not":
            return not parts[0]
        case "and":
            return all(parts)
        case "xor":
            return parts[0] is not parts[1]
        case _:
            return any(parts)


def written(tree: Tree, language: str) -> str:
    """An expression as text."""
    if isinstance(tree, Leaf):
        return tree.chinese if language == "zh" else tree.english
    if tree.word == "not":
        part = tree.parts[0]
        text = written(part, language)
        return f"not {text}" if part in CONSTANTS.values() or _rank(part) == 0 else f"not ({text})"
    texts = (
        text if _rank(part) <= _rank(tree) else f"({text})"
        for part, text in ((part, written(part, language)) for part in tree.parts)
    )
    return f" {tree.word} ".join(texts)


def _rank(tree: Tree) -> int:
    """The index in `WORDS` of an expression's word; -1 for a leaf."""
    return WORDS.index(tree.word) if isinstance(tree, Node) else -1


def reduced(tree: Tree) -> Iterator[Tree]:
    """The stages of a simplification: the expression, then with constants as leaves, then with one layer less each."""
    yield tree
    if (plain := _without_leaves(tree)) != tree:
        yield plain
    while isinstance(plain, Node):
        plain = _without_innermost(plain)
        yield plain


def _without_leaves(tree: Tree) -> Tree:
    """An expression with each leaf replaced by True or False."""
    if isinstance(tree, Leaf):
        return CONSTANTS[tree.true]
    return Node(tree.word, tuple(map(_without_leaves, tree.parts)))


def _without_innermost(tree: Tree) -> Tree:
    """An expression with each innermost operator replaced by its value True or False."""
    if isinstance(tree, Leaf) or all(isinstance(part, Leaf) for part in tree.parts):
        return CONSTANTS[truth(tree)]
    return Node(tree.word, tuple(map(_without_innermost, tree.parts)))


def drawn(depth: int, true: bool, random: Random, first: int = 0, words: Sequence[str] = WORDS) -> Tree:
    """A random expression.

    Args:
        depth: The depth of nested operators.
        true: The truth value.
        random: The random generator.
        first: The number at the beginning; 0 for any.
        words: The operators allowed at the root.
    """
    if not depth:
        return _leaf(true, random, first)
    word = random.choice(words)
    if word == "not":
        # "not not" is excluded, because it only makes the expression longer.
        return Node(word, (drawn(depth - 1, not true, random, first, WORDS[1:]),))
    if word == "xor":
        left = random.random() < 0.5
        values = (left, left is not true)
    elif true is (word == "and"):
        values = (true, true)
    else:
        values = random.choice(((true, true), (true, not true), (not true, true)))
    depths = [depth - 1, random.randint(0, min(depth - 1, LIGHT))]
    random.shuffle(depths)
    left, right = drawn(depths[0], values[0], random, first), drawn(depths[1], values[1], random)
    return Node(word, (left, right))


def _leaf(true: bool, random: Random, first: int) -> Leaf:
    kind = random.randrange(4)
    if kind == 0 and not first:
        return CONSTANTS[true]
    if kind == 1:
        number = first or random.randint(1, MOST_STATED)
        english, chinese = random.choice(_STATED[number, true])
        return Leaf(f"{number} {english}", f"{number} {chinese}", true)
    left = first or random.randint(1, 20)
    sign, other = random.choice("+-*"), random.randint(2, 9)
    value = {"+": left + other, "-": left - other, "*": left * other}[sign]
    right = value + random.choice((-2, -1, 0, 0, 1, 2))
    relation = random.choice([relation for relation, holds in _RELATIONS.items() if holds(value, right) is true])
    text = f"{left} {sign} {other} {relation} {right}"
    return Leaf(text, text, true)
