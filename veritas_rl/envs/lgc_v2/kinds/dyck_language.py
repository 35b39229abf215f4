"""Type 0, dyck_language: complete a sequence of brackets with as few brackets as possible."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from veritas_rl.envs.lgc_v2.brackets import (
    OPENERS,
    PAIRS,
    beginning_of,
    closers_of,
    located,
    only_brackets,
    open_after,
    sizes_of,
)
from veritas_rl.envs.lgc_v2.puzzle import Puzzle, PuzzleKind, indexed

KINDS = 3
"""The number of kinds of brackets: (), [] and {}."""


@dataclass(frozen=True)
class DyckLanguageConfig:
    """The lengths of a level's sequences.

    Attributes:
        shortest: The length of the shortest completed sequence; even, at least 4.
        longest: The length of the longest completed sequence; even.
    """

    shortest: int
    longest: int

    def __post_init__(self) -> None:
        if self.shortest % 2 or self.longest % 2 or not 4 <= self.shortest <= self.longest:
            raise ValueError(f"lengths must be even and at least 4, the smaller first: {self}")


@dataclass(frozen=True)
class DyckLanguagePuzzle(Puzzle):
    """The beginning of a sequence, which lacks at least one bracket.

    Attributes:
        beginning: The shown part.
    """

    beginning: str

    def question(self, language: str) -> str:
        kinds = " ".join(PAIRS[:KINDS])
        if language == "zh":
            asked = (
                f"下面是一个括号序列的开头,括号有三种:{kinds}。"
                "请用尽可能少的括号把它补全,使每个括号都按正确的顺序闭合。"
            )
            format_ = "请把补全后的整个序列(开头加上补上的括号)写在 \\boxed{} 中。"
        else:
            asked = (
                f"Here is the beginning of a sequence of brackets of three kinds: {kinds}. Complete it with as few "
                "brackets as possible, so that every bracket is closed in the right order."
            )
            format_ = "Write the whole completed sequence, the given beginning included, in \\boxed{}."
        return f"{asked}\n\n{self.beginning}\n\n{format_}"

    @property
    def brief(self) -> str:
        return self.beginning

    @property
    def answer(self) -> str:
        return self.beginning + closers_of(open_after(self.beginning) or [])

    def steps(self, language: str) -> str:
        lines: list[str] = []
        stack: list[str] = []
        for place, bracket in enumerate(self.beginning, start=1):
            if bracket in OPENERS:
                stack.append(bracket)
            else:
                stack.pop()
            opened = " ".join(stack) or ("无" if language == "zh" else "nothing")
            lines.append(f"{place}. {bracket} → {opened}")
        head = (
            "逐个读括号,记下尚未闭合的括号:"
            if language == "zh"
            else "Read the brackets one by one and note which are open:"
        )
        tail = "从最内层开始闭合:" if language == "zh" else "Close them from the innermost one on:"
        return "\n".join([head, *lines, f"{tail} {' '.join(closers_of(stack))}"])

    def final(self, language: str) -> str:
        return f"\\boxed{{{self.answer}}}"

    @property
    def form(self) -> str:
        # The kinds of brackets are interchangeable, so they are named in order of appearance.
        names: dict[str, int] = {}
        return "".join(
            f"+{names.setdefault(bracket, len(names))}" if bracket in OPENERS else "-" for bracket in self.beginning
        )

    def read(self, said: str) -> str | None:
        return only_brackets(said)

    def is_right(self, said: str) -> bool:
        return said == self.answer

    def near_misses(self) -> Iterator[tuple[str, str]]:
        missing = closers_of(open_after(self.beginning) or [])
        yield "a closing bracket too many", self.answer + missing[-1]
        yield "a closing bracket too few", self.answer[:-1]
        yield "a pair too many", self.answer + "()"
        other = next(pair[1] for pair in PAIRS if pair[1] != missing[0])
        yield "another kind of bracket", self.beginning + other + missing[1:]
        if missing[::-1] != missing:
            yield "closed from the outermost", self.beginning + missing[::-1]
        if missing != self.answer:
            yield "the missing brackets alone", missing


class DyckLanguage(PuzzleKind):
    """Sequences to complete."""

    name = "dyck_language"
    type_id = 0
    asked_in = "box"
    levels: ClassVar[Mapping[int, DyckLanguageConfig]] = {
        1: DyckLanguageConfig(4, 8),
        2: DyckLanguageConfig(10, 16),
        3: DyckLanguageConfig(20, 34),
        4: DyckLanguageConfig(40, 50),
        5: DyckLanguageConfig(52, 60),
    }

    def make(self, level: int, number: int, random: Random) -> DyckLanguagePuzzle:
        config = self.levels[level]
        # The puzzle's number determines the length, the number of missing brackets, the walk and the kinds.
        sizes, spaces, space = sizes_of(config.shortest, config.longest, KINDS)
        which, index = located(indexed(number, space, random, self.name, level), spaces)
        return DyckLanguagePuzzle(beginning_of(*sizes[which], KINDS, index))
