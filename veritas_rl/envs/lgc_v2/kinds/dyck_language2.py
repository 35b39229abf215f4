"""Types 4 and 5, dyck_language2: put as few opening brackets as possible in front of a given ending.

The two types differ only in the size of the puzzles. Their lengths do not overlap, so they share no puzzle.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from veritas_rl.envs.lgc_v2.brackets import (
    CLOSERS,
    PAIRS,
    beginning_of,
    mirrored,
    only_brackets,
    open_after,
    place_of,
    sizes_of,
)
from veritas_rl.envs.lgc_v2.puzzle import Puzzle, PuzzleKind


@dataclass(frozen=True)
class DyckLanguage2Config:
    """The lengths of a level's sequences, and their kinds of brackets.

    Attributes:
        shortest: The length of the shortest completed sequence; even, at least 4.
        longest: The length of the longest completed sequence; even.
        kinds: The number of kinds of brackets, 2 to 8.
    """

    shortest: int
    longest: int
    kinds: int

    def __post_init__(self) -> None:
        if self.shortest % 2 or self.longest % 2 or not 4 <= self.shortest <= self.longest:
            raise ValueError(f"lengths must be even and at least 4, the smaller first: {self}")
        if not 2 <= self.kinds <= len(PAIRS):
            raise ValueError(f"the number of kinds of brackets must be 2 to {len(PAIRS)}: {self}")


@dataclass(frozen=True)
class DyckLanguage2Puzzle(Puzzle):
    """The end of a sequence, which lacks at least one opening bracket.

    Attributes:
        ending: The shown part.
        kinds: The number of kinds of brackets in the question.
    """

    ending: str
    kinds: int

    def question(self, language: str) -> str:
        pairs = " ".join(PAIRS[: self.kinds])
        if language == "zh":
            asked = (
                f"下面是一个括号序列的结尾,括号有 {self.kinds} 种:{pairs}。请在它前面添上尽可能少的左括号,"
                "使整个序列中每个左括号都由同种的右括号按正确的顺序闭合,并且没有多余的右括号。"
            )
            format_ = "请把整个序列(添上的括号加上给出的结尾)写在一对反引号中。"
        else:
            asked = (
                f"Here is the end of a sequence of brackets of {self.kinds} kinds: {pairs}. Put as few opening "
                "brackets as possible in front of it, so that in the whole sequence every opening bracket is closed "
                "by one of its kind in the right order, and every closing bracket closes one."
            )
            format_ = "Write the whole sequence, the given end included, between two backticks."
        return f"{asked}\n\n{self.ending}\n\n{format_}"

    @property
    def brief(self) -> str:
        return self.ending

    @property
    def missing(self) -> str:
        """The opening brackets to add, the outermost first."""
        # In the mirror image of the ending, the brackets without an opening bracket become the open brackets.
        return "".join(open_after(mirrored(self.ending)) or [])

    @property
    def answer(self) -> str:
        return self.missing + self.ending

    def steps(self, language: str) -> str:
        chinese = language == "zh"
        lines: list[str] = []
        waiting: list[str] = []
        for place, bracket in enumerate(reversed(self.ending), start=1):
            if bracket in CLOSERS:
                waiting.append(bracket)
            else:
                waiting.pop()
            left = " ".join(waiting) or ("无" if chinese else "none")
            lines.append(f"{place}. {bracket} → {left}")
        if chinese:
            head = "从最后一个括号往前逐个读,记下尚无左括号与之配对的右括号:"
            tail = "把剩下的右括号依次换成左括号,从外到内写在结尾之前:"
        else:
            head = "Read the brackets from the last one to the first and note which closing ones wait for their opener:"
            tail = "Each one left needs its opening bracket in front of the end, from the outermost to the innermost:"
        return "\n".join([head, *lines, f"{tail} {' '.join(CLOSERS[bracket] for bracket in waiting)}"])

    def final(self, language: str) -> str:
        return f"`{self.answer}`"

    @property
    def form(self) -> str:
        # The kinds of brackets are interchangeable, so they are named in order of appearance from the end.
        names: dict[str, int] = {}
        return "".join(
            f"-{names.setdefault(bracket, len(names))}" if bracket in CLOSERS else "+"
            for bracket in reversed(self.ending)
        )

    def read(self, said: str) -> str | None:
        # A completed sequence is longer than the ending. A shorter text may be a quoted bracket or the quoted ending.
        sequence = only_brackets(said, self.kinds)
        return sequence if sequence and len(sequence) > len(self.ending) else None

    def is_right(self, said: str) -> bool:
        return said == self.answer

    def near_misses(self) -> Iterator[tuple[str, str]]:
        missing = self.missing
        yield "an opening bracket too many", missing[0] + self.answer
        yield "an opening bracket too few", self.answer[1:]
        yield "a closing bracket too many", self.answer + self.answer[-1]
        yield "a closing bracket too few", self.answer[:-1]
        yield "a pair too many", PAIRS[0] + self.answer
        other = next(pair[0] for pair in PAIRS if pair[0] != missing[-1])
        yield "another kind of bracket", missing[:-1] + other + self.ending
        if missing[::-1] != missing:
            yield "opened from the innermost", missing[::-1] + self.ending
        if len(missing) > 1 and missing[0] != missing[1]:
            yield "two brackets swapped", missing[1] + missing[0] + missing[2:] + self.ending
        yield "the missing brackets alone", missing


class DyckLanguage2(PuzzleKind):
    """Endings of sequences with up to 24 brackets when completed."""

    name = "dyck_language2"
    type_id = 4
    asked_in = "inline"
    levels: ClassVar[Mapping[int, DyckLanguage2Config]] = {
        1: DyckLanguage2Config(4, 8, 3),
        2: DyckLanguage2Config(10, 12, 3),
        3: DyckLanguage2Config(14, 16, 4),
        4: DyckLanguage2Config(18, 20, 5),
        5: DyckLanguage2Config(22, 24, 6),
    }

    def make(self, level: int, number: int, random: Random) -> DyckLanguage2Puzzle:
        config = self.levels[level]
        sizes, spaces, _ = sizes_of(config.shortest, config.longest, config.kinds)
        which, index = place_of(number, spaces, random, self.name, level)
        beginning = beginning_of(*sizes[which], config.kinds, index)
        return DyckLanguage2Puzzle(mirrored(beginning), config.kinds)


class DyckLanguage2Long(DyckLanguage2):
    """Endings of sequences with 26 to 60 brackets when completed."""

    name = "dyck_language2_long"
    type_id = 5
    levels: ClassVar[Mapping[int, DyckLanguage2Config]] = {
        1: DyckLanguage2Config(26, 32, 4),
        2: DyckLanguage2Config(34, 38, 5),
        3: DyckLanguage2Config(40, 46, 6),
        4: DyckLanguage2Config(48, 52, 7),
        5: DyckLanguage2Config(54, 60, 8),
    }
