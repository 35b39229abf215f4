"""The interfaces of puzzles (question, answer and verifier) and of kinds of puzzles.

Each kind has a file or folder in `kinds/` with a frozen configuration for each level, the generator, and the verifier.
A puzzle depends only on its kind and its seed. The seed determines the level, `level = seed % 5 + 1`, so consecutive
seeds cycle through all levels.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from math import comb
from random import Random
from typing import Any, ClassVar

from veritas_rl.permutation import Permutation

LANGUAGES = ("en", "zh")
"""The languages of the questions."""

LEVELS = (1, 2, 3, 4, 5)
"""The levels, the easiest first. Levels from the middle on have the sizes of the public environment's puzzles."""

SEEDS = 100_000_000
"""The number of seeds of each type; seeds are 0 to SEEDS - 1."""

LARGEST_ORDERED = 1 << 60
"""The number of puzzles above which 10,000 draws repeat with a probability below 10^-10."""


def level_of(seed: int) -> int:
    """The level of a seed."""
    return seed % len(LEVELS) + 1


def indexed(number: int, space: int, random: Random, *words: object) -> int:
    """An index into a space of puzzles. Consecutive numbers give different indices until all are used.

    Args:
        number: The number of the puzzle within its level.
        space: The number of puzzles.
        random: Draws the index if the space is so large that draws do not repeat.
        words: The seed of the order: the kind and the level.
    """
    return Permutation(space, *words)[number % space] if space <= LARGEST_ORDERED else random.randrange(space)


def places_of(count: int, index: int) -> tuple[int, ...]:
    """A set of places by its index, in the combinatorial number system (Knuth, TAOCP 7.2.1.3).

    Args:
        count: The number of places in the set.
        index: The index of the set. The sets with an index below comb(n, count) are all sets of places below n.

    Returns:
        The places, counted from 0, in ascending order.
    """
    places: list[int] = []
    while count:
        place = count - 1
        while comb(place + 1, count) <= index:
            place += 1
        index -= comb(place, count)
        places.append(place)
        count -= 1
    return tuple(reversed(places))


@dataclass(frozen=True)
class Puzzle(ABC):
    """One puzzle with its question and its verifier. It has plain values and is immutable."""

    @abstractmethod
    def question(self, language: str) -> str:
        """The whole question; its end describes the format of the answer."""

    @property
    @abstractmethod
    def brief(self) -> str:
        """The puzzle without rules and without the format of the answer, for a model too small to follow them."""

    @property
    @abstractmethod
    def answer(self) -> str:
        """A right answer without markup, on one or several lines."""

    @abstractmethod
    def steps(self, language: str) -> str:
        """The steps of a solution in words, without the answer in the required form."""

    @abstractmethod
    def final(self, language: str) -> str:
        """The right answer in the required form."""

    @property
    @abstractmethod
    def form(self) -> str:
        """The canonical form of the puzzle, equal for puzzles that differ only in order and names.

        No form is in both splits.
        """

    @abstractmethod
    def read(self, said: str) -> Hashable | None:
        """Parse an answer. Equal answers give equal values; None means that the text is no answer to this puzzle.

        Args:
            said: The text of a box, a code block or a line of a reply, up to 100,000 characters. The work is linear in
                its length.
        """

    @abstractmethod
    def is_right(self, said: Any) -> bool:
        """Whether a value of `read` solves the puzzle. It never raises."""

    @abstractmethod
    def near_misses(self) -> Iterator[tuple[str, str]]:
        """Wrong answers that are almost right, as pairs of a name and an answer without markup.

        Examples are an off-by-one, a swapped option, or an extra closing bracket. Each must be refused.
        """


class PuzzleKind(ABC):
    """One type of puzzle.

    Attributes:
        name: The name of the type.
        type_id: The number of the type; a task id is `type_id * 10^8 + seed`.
        asked_in: The required form of the answer, a key of `envs.answers.FORMS`.
        levels: The configuration of each level: a frozen dataclass that validates itself.
    """

    name: ClassVar[str]
    type_id: ClassVar[int]
    asked_in: ClassVar[str]
    levels: ClassVar[Mapping[int, Any]]

    @abstractmethod
    def make(self, level: int, number: int, random: Random) -> Puzzle:
        """A puzzle.

        Args:
            level: The level.
            number: The number of the puzzle within its level, from 0. A kind with few puzzles selects the puzzle, or a
                part of it, by this number, so that consecutive numbers do not repeat.
            random: A generator seeded with the kind and the seed.
        """
