"""Type 8, dyck_language_reasoning_errors: find the wrong steps in a step-by-step reading of brackets.

Each step states the brackets that are open after it. Whether a step is right depends only on the sequence, not on
earlier steps, so the set of wrong steps is unique.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import comb
from random import Random
from typing import ClassVar

from veritas_rl.envs.lgc_v2.brackets import OPENERS, PAIRS, path_of, paths, place_of, written
from veritas_rl.envs.lgc_v2.puzzle import Puzzle, PuzzleKind, places_of

EMPTY = "∅"
"""The statement of a step after which no bracket is open."""

_PART = re.compile(r"[0-9]+|[a-z]+|\S")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_SIGNS: Mapping[str, str] = {
    **dict.fromkeys(("step", "steps", "wrong", "the", "is", "are", ":", "\uff1a", *"第步骤错误的编号是为"), ""),
    **dict.fromkeys(("and", "&", *",;、和\uff0c\uff1b"), ","),
    **dict.fromkeys("{[(", "("),
    **dict.fromkeys("}])", ")"),
}
"""The allowed text around step numbers: filler words, separators and brackets."""

_LIST = re.compile(r"n(?:,{0,2}n)*|\(n(?:,{0,2}n)*\)")


@dataclass(frozen=True)
class ReasoningErrorsConfig:
    """The lengths of a level's sequences, and their numbers of wrong steps.

    Attributes:
        shortest: The length of the shortest sequence; even, at least 4.
        longest: The length of the longest sequence; even.
        kinds: The number of kinds of brackets, 2 to 8.
        fewest: The smallest number of wrong steps, at least 1.
        most: The largest number of wrong steps, less than the number of steps.
    """

    shortest: int
    longest: int
    kinds: int
    fewest: int
    most: int

    def __post_init__(self) -> None:
        if self.shortest % 2 or self.longest % 2 or not 4 <= self.shortest <= self.longest:
            raise ValueError(f"lengths must be even and at least 4, the smaller first: {self}")
        if not 2 <= self.kinds <= len(PAIRS):
            raise ValueError(f"the number of kinds of brackets must be 2 to {len(PAIRS)}: {self}")
        if not 1 <= self.fewest <= self.most < self.shortest:
            raise ValueError(f"at least one step must be wrong and at least one right: {self}")


@dataclass(frozen=True)
class ReasoningErrorsPuzzle(Puzzle):
    """A closed sequence of brackets, and the statements about it.

    Attributes:
        sequence: The sequence.
        stated: For each step, the brackets that it states as open, the outermost first.
    """

    sequence: str
    stated: tuple[str, ...]

    def question(self, language: str) -> str:
        if language == "zh":
            asked = (
                "下面逐个读一个括号序列。每一步先写读到的括号,再写读完它之后尚未闭合的括号,从最外层开始;"
                f"{EMPTY} 表示没有。有些步骤写错了,至少有一步。"
            )
            sequence = f"序列:{self.sequence}"
            format_ = (
                "如果一步所写的未闭合括号与序列读到该处时真正未闭合的括号不同,或者顺序不同,这一步就是错的。每一步只按序列本身判断,"
                "与其他步骤写了什么无关。请把所有错误步骤的编号写在 \\boxed{} 中,用逗号隔开。"
            )
        else:
            asked = (
                "A sequence of brackets is read below, one bracket a step. Each step shows the bracket read and "
                f"then the brackets that are open after it, the outermost first, or {EMPTY} if none is open. Some "
                "of the steps are wrong, at least one."
            )
            sequence = f"Sequence: {self.sequence}"
            format_ = (
                "A step is wrong if the brackets that it shows as open are not exactly those that are really open "
                "after that bracket of the sequence, in that order. Judge each step by the sequence alone, whatever "
                "the other steps show. Write the numbers of all wrong steps in \\boxed{}, separated by commas."
            )
        return f"{asked}\n\n{sequence}\n\n{self.brief}\n\n{format_}"

    @property
    def brief(self) -> str:
        steps = enumerate(zip(self.sequence, self.stated, strict=True), start=1)
        return "\n".join(f"{place}. {bracket} → {_shown(stack)}" for place, (bracket, stack) in steps)

    @property
    def wrong(self) -> frozenset[int]:
        """The numbers of the wrong steps, counted from 1."""
        pairs = enumerate(zip(self.stated, stacks_of(self.sequence), strict=True), start=1)
        return frozenset(place for place, (stated, true) in pairs if stated != true)

    @property
    def answer(self) -> str:
        return _listed(self.wrong)

    def steps(self, language: str) -> str:
        chinese = language == "zh"
        lines: list[str] = []
        for place, (bracket, stated, true) in enumerate(
            zip(self.sequence, self.stated, stacks_of(self.sequence), strict=True), start=1
        ):
            if stated == true:
                verdict = "正确" if chinese else "right"
            else:
                verdict = f"写的是 {_shown(stated)},错误" if chinese else f"it shows {_shown(stated)}, wrong"
            lines.append(f"{place}. {bracket} → {_shown(true)}{',' if chinese else ', '}{verdict}")
        head = (
            "自己逐个读括号,写出真正未闭合的括号,再与每一步比较:"
            if chinese
            else "Read the sequence again, write what is really open after each bracket, and compare:"
        )
        tail = "标为错误的步骤就是答案。" if chinese else "The steps marked as wrong are the answer."
        return "\n".join([head, *lines, tail])

    def final(self, language: str) -> str:
        return f"\\boxed{{{self.answer}}}"

    @property
    def form(self) -> str:
        # The kinds of brackets are interchangeable, so they are named in order of appearance.
        names: dict[str, int] = {}
        return "|".join(
            "".join(f"{names.setdefault(opener, len(names))}" for opener in stack)
            for stack in (*stacks_of(self.sequence), *self.stated)
        )

    def read(self, said: str) -> frozenset[int] | None:
        parts = _PART.findall(said.lower())
        kinds = ["n" if _NUMBER.fullmatch(part) else _SIGNS.get(part) for part in parts]
        if any(kind is None for kind in kinds) or not _LIST.fullmatch("".join(kind or "" for kind in kinds)):
            return None
        numbers = [int(part) for part, kind in zip(parts, kinds, strict=True) if kind == "n"]
        return frozenset(numbers) if len(set(numbers)) == len(numbers) else None  # no step twice

    def is_right(self, said: frozenset[int]) -> bool:
        return said == self.wrong

    def near_misses(self) -> Iterator[tuple[str, str]]:
        wrong = self.wrong
        count = len(self.sequence)
        right = [place for place in range(1, count + 1) if place not in wrong]
        beside = next((place, by) for place in sorted(wrong) for by in (1, -1) if place + by in right)
        yield "a step number off by one", _listed(wrong - {beside[0]} | {sum(beside)})
        yield "a step too many", _listed(wrong | {right[0]})
        yield "a step beyond the last", _listed(wrong | {count + 1})
        if len(wrong) > 1:
            yield "a step missing", _listed(wrong - {min(wrong)})
            yield "the first wrong step alone", str(min(wrong))
        yield "the steps that are right", _listed(right)
        yield "steps counted from 0", _listed(place - 1 for place in wrong)
        yield "all steps", _listed(range(1, count + 1))


class ReasoningErrors(PuzzleKind):
    """Step-by-step readings with errors to find."""

    name = "dyck_language_reasoning_errors"
    type_id = 8
    asked_in = "box"
    levels: ClassVar[Mapping[int, ReasoningErrorsConfig]] = {
        1: ReasoningErrorsConfig(6, 8, 3, 1, 2),
        2: ReasoningErrorsConfig(10, 12, 3, 2, 3),
        3: ReasoningErrorsConfig(14, 18, 3, 2, 4),
        4: ReasoningErrorsConfig(20, 24, 4, 2, 5),
        5: ReasoningErrorsConfig(26, 30, 4, 3, 5),
    }

    def make(self, level: int, number: int, random: Random) -> ReasoningErrorsPuzzle:
        config = self.levels[level]
        sizes, spaces = _sizes(config)
        which, index = place_of(number, spaces, random, self.name, level)
        length, errors = sizes[which]
        index, chosen = divmod(index, comb(length, errors))
        walk, kinds = divmod(index, config.kinds ** (length // 2))
        sequence = written(
            path_of(length, 0, walk), [kinds // config.kinds**place % config.kinds for place in range(length // 2)]
        )
        stacks = stacks_of(sequence)
        stated = list(stacks)
        for place in places_of(errors, chosen):
            before = stacks[place - 1] if place else ""
            stated[place] = random.choice(_mistaken(before, sequence[place], stacks[place], config.kinds, random))
        return ReasoningErrorsPuzzle(sequence, tuple(stated))


def stacks_of(sequence: str) -> list[str]:
    """The brackets that are open after each bracket of a valid sequence."""
    stacks: list[str] = []
    stack = ""
    for bracket in sequence:
        stack = stack + bracket if bracket in OPENERS else stack[:-1]
        stacks.append(stack)
    return stacks


def _mistaken(before: str, bracket: str, true: str, kinds: int, random: Random) -> list[str]:
    """Wrong statements instead of the true open brackets, one for each kind of mistake."""
    openers = [pair[0] for pair in PAIRS[:kinds]]
    stated = [before]  # the bracket is overlooked
    if bracket in OPENERS:
        stated += [before + random.choice(openers), true + bracket]
    else:
        stated += [true[:-1], before[1:]]  # two brackets are closed, or the outermost instead of the innermost
    if true:
        place = random.randrange(len(true))
        stated.append(true[:place] + random.choice(openers) + true[place + 1 :])
        stated.append(true[:place] + true[place + 1 :])
    if len(true) > 1:
        place = random.randrange(len(true) - 1)
        stated.append(true[:place] + true[place + 1] + true[place] + true[place + 2 :])
    return [stack for stack in stated if stack != true]


@cache
def _sizes(config: ReasoningErrorsConfig) -> tuple[list[tuple[int, int]], list[int]]:
    """The sizes as pairs of a length and a number of wrong steps, and the number of puzzles of each size.

    This number is the product of the numbers of walks, choices of kinds, and sets of wrong steps.
    """
    sizes = [
        (length, errors)
        for length in range(config.shortest, config.longest + 1, 2)
        for errors in range(config.fewest, config.most + 1)
    ]
    spaces = [paths(length, 0) * config.kinds ** (length // 2) * comb(length, errors) for length, errors in sizes]
    return sizes, spaces


def _shown(stack: str) -> str:
    return " ".join(stack) or EMPTY


def _listed(places: Iterable[int]) -> str:
    return ",".join(map(str, sorted(places)))
