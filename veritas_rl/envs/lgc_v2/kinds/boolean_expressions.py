"""Type 6, boolean_expressions: which of several boolean expressions are true."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import comb
from random import Random
from typing import ClassVar

from veritas_rl.envs.lgc_v2.kinds.boolean_trees import Tree, drawn, reduced, truth, written
from veritas_rl.envs.lgc_v2.puzzle import Puzzle, PuzzleKind, indexed, places_of

LABELS = "ABCDEFGH"
"""The labels of options."""

FIRST_NUMBERS = 60
"""The first number in an option is from 1 to this; the options of a puzzle have different first numbers."""

LONGEST_ANSWER = 200
"""The most characters of an answer; a longer answer is not parsed."""

_LABEL = r"(?:[A-Z]|\([A-Z]\))"
# No text may match this pattern in two ways; otherwise a long invalid answer would take exponential time.
_BETWEEN = r"\s*(?:(?:[,;、\uff0c&和]|(?:,\s*)?\band\b)\s*)?"
_NOUN = re.compile(r"(?:options?\b|选项)\s*[:\uff1a]?\s*", re.IGNORECASE)
_LABELS = re.compile(rf"{_LABEL}(?:{_BETWEEN}{_LABEL})*")
_BRACKETS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class BooleanExpressionsConfig:
    """The sizes of a level's puzzles.

    Attributes:
        fewest: The smallest number of options, at least 4, so that no constant answer is right in a tenth of the
            puzzles.
        most: The largest number of options, at most 8.
        shallowest: The smallest depth of an expression, at least 1. The depth counts nested words such as "and".
        deepest: The largest depth of an expression, at most 6.
    """

    fewest: int
    most: int
    shallowest: int
    deepest: int

    def __post_init__(self) -> None:
        if not 4 <= self.fewest <= self.most <= len(LABELS):
            raise ValueError(f"the numbers of options must be 4 to {len(LABELS)}, the smaller first: {self}")
        if not 1 <= self.shallowest <= self.deepest <= 6:
            raise ValueError(f"depths must be 1 to 6, the smaller first: {self}")


@dataclass(frozen=True)
class BooleanExpressionsPuzzle(Puzzle):
    """Options, of which at least one is true.

    Attributes:
        options: The expressions, in the order of their labels.
    """

    options: tuple[Tree, ...]

    def question(self, language: str) -> str:
        if language == "zh":
            asked = "下面哪些表达式为真? 至少有一个为真。"
            order = (
                "先算括号里的;然后算比较和“4 是偶数”这样的陈述,其中 * 先于 + 和 -;"
                "再依次算 not、and、xor、or。当且仅当两边恰有一个为真时, xor 为真。"
            )
            format_ = "请把所有为真的选项的字母写在 \\boxed{} 中,用逗号隔开。"
        else:
            asked = "Which of these expressions are true? At least one is."
            order = (
                'Parentheses come first, then comparisons and statements such as "4 is even", in which * comes before '
                '+ and -. After them "not" is worked out first, then "and", then "xor", then "or". '
                '"xor" is true if exactly one of its two sides is true.'
            )
            format_ = "Write the letters of all options that are true in \\boxed{}, with commas between them."
        return f"{asked}\n\n{order}\n\n{self._shown(language)}\n\n{format_}"

    @property
    def brief(self) -> str:
        return self._shown("en")

    @cached_property
    def right(self) -> frozenset[str]:
        """The labels of the options that are true."""
        return frozenset(label for label, option in zip(self.labels, self.options, strict=True) if truth(option))

    @property
    def labels(self) -> str:
        """The labels of all options."""
        return LABELS[: len(self.options)]

    @property
    def answer(self) -> str:
        return _joined(self.right)

    def steps(self, language: str) -> str:
        head = "逐个化简:" if language == "zh" else "Simplify the options one by one:"
        lines = [
            f"{label}. " + "\n   → ".join(written(stage, language) for stage in reduced(option))
            for label, option in zip(self.labels, self.options, strict=True)
        ]
        return "\n".join([head, *lines])

    def final(self, language: str) -> str:
        return f"\\boxed{{{self.answer}}}"

    @property
    def form(self) -> str:
        return "|".join(sorted(written(option, "en") for option in self.options))

    def read(self, said: str) -> frozenset[str] | None:
        return labels_in(said, self.labels)

    def is_right(self, said: frozenset[str]) -> bool:
        return said == self.right

    def near_misses(self) -> Iterator[tuple[str, str]]:
        others = frozenset(self.labels) - self.right
        last = max(self.right)
        if len(self.right) > 1:
            yield "an option missing", _joined(self.right - {last})
        if others:
            yield "an option too many", _joined(self.right | {min(others)})
            yield "an option swapped", _joined(self.right - {last} | {min(others)})
            yield "the options that are false", _joined(others)
            yield "all options", _joined(frozenset(self.labels))
        yield "a letter that is no option", f"{self.answer},{chr(ord(self.labels[-1]) + 1)}"
        yield "an option twice", f"{self.answer},{last}"
        yield "small letters", self.answer.lower()

    def _shown(self, language: str) -> str:
        return "\n".join(
            f"{label}. {written(option, language)}" for label, option in zip(self.labels, self.options, strict=True)
        )


class BooleanExpressions(PuzzleKind):
    """Boolean expressions as options, of which the true ones are to be named."""

    name = "boolean_expressions"
    type_id = 6
    asked_in = "box"
    levels: ClassVar[Mapping[int, BooleanExpressionsConfig]] = {
        1: BooleanExpressionsConfig(4, 4, 1, 2),
        2: BooleanExpressionsConfig(4, 4, 2, 2),
        3: BooleanExpressionsConfig(4, 5, 2, 3),
        4: BooleanExpressionsConfig(5, 6, 3, 4),
        5: BooleanExpressionsConfig(6, 8, 4, 6),
    }

    def make(self, level: int, number: int, random: Random) -> BooleanExpressionsPuzzle:
        config = self.levels[level]
        # The puzzle's number determines the set of first numbers, so options and consecutive puzzles differ.
        sizes = range(config.fewest, config.most + 1)
        spaces = [comb(FIRST_NUMBERS, size) for size in sizes]
        size = random.choice(sizes)
        index = indexed(number, spaces[size - config.fewest], random, self.name, level, size)
        firsts = [place + 1 for place in reversed(places_of(size, index))]
        random.shuffle(firsts)
        true = random.randrange(1, 1 << size)
        return BooleanExpressionsPuzzle(
            tuple(
                drawn(random.randint(config.shallowest, config.deepest), bool(true >> place & 1), random, first)
                for place, first in enumerate(firsts)
            )
        )


def labels_in(said: str, labels: str) -> frozenset[str] | None:
    """The options that a text names; None if it names an option twice or contains other text.

    Args:
        said: A text such as "A, C", "A and C", "AC", "{A, C}" or "Options A, C".
        labels: The labels of the puzzle's options.
    """
    text = said.strip()
    if len(text) > LONGEST_ANSWER:
        return None
    text = text.replace("**", "")
    text = text[noun.end() :] if (noun := _NOUN.match(text)) else text
    if not _LABELS.fullmatch(text) and len(text) > 1 and _BRACKETS.get(text[0]) == text[-1]:
        text = text[1:-1].strip()
    if not _LABELS.fullmatch(text):
        return None
    named = [letter for letter in text if "A" <= letter <= "Z"]
    return frozenset(named) if len(set(named)) == len(named) and set(named) <= set(labels) else None


def _joined(labels: frozenset[str]) -> str:
    return ",".join(sorted(labels))
