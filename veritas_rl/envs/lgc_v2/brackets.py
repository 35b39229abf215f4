"""Sequences of brackets for the bracket puzzles: checking, counting and enumerating them."""

from collections.abc import Sequence
from functools import cache
from math import comb
from random import Random

from veritas_rl.envs.lgc_v2.puzzle import indexed

OF_A_SIZE = 1 << 20
"""The maximum weight of a size when a size is drawn. Without a maximum, nearly all puzzles would have the largest
size."""

PAIRS = ("()", "[]", "{}", "<>", "⟨⟩", "⟦⟧", "⟪⟫", "⦃⦄")
"""The kinds of brackets, each with the opening bracket first."""

OPENERS = {pair[0]: pair[1] for pair in PAIRS}
"""The closing bracket of each opening bracket."""

CLOSERS = {pair[1]: pair[0] for pair in PAIRS}
"""The opening bracket of each closing bracket."""


def open_after(sequence: str) -> list[str] | None:
    """The brackets that are open after a sequence, the outermost first; None if a closing bracket does not match."""
    stack: list[str] = []
    for bracket in sequence:
        if bracket in OPENERS:
            stack.append(bracket)
        elif not stack or stack.pop() != CLOSERS[bracket]:
            return None
    return stack


def closers_of(opened: Sequence[str]) -> str:
    """The closing brackets of open brackets, the innermost first."""
    return "".join(OPENERS[bracket] for bracket in reversed(opened))


_BRACKETS = frozenset("".join(PAIRS))
_LOOKALIKES = str.maketrans("\u2329\u232a\u3008\u3009\u300a\u300b\u301a\u301b", "⟨⟩⟨⟩⟪⟫⟦⟧")
_ANGLES = str.maketrans("⟨⟩", "<>")


def only_brackets(said: str, kinds: int = len(PAIRS)) -> str | None:
    """A text without its white space if only brackets remain, at least one; else None.

    Args:
        said: Any text. Brackets of other scripts count as the brackets of `PAIRS` that look like them.
        kinds: The number of kinds of brackets in the puzzle. Without the kind ⟨⟩, its brackets count as < and >.
    """
    sequence = "".join(said.split()).strip("\"'\u201c\u201d")
    if not all(map(_BRACKETS.__contains__, sequence)):
        sequence = sequence.translate(_LOOKALIKES)
        if not all(map(_BRACKETS.__contains__, sequence)):
            return None
    return (sequence.translate(_ANGLES) if kinds < 5 else sequence) or None


def mirrored(sequence: str) -> str:
    """The mirror image of a sequence: in reverse order, with each bracket reversed."""
    return "".join(OPENERS.get(bracket) or CLOSERS[bracket] for bracket in reversed(sequence))


@cache
def paths(length: int, depth: int) -> int:
    """The number of walks of `length` steps up and down from 0 to `depth` that never go below 0.

    By reflection (Bertrand's ballot theorem): C(n, u) - C(n, u + 1) with u = (n + depth) / 2 steps up.
    """
    if depth < 0 or depth > length or (length + depth) % 2:
        return 0
    ups = (length + depth) // 2
    return comb(length, ups) - comb(length, ups + 1)


def path_of(length: int, depth: int, index: int) -> str:
    """The walk of `paths` with this index, as a text of "u" (up) and "d" (down)."""
    steps: list[str] = []
    for left in range(length - 1, -1, -1):
        # The walk is built backwards: its last step goes down from depth + 1, or up from depth - 1.
        fewer = paths(left, depth + 1)
        if index < fewer:
            steps.append("d")
            depth += 1
        else:
            index -= fewer
            steps.append("u")
            depth -= 1
    return "".join(reversed(steps))


def written(path: str, kinds: Sequence[int]) -> str:
    """A walk as brackets: a step up opens a bracket of the next of `kinds`, a step down closes the innermost one."""
    stack: list[str] = []
    sequence: list[str] = []
    following = iter(kinds)
    for step in path:
        if step == "u":
            stack.append(PAIRS[next(following)][0])
            sequence.append(stack[-1])
        else:
            sequence.append(OPENERS[stack.pop()])
    return "".join(sequence)


def place_of(number: int, spaces: Sequence[int], random: Random, *words: object) -> tuple[int, int]:
    """A size and one of its puzzles. Consecutive numbers give different puzzles, as `indexed` does for one size.

    Args:
        number: The number of the puzzle within its level.
        spaces: The number of puzzles of each size.
        random: Draws the index if a space is so large that draws do not repeat.
        words: The seed of the order: the kind and the level.

    Returns:
        The index of the size, and the index of a puzzle in its space.
    """
    counted = [min(space, OF_A_SIZE) for space in spaces]
    which, index = located(indexed(number, sum(counted), random, *words), counted)
    return which, indexed(index, spaces[which], random, *words, which)


def located(index: int, spaces: Sequence[int]) -> tuple[int, int]:
    """The number of the space that contains an index of the concatenated spaces, and the index within this space."""
    which = 0
    while index >= spaces[which]:
        index -= spaces[which]
        which += 1
    return which, index


@cache
def sizes_of(shortest: int, longest: int, kinds: int) -> tuple[list[tuple[int, int]], list[int], int]:
    """The sizes of puzzles in which a sequence of brackets must be completed.

    Args:
        shortest: The length of the shortest completed sequence; even.
        longest: The length of the longest completed sequence.
        kinds: The number of kinds of brackets.

    Returns:
        The sizes as pairs of the completed length and the number of missing brackets; the number of puzzles of each
        size (walks times choices of kinds); and their total.
    """
    sizes = [(length, missing) for length in range(shortest, longest + 1, 2) for missing in range(1, length // 2 + 1)]
    spaces = [paths(length - missing, missing) * kinds ** (length // 2) for length, missing in sizes]
    return sizes, spaces, sum(spaces)


def beginning_of(length: int, missing: int, kinds: int, index: int) -> str:
    """The sequence with an index, which lacks `missing` closing brackets to its completed `length`."""
    walk, chosen = divmod(index, kinds ** (length // 2))
    return written(
        path_of(length - missing, missing, walk), [chosen // kinds**place % kinds for place in range(length // 2)]
    )
