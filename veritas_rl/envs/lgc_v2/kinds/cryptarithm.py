"""Type 3, cryptarithm: letters stand for digits, as in SEND + MORE = MONEY, and there is exactly one solution."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, count, pairwise, permutations, product
from random import Random
from string import ascii_uppercase
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veritas_rl.envs.lgc_v2.letter_equations import LetterEquation, solve, worth, written
from veritas_rl.envs.lgc_v2.puzzle import LARGEST_ORDERED, Puzzle, PuzzleKind, indexed
from veritas_rl.permutation import Permutation

LETTERS = "".join(letter for letter in ascii_uppercase if letter not in "IO")
"""The letters of equations; without I and O, which look like 1 and 0."""

CANDIDATES = 4096
"""The number of candidates for each puzzle number. In the worst case, one candidate in 200 is a valid puzzle."""

MAX_CHARACTERS = 200
"""The maximum length of an answer."""

_EQUATION = re.compile(r"[0-9]+(?:\s*[-+*]\s*[0-9]+)*\s*=\s*[0-9]+")
_LEAD = re.compile(r"^(?:[A-Za-z]{2,12}[,:]?\s+){1,4}(?=[0-9])")
"""Words such as "Therefore" before an equation."""
_ASSIGNED = re.compile(r"([A-Z])=([0-9])")
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=(?:[0-9]{3})+(?![0-9]))")
_SEPARATORS = str.maketrans(dict.fromkeys(",;\uff0c\u3001{}", " "))


@dataclass(frozen=True)
class Shape:
    """The shape of an equation.

    Attributes:
        operations: The operations, each one of +, - and *; products come before sums.
        lengths: The number of digits of each number on the left; the lengths of summands do not increase.
        letters: The largest number of different letters in the whole equation; the smallest is one less.
    """

    operations: str
    lengths: tuple[int, ...]
    letters: int

    def __post_init__(self) -> None:
        if not 1 <= len(self.operations) <= 3 or not set(self.operations) <= set("+-*"):
            raise ValueError(f"a cryptarithm needs 1 to 3 operations of + - *: {self}")
        if len(self.lengths) != len(self.operations) + 1 or not 2 <= self.letters <= 8:
            raise ValueError(f"a cryptarithm needs one number more than operations, of 2 to 8 letters: {self}")

    @property
    def space(self) -> int:
        """The number of candidates."""
        return len(_digit_sets(self.letters - 1)) * (self.letters - 1) ** sum(self.lengths)


@dataclass(frozen=True)
class CryptarithmConfig:
    """The puzzles of a level.

    Attributes:
        shapes: The shapes, used in rotation. None for all additions of two numbers of up to three digits, with up to
            four letters.
    """

    shapes: tuple[Shape, ...] | None


@dataclass(frozen=True)
class CryptarithmPuzzle(Puzzle):
    """An equation of letters with one solution.

    Attributes:
        equation: The equation.
        digits: The digits of its letters, in the order of `equation.letters`.
    """

    equation: LetterEquation
    digits: tuple[int, ...]

    def question(self, language: str) -> str:
        product_ = "*" in self.equation.operations and len(self.equation.operations) > 1
        # Question marks instead of digits, so that a copy of the question is no answer.
        blank = written(["?"] * len(self.equation.words), self.equation.operations)
        if language == "zh":
            asked = (
                "在下面的等式中,每个字母代表一个数字,相同的字母代表相同的数字,不同的字母代表不同的数字,"
                "任何数都不以 0 开头(一位数除外)。" + ("先算乘法,再算加减法。" if product_ else "") + "请求出唯一的解。"
            )
            format_ = f"最后一行请按同样的顺序写出代入数字后的等式:答案是 {blank}"
        else:
            asked = (
                "In the equation below each letter stands for one digit, the same one everywhere, and different "
                "letters stand for different digits. No number of two digits or more begins with 0. "
                + ("Multiplication comes before addition and subtraction. " if product_ else "")
                + "There is exactly one solution: find it."
            )
            format_ = (
                "End with one line that gives the equation in digits, in the same order, in place of the question "
                f"marks: The answer is {blank}"
            )
        return f"{asked}\n\n{self.equation}\n\n{format_}"

    @property
    def brief(self) -> str:
        return str(self.equation)

    @property
    def answer(self) -> str:
        return written(self._numbers(self.digits), self.equation.operations)

    def steps(self, language: str) -> str:
        chinese = language == "zh"
        searched = solve(self.equation)
        rows = searched.rows if searched else ()
        head = (
            "从右到左逐列代入数字,只保留每一列都成立的取法:"
            if chinese
            else "Go through the columns from the right, and keep the digits with which every column so far is right:"
        )
        lines = [
            f"第 {column} 列:{rows_} 种" if chinese else f"column {column}: {rows_} ways left"
            for column, rows_ in enumerate(rows, start=1)
        ]
        letters = " ".join(
            f"{letter}→{digit}" for letter, digit in zip(self.equation.letters, self.digits, strict=True)
        )
        only = f"只剩一种:{letters}" if chinese else f"One way is left: {letters}"
        checked = "从右到左验算:" if chinese else "Checked from the right:"
        return "\n".join([head, *lines, only, checked, *self._columns(chinese)])

    def final(self, language: str) -> str:
        return f"答案是 {self.answer}" if language == "zh" else f"The answer is {self.answer}"

    @property
    def form(self) -> str:
        # Letters are named in order of appearance, and the order of summands and factors does not matter.
        return min(_renamed(words, operations) for words, operations in _orders(self.equation))

    def read(self, said: str) -> str | None:
        said = said.strip()
        if not said or len(said) > MAX_CHARACTERS:
            return None
        if _EQUATION.fullmatch(equation := _THOUSANDS.sub("", _LEAD.sub("", said.replace("{,}", ","), count=1))):
            plain = "".join(equation.split())
            same = re.findall(r"[-+*]", plain) == list(self.equation.operations)
            return plain if same else None
        pairs = re.sub(r"\s*(?:[=:\uff1a→]|->)\s*", "=", said.translate(_SEPARATORS)).split()
        found = [_ASSIGNED.fullmatch(pair) for pair in pairs if pair != "and"]
        assigned = {match[1]: match[2] for match in found if match}
        if None in found or len(found) != len(assigned) or assigned.keys() != set(self.equation.letters):
            return None
        digits = [int(assigned[letter]) for letter in self.equation.letters]
        return "".join(written(self._numbers(digits), self.equation.operations).split())

    def is_right(self, said: str) -> bool:
        # The solution is unique, so the equation in digits is a unique text.
        return said == "".join(self.answer.split())

    def near_misses(self) -> Iterator[tuple[str, str]]:
        numbers, operations = self._numbers(self.digits), self.equation.operations
        yield "a result one too large", written([*numbers[:-1], str(int(numbers[-1]) + 1)], operations)
        yield "a result one too small", written([*numbers[:-1], str(int(numbers[-1]) - 1)], operations)
        yield "a number one too large", written([str(int(numbers[0]) + 1), *numbers[1:]], operations)
        first, second, *others = self.digits
        swapped = (second, first, *others)
        yield "the digits of two letters swapped", written(self._numbers(swapped), operations)
        yield "a leading zero", written([f"0{numbers[0]}", *numbers[1:]], operations)
        yield "the left side alone", written(numbers, operations).partition(" =")[0]
        yield "the letters", str(self.equation)
        assigned = [f"{letter}={digit}" for letter, digit in zip(self.equation.letters, self.digits, strict=True)]
        yield "a letter left out", ", ".join(assigned[:-1])
        yield "a letter twice", ", ".join([*assigned, assigned[0]])

    def _numbers(self, digits: Sequence[int]) -> list[str]:
        table = str.maketrans(dict(zip(self.equation.letters, map(str, digits), strict=True)))
        return [word.translate(table) for word in self.equation.words]

    def _columns(self, chinese: bool) -> Iterator[str]:
        """Each column with its carry; for products, the last digits of the numbers instead."""
        numbers, operations = self._numbers(self.digits), self.equation.operations
        if "*" in operations:
            for column in range(1, len(numbers[-1]) + 1):
                ends = [number[-column:] for number in numbers]
                made = worth([int(end) for end in ends[:-1]], operations)
                left = written(ends, operations).partition(" =")[0]
                yield (
                    f"末 {column} 位:{left} = {made},末尾是 {made % 10**column:0{column}d}"
                    if chinese
                    else f"last {column}: {left} = {made}, which ends in {made % 10**column:0{column}d}"
                )
            return
        carry = 0
        for column in range(max(map(len, numbers))):
            signs = ("+", *operations)
            terms = [
                f"{sign} {number[-1 - column]}"
                for sign, number in zip(signs, numbers[:-1], strict=True)
                if column < len(number)
            ]
            if carry:
                terms.append(f"{'+' if carry > 0 else '-'} {abs(carry)}")
            total = sum(int(term.replace(" ", "")) for term in terms)
            carry, digit = divmod(total, 10)
            shown = " ".join(terms).removeprefix("+ ") or "0"
            yield (
                f"第 {column + 1} 列:{shown} = {total},写 {digit},进位 {carry}"
                if chinese
                else f"column {column + 1}: {shown} = {total}, write {digit}, carry {carry}"
            )


class Cryptarithm(PuzzleKind):
    """Equations of letters."""

    name = "cryptarithm"
    type_id = 3
    asked_in = "statement"
    levels: ClassVar[Mapping[int, CryptarithmConfig]] = {
        1: CryptarithmConfig(None),
        2: CryptarithmConfig((Shape("+", (4, 4), 5), Shape("-", (5, 4), 5), Shape("++", (4, 4, 3), 5))),
        3: CryptarithmConfig(
            (Shape("+", (5, 5), 6), Shape("-", (5, 5), 6), Shape("++", (4, 4, 4), 6), Shape("*", (4, 2), 6))
        ),
        4: CryptarithmConfig(
            (
                Shape("+", (6, 5), 7),
                Shape("-", (6, 6), 7),
                Shape("++", (5, 5, 4), 7),
                Shape("*", (4, 3), 7),
                Shape("*+", (4, 2, 4), 7),
                Shape("*-", (4, 2, 4), 7),
            )
        ),
        5: CryptarithmConfig(
            (
                Shape("+", (6, 6), 8),
                Shape("-", (7, 7), 8),
                Shape("++", (6, 6, 5), 8),
                Shape("*", (5, 3), 8),
                Shape("*+", (4, 3, 5), 8),
                Shape("+++", (6, 6, 6, 5), 8),
                Shape("++-", (6, 6, 6, 6), 8),
                Shape("*+-", (4, 3, 5, 5), 8),
            )
        ),
    }

    def make(self, level: int, number: int, random: Random) -> CryptarithmPuzzle:
        shapes = self.levels[level].shapes
        if shapes is None:
            sums = small_sums()
            return _puzzle([*sums[indexed(number, len(sums), random, self.name, level)]], "+", random)
        block, which = divmod(number, len(shapes))
        shape = shapes[which]
        order = _order(shape.space, self.name, level, which)
        for attempt in count(block * CANDIDATES):
            index = order[attempt % shape.space] if order else random.randrange(shape.space)
            numbers = candidate(shape, index)
            if numbers is None or _ambiguous(numbers, shape.operations):
                continue
            solved = solve(_lettered(numbers, shape.operations, LETTERS))
            if solved is not None and len(solved.digits) == 1:
                return _puzzle(numbers, shape.operations, random)
        raise AssertionError("the iterator of candidates is endless")


def candidate(shape: Shape, index: int) -> list[int] | None:
    """The numbers of the left side by their index; None if they do not form an equation of the shape.

    The numbers use all digits of a set of `shape.letters - 1` digits. The result may add one more digit.
    """
    index, which = divmod(index, len(_digit_sets(shape.letters - 1)))
    digits = _digit_sets(shape.letters - 1)[which]
    numbers: list[int] = []
    used: set[int] = set()
    for length in shape.lengths:
        number = 0
        for _ in range(length):
            index, place = divmod(index, len(digits))
            number = 10 * number + digits[place]
            used.add(place)
        if number < 10 ** (length - 1):
            return None
        numbers.append(number)
    # Consecutive summands are in descending order, so that their permutations are not repeated.
    if len(used) < len(digits) or any(numbers[one] < numbers[other] for one, other in _added(shape.operations)):
        return None
    result = worth(numbers, shape.operations)
    return numbers if result > 0 and len({*map(str, digits), *str(result)}) <= shape.letters else None


@cache
def small_sums() -> list[tuple[int, int]]:
    """All pairs a >= b of up to three digits whose addition has up to four letters and exactly one solution.

    The form of an addition renames its digits in order of appearance. A form that only one pair has is a puzzle with
    one solution. All pairs are processed at once.
    """
    numbers = np.arange(2 * 1000)
    powers = 10 ** np.arange(3, -1, -1)
    # A row of digits for each number, right-aligned and padded with 10.
    digits = np.where(numbers[:, None] >= powers, numbers[:, None] // powers % 10, 10)
    lengths = (digits < 10).sum(axis=1)
    masks: NDArray[np.int64] = np.bitwise_or.reduce((1 << digits) & 1023, axis=1)
    few = np.array([mask.bit_count() <= 4 for mask in range(1024)])
    first, second = (side.ravel() for side in np.meshgrid(numbers[1:1000], numbers[1:1000]))
    small = few[masks[first] | masks[second] | masks[first + second]]
    first, second = first[small], second[small]
    places = np.hstack([digits[first][:, 1:], digits[second][:, 1:], digits[first + second]])
    names = (places[:, :, None] == places[:, None, :]).argmax(axis=2)
    sizes = 100 * lengths[first] + 10 * lengths[second] + lengths[first + second]
    forms = names @ 10 ** np.arange(places.shape[1]) * 1000 + sizes
    _, which, pairs = np.unique(forms, return_inverse=True, return_counts=True)
    alone = (pairs[which] == 1) & (first >= second)
    return sorted(zip(first[alone].tolist(), second[alone].tolist(), strict=True))


@cache
def _digit_sets(letters: int) -> list[tuple[int, ...]]:
    return list(combinations(range(10), letters))


@cache
def _added(operations: str) -> list[tuple[int, int]]:
    """Pairs of indices of consecutive positive summands that are not products."""
    signs = f"+{operations}+"
    added = [place for place, pair in enumerate(pairwise(signs)) if "*" not in pair and pair[0] == "+"]
    return list(pairwise(added))


@cache
def _order(space: int, *words: object) -> Permutation | None:
    """The order of candidates; None if there are so many that draws do not repeat."""
    return Permutation(space, *words) if space <= LARGEST_ORDERED else None


def _ambiguous(numbers: Sequence[int], operations: str) -> bool:
    """Whether a sum certainly or very likely has another solution: a quick test that avoids most searches.

    A sum is a linear equation in its letters. Letters with equal coefficients can be swapped, and a letter with
    coefficient 0 is free, unless a number would then begin with 0.
    """
    if "*" in operations:
        return False
    coefficients: dict[str, int] = {}
    signs = (1, *(1 if operation == "+" else -1 for operation in operations), -1)
    for sign, number in zip(signs, [*numbers, worth(numbers, operations)], strict=True):
        for power, digit in enumerate(reversed(str(number))):
            coefficients[digit] = coefficients.get(digit, 0) + sign * 10**power
    return 0 in coefficients.values() or len(set(coefficients.values())) < len(coefficients)


def _lettered(numbers: Sequence[int], operations: str, letters: Sequence[str]) -> LetterEquation:
    """The equation of numbers and their result, with letters assigned to digits in order of appearance."""
    texts = [*map(str, numbers), str(worth(numbers, operations))]
    names = dict(zip(dict.fromkeys("".join(texts)), letters, strict=False))
    return LetterEquation(tuple("".join(names[digit] for digit in text) for text in texts), tuple(operations))


def _puzzle(numbers: list[int], operations: str, random: Random) -> CryptarithmPuzzle:
    if set(operations) == {"+"}:
        random.shuffle(numbers)
    letters = random.sample(LETTERS, 10)
    texts = [*map(str, numbers), str(worth(numbers, operations))]
    digits = tuple(int(digit) for digit in dict.fromkeys("".join(texts)))
    return CryptarithmPuzzle(_lettered(numbers, operations, letters), digits)


def _orders(equation: LetterEquation) -> Iterator[tuple[list[str], str]]:
    """An equation with its summands and factors in every order, with positive summands first."""
    terms: dict[str, list[list[str]]] = {"+": [], "-": []}
    sign = "+"
    term = [equation.words[0]]
    for operation, word in zip(equation.operations, equation.words[1:-1], strict=True):
        if operation == "*":
            term.append(word)
        else:
            terms[sign].append(term)
            sign, term = operation, [word]
    terms[sign].append(term)
    for added, taken in product(permutations(terms["+"]), permutations(terms["-"])):
        for factors in product(*(permutations(each) for each in (*added, *taken))):
            joined = ["*".join(each) for each in factors]
            left = "+".join(joined[: len(added)]) + "".join(f"-{each}" for each in joined[len(added) :])
            yield [*re.split(r"[-+*]", left), equation.words[-1]], re.sub(r"[^-+*]", "", left)


def _renamed(words: Sequence[str], operations: str) -> str:
    """An equation with its letters or digits renamed a, b, c in order of appearance."""
    text = written(words, operations)
    names: dict[str, str] = {}
    return "".join(names.setdefault(sign, chr(ord("a") + len(names))) if sign.isalnum() else sign for sign in text)
