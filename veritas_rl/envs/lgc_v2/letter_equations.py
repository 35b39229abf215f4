"""Solves equations between words, in which different letters are different digits, column by column.

For +, - and *, the last k digits of a result depend only on the last k digits of the numbers. So the search extends a
table of partial solutions from the rightmost column to the left, and drops inconsistent rows after each column. It
finds all solutions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_ROWS = 200_000
"""The maximum number of rows of the table."""


@dataclass(frozen=True)
class LetterEquation:
    """An equation such as SEND + MORE = MONEY.

    Attributes:
        words: The words, the result last.
        operations: The operations between the words of the left side: +, -, or *, which binds tighter.
    """

    words: tuple[str, ...]
    operations: tuple[str, ...]

    def __str__(self) -> str:
        return written(self.words, self.operations)

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters, in order of appearance."""
        return tuple(dict.fromkeys("".join(self.words)))


@dataclass(frozen=True)
class Solutions:
    """The result of a search.

    Attributes:
        digits: The digits of the letters, in the order of `LetterEquation.letters`: one tuple for each solution.
        rows: The number of partial solutions after each column, the rightmost first.
    """

    digits: tuple[tuple[int, ...], ...]
    rows: tuple[int, ...]


def written(words: Sequence[str], operations: Sequence[str]) -> str:
    """Words or numbers as the text of an equation; the last of them is the right side."""
    sides = [words[0], *(f"{operation} {word}" for operation, word in zip(operations, words[1:-1], strict=True))]
    return f"{' '.join(sides)} = {words[-1]}"


def worth(numbers: Sequence[Any], operations: Sequence[str]) -> Any:
    """The value of operations on numbers or arrays of numbers; * binds tighter than + and -."""
    total: Any = 0
    sign, term = 1, numbers[0]
    for operation, number in zip(operations, numbers[1:], strict=True):
        if operation == "*":
            term = term * number
        else:
            total = total + sign * term
            sign, term = (1 if operation == "+" else -1), number
    return total + sign * term


def solve(equation: LetterEquation) -> Solutions | None:
    """All solutions; None if the table becomes too large.

    In a solution, different letters are different digits, and no word of two or more letters begins with 0.

    Args:
        equation: At most ten different letters, at most nine letters in a word, and products below 2^63.
    """
    letters = equation.letters
    leading = {word[0] for word in equation.words if len(word) > 1}
    place = {letter: column for column, letter in enumerate(letters)}
    known: set[str] = set()
    table = np.zeros((1, len(letters)), dtype=np.int64)
    used = np.zeros(1, dtype=np.int64)
    values = [np.zeros(1, dtype=np.int64) for _ in equation.words]
    rows: list[int] = []
    for column in range(max(map(len, equation.words))):
        power = 10**column
        here = [word[-1 - column] if column < len(word) else "" for word in equation.words]
        for letter in dict.fromkeys(here[:-1]):
            if not letter or letter in known:
                continue
            known.add(letter)
            digits = np.arange(letter in leading, 10)
            free = (used[:, None] >> digits) & 1 == 0
            kept, which = np.nonzero(free)
            if len(kept) > MOST_ROWS:
                return None
            table, values = table[kept], [value[kept] for value in values]
            table[:, place[letter]] = digits[which]
            used = used[kept] | 1 << digits[which]
        for word, letter in enumerate(here[:-1]):
            if letter:
                values[word] = values[word] + table[:, place[letter]] * power
        wanted = worth(values[:-1], equation.operations) // power % 10
        result = here[-1]
        if not result:
            fits = wanted == 0
        elif result in known:
            fits = table[:, place[result]] == wanted
        else:
            known.add(result)
            fits = (used >> wanted) & 1 == 0
            if result in leading:
                fits &= wanted != 0
            table[:, place[result]] = wanted
            used = used | 1 << wanted
        values[-1] = values[-1] + wanted * power
        table, used, values = table[fits], used[fits], [value[fits] for value in values]
        rows.append(len(table))
        if not len(table):
            break
    # The last column must leave no carry.
    exact = worth(values[:-1], equation.operations) == values[-1]
    rows[-1] = int(exact.sum())
    return Solutions(tuple(map(tuple, table[exact].tolist())), tuple(rows))
