"""cryptarithm by brute force: try every assignment of different digits to letters."""

import re
from functools import cache
from itertools import chain, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

EQUATION = re.compile(r"^([A-Z]+(?: [-+*] [A-Z]+)+) = ([A-Z]+)$", re.MULTILINE)


def check(question: str, answer: str) -> str:
    """The error in an answer to a question, or ""; see `second`."""
    found = EQUATION.search(question)
    if found is None:
        return "the question has no equation"
    words = re.findall("[A-Z]+", found[0])
    letters = sorted(set("".join(words)))
    ways = assignments(len(letters))
    # Most assignments already fail in the last digit, and most of the remaining ones in the last three digits.
    fits = difference(found[1], found[2], letters, ways, 1) % 10 == 0
    for word in words:
        if len(word) > 1:
            fits &= ways[letters.index(word[0])] != 0
    ways = ways[:, np.flatnonzero(fits)].astype(np.int64)
    ways = ways[:, difference(found[1], found[2], letters, ways, 3) % 1000 == 0]
    solutions = ways[:, difference(found[1], found[2], letters, ways, max(map(len, words))) == 0]
    if solutions.shape[1] != 1:
        return f"{found[0]} has {solutions.shape[1]} solutions"
    solved = "".join(str(solutions[letters.index(sign), 0]) if sign in letters else sign for sign in found[0])
    return "" if answer == solved else f"{found[0]} is solved by {solved}, not by {answer}"


@cache
def assignments(letters: int) -> NDArray[np.int16]:
    """All assignments of different digits: a row for each letter, a column for each assignment."""
    if letters > 8:
        raise ValueError(f"{letters} letters are too many to try every assignment")
    every = np.fromiter(chain.from_iterable(permutations(range(10), letters)), dtype=np.int16)
    return np.ascontiguousarray(every.reshape(-1, letters).T)


def difference(left: str, right: str, letters: list[str], ways: NDArray[Any], digits: int) -> NDArray[Any]:
    """The left side minus the right side for every assignment, using only the last `digits` letters of each word."""
    total = -number(right[-digits:], letters, ways)
    for term in re.findall(r"(?:^|[-+] )[A-Z]+(?: \* [A-Z]+)*", left):
        first, *factors = (number(word[-digits:], letters, ways) for word in re.findall("[A-Z]+", term))
        for factor in factors:
            first = first * factor
        total = total - first if term.startswith("-") else total + first
    return total


def number(word: str, letters: list[str], ways: NDArray[Any]) -> NDArray[Any]:
    """The number of a word in every assignment."""
    first, *others = (ways[letters.index(letter)] for letter in word)
    for digit in others:
        first = 10 * first + digit
    return first
