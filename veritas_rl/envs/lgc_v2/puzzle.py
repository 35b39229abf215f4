"""What a kind of puzzle is, and what a puzzle knows: its question, its answer, and how others' answers are judged.

A kind stands in one file of `kinds/`: a frozen configuration for each level, the generator, and the verifier. A puzzle
depends on its kind and its seed alone. The level is a part of the seed: `level = seed % 5 + 1`, so that consecutive
seeds go through all levels.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from math import comb
from random import Random
from typing import Any, ClassVar

from veritas_rl.permutation import Permutation

LANGUAGES = ("en", "zh")
"""The languages in which questions are asked."""

LEVELS = (1, 2, 3, 4, 5)
"""The levels, the easiest first. The middle and upper ones have the sizes of the public environment."""

SEEDS = 100_000_000
"""Seeds of each type: 0 to SEEDS - 1."""

LARGEST_ORDERED = 1 << 60
"""Among more puzzles than this, 10,000 draws repeat with a chance below 1 in 10^10."""


def level_of(seed: int) -> int:
    """The level of a seed."""
    return seed % len(LEVELS) + 1


def indexed(number: int, space: int, random: Random, *words: object) -> int:
    """An index into a space of puzzles: consecutive numbers give different ones, as long as there are any.

    Args:
        number: Which of the level.
        space: How many puzzles there are.
        random: Draws where the space is so large that draws do not repeat.
        words: What the order depends on: the kind and the level.
    """
    return Permutation(space, *words)[number % space] if space <= LARGEST_ORDERED else random.randrange(space)


def places_of(count: int, index: int) -> tuple[int, ...]:
    """A set of places by its number, in the combinatorial number system (Knuth, TAOCP 7.2.1.3).

    Args:
        count: How many places it has.
        index: Which set: the first comb(n, count) are all sets of places below n.

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
    """One puzzle, with all that is needed to ask it and to judge an answer. It holds plain values and is immutable."""

    @abstractmethod
    def question(self, language: str) -> str:
        """The whole question, which ends with how to write the answer."""

    @property
    @abstractmethod
    def brief(self) -> str:
        """The bare puzzle, without rules and without how to answer: for a model too small to read."""

    @property
    @abstractmethod
    def answer(self) -> str:
        """A right answer, bare, on one line or on several."""

    @abstractmethod
    def steps(self, language: str) -> str:
        """How a solver finds the answer, step by step, in words that do not yet name it in the form that is asked."""

    @abstractmethod
    def final(self, language: str) -> str:
        """The right answer, written as the question asks for it."""

    @property
    @abstractmethod
    def form(self) -> str:
        """Equal for puzzles that are the same but for order and names. No form is in training and in validation."""

    @abstractmethod
    def read(self, said: str) -> Hashable | None:
        """What an answer says, in a form in which equal answers are equal; None if it is no answer to this puzzle.

        Args:
            said: A box, a code block or a line that a model wrote: anything, up to 100,000 characters. The work is
                linear in its length.
        """

    @abstractmethod
    def is_right(self, said: Any) -> bool:
        """Whether what `read` returned solves the puzzle. It raises nothing."""

    @abstractmethod
    def near_misses(self) -> Iterator[tuple[str, str]]:
        """Wrong answers that are nearly right, as pairs of a name and an answer that is bare as `answer` is.

        An off-by-one, a swapped option, a closing bracket too many. Each of them must be refused.
        """


class PuzzleKind(ABC):
    """One type of puzzle.

    Attributes:
        name: The type's name.
        type_id: Its number: a task id is `type_id * 10^8 + seed`.
        asked_in: The form in which the question asks for the answer: a key of `envs.answers.FORMS`.
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
            level: Its level.
            number: Which of the level, counted from 0: the seed without the level. A kind of few puzzles takes the
                puzzle, or a part of it, by this number, so that consecutive numbers do not repeat.
            random: Seeded with the kind and the seed.
        """
