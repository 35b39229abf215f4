"""Type 1, game_of_24: combine numbers into a target, using each number exactly once."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, permutations, product
from math import prod
from random import Random
from typing import ClassVar

from veritas_rl.envs.lgc_v2.expressions import Expression, parsed
from veritas_rl.envs.lgc_v2.puzzle import Puzzle, PuzzleKind, indexed

NONE = "None"
"""The answer if there is no solution."""

MOST_TERMS = 8
"""The most terms between the expression and the target in a chain of equal terms."""

_AROUND_NONE = " \t\r\n.。\"'"

TARGETS = (24, 36, 48, 60, 72, 100)
SEARCHED = 4
"""The largest count of numbers that is searched completely. A larger count is reduced to this count by random steps."""

CONSECUTIVE = 2000
"""The number of consecutive puzzle numbers of a level that must have different questions."""

PATIENCE = 30
"""The number of attempts to find a target of five or more numbers that needs more than + and -."""

Rational = tuple[int, int]
"""A numerator and a denominator, not reduced and of any sign; no denominator is 0."""

Step = tuple[int, str, int]
"""Two indices in the list of numbers and the operation between them. The result is appended to the list."""


@dataclass(frozen=True)
class GameOf24Config:
    """The puzzles of a level.

    Attributes:
        count: The number of given numbers, 3 to 6.
        largest: The largest possible number; the smallest is 1.
        targets: The possible targets.
        above: At least one number is larger than this, so that levels with the same `count` share no puzzle.
        trivial: Whether + and - may be sufficient.
        unsolvable: The share of puzzles whose target cannot be reached, among numbers that reach some but not all
            targets. Numbers that reach no target give further puzzles without a solution. Only for four numbers.
    """

    count: int
    largest: int
    targets: tuple[int, ...]
    above: int = 0
    trivial: bool = False
    unsolvable: float = 0.0

    def __post_init__(self) -> None:
        if not 3 <= self.count <= 6 or self.largest < self.count or not self.targets:
            raise ValueError(f"a puzzle needs 3 to 6 numbers, a range of at least as many, and a target: {self}")
        if not 0 <= self.unsolvable < 1 or (self.unsolvable and self.count != SEARCHED):
            raise ValueError(f"the share must be at least 0 and below 1, and above 0 only for four numbers: {self}")


@dataclass(frozen=True)
class GameOf24Puzzle(Puzzle):
    """Numbers and a target.

    Attributes:
        numbers: The numbers, in the order in which they are shown.
        target: The target.
        solution: Steps to the target; None if there are none.
    """

    numbers: tuple[int, ...]
    target: int
    solution: tuple[Step, ...] | None

    def question(self, language: str) -> str:
        shown = ", ".join(map(str, self.numbers))
        unsolvable = len(self.numbers) == SEARCHED
        if language == "zh":
            asked = (
                f"请用 +、-、*、/ 和括号把下面 {len(self.numbers)} 个数组成一个值为 {self.target} 的算式。"
                "每个数必须恰好使用一次,不能把数字拼接起来,除法按分数精确计算。"
            )
            given = f"数:{shown}\n目标:{self.target}"
            format_ = "请把算式写在一个代码块中(三个反引号之间)。"
            none = f"如果没有这样的算式,就在代码块中写 {NONE}。" if unsolvable else ""
        else:
            asked = (
                f"Combine the {len(self.numbers)} numbers below with +, -, *, / and parentheses into an expression "
                f"that equals {self.target}. Use each number exactly once. Digits cannot be joined, and division is "
                "exact."
            )
            given = f"Numbers: {shown}\nTarget: {self.target}"
            format_ = "Write the expression in a code block (between triple backticks)."
            none = f" If there is no such expression, write {NONE} in the code block." if unsolvable else ""
        return f"{asked}\n\n{given}\n\n{format_}{none}"

    @property
    def brief(self) -> str:
        return f"{' '.join(map(str, self.numbers))} -> {self.target}"

    @property
    def answer(self) -> str:
        return NONE if self.solution is None else _played(self.numbers, self.solution)[0]

    def steps(self, language: str) -> str:
        chinese = language == "zh"
        if self.solution is None:
            ways = combined(self.numbers)
            if chinese:
                return f"每次把两个数合并成一个,试遍所有组合:共 {ways} 种,没有一种得到 {self.target}。"
            return (
                "Combine two numbers at a time and try every order and operation: "
                f"of {ways} combinations none makes {self.target}."
            )
        head = "每次把两个数合并成一个:" if chinese else "Combine two numbers at a time:"
        lines = _played(self.numbers, self.solution)[1]
        left = "剩下" if chinese else "left"
        return "\n".join([head, *(f"{done} ({left}: {', '.join(rest)})" for done, rest in lines)])

    def final(self, language: str) -> str:
        return f"```\n{self.answer}\n```"

    @property
    def form(self) -> str:
        return f"{' '.join(map(str, sorted(self.numbers)))} -> {self.target}"

    def read(self, said: str) -> Expression | str | None:
        if said.strip(_AROUND_NONE).lower() in (NONE.lower(), "无解"):
            return NONE
        # A chain of equal terms, such as "(1 + 2) * 8 = 3 * 8 = 24", or "24 = (1 + 2) * 8".
        expression, *terms = said.strip().rstrip(";").replace("==", "=").removeprefix("=").split("=")
        if expression.strip() == str(self.target) and len(terms) == 1:
            expression, terms = terms[0], [expression]
        *between, last = terms or [str(self.target)]
        if last.strip() != str(self.target) or len(between) > MOST_TERMS:
            return None
        for term in map(parsed, between):
            if term is None or term.value != self.target or len(term.numbers) < 2:
                return None
        found = parsed(expression)
        # A combination of fewer numbers is a step.
        return found if found and len(found.numbers) >= len(self.numbers) else None

    def is_right(self, said: Expression | str) -> bool:
        if isinstance(said, str):
            return self.solution is None
        return said.value == self.target and said.numbers == tuple(sorted(self.numbers))

    def near_misses(self) -> Iterator[tuple[str, str]]:
        first, others = self.numbers[0], self.numbers[1:]
        joined = (" + ".join(map(str, self.numbers)), " * ".join(map(str, self.numbers)))
        yield "the wrong target", joined[sum(self.numbers) == self.target]
        if self.solution is not None:
            digits = len(self.answer) - len(self.answer.lstrip("0123456789("))
            number = self.answer[:digits].lstrip("(")
            yield (
                "a number one too large",
                f"{self.answer[: digits - len(number)]}{int(number) + 1}{self.answer[digits:]}",
            )
            yield "a number used three times", f"{self.answer} + {first} - {first}"
            yield NONE, NONE
        yield "the target from other numbers", f"{first} + {self.target - first}"
        yield "a number left out", " + ".join(map(str, others))
        yield "the wrong target, claimed", f"{joined[sum(self.numbers) == self.target]} = {self.target}"


class GameOf24(PuzzleKind):
    """Numbers to combine."""

    name = "game_of_24"
    type_id = 1
    asked_in = "block"
    # Level 3 has numbers up to 15 instead of 13, because the 2,345 choices of four numbers with a number above 10 are
    # enough for `CONSECUTIVE`.
    levels: ClassVar[Mapping[int, GameOf24Config]] = {
        1: GameOf24Config(3, 24, (24,), trivial=True),
        2: GameOf24Config(4, 10, (24, 36, 48), trivial=True, unsolvable=0.05),
        3: GameOf24Config(4, 15, TARGETS, above=10, unsolvable=0.04),
        4: GameOf24Config(5, 13, TARGETS),
        5: GameOf24Config(6, 13, TARGETS),
    }

    def make(self, level: int, number: int, random: Random) -> GameOf24Puzzle:
        config = self.levels[level]
        if len(config.targets) == 1:
            triples = solvable_triples(config.largest, config.targets[0])
            shown = triples[indexed(number, len(triples), random, self.name, level)]
            path = solutions(shown, config.targets)[config.targets[0]]
            return GameOf24Puzzle(shown, config.targets[0], path)
        choices, ordered = hands(config.count, config.largest, config.above)
        numbers = choices[indexed(number, len(choices), random, self.name, level)]
        if not ordered:
            numbers = tuple(random.sample(numbers, len(numbers)))
        wanted = set(config.targets)
        if not config.trivial:
            wanted -= signed_sums(numbers)
        for tried, first in enumerate(_beginnings(numbers, random)):
            found = solutions(_after(numbers, first), config.targets)
            missing = [target for target in config.targets if target not in found]
            if config.count == SEARCHED and missing and (not found or random.random() < config.unsolvable):
                return GameOf24Puzzle(numbers, random.choice(missing), None)
            # Trivial targets are accepted after `PATIENCE` attempts, and for four numbers, which have only one attempt.
            good = sorted(found.keys() & wanted) or (sorted(found) if tried >= PATIENCE or not first else [])
            if good:
                target = random.choice(good)
                return GameOf24Puzzle(numbers, target, first + found[target])
        raise ValueError(f"the numbers {numbers} reach none of the targets {config.targets}")


@cache
def hands(count: int, largest: int, above: int = 0) -> tuple[list[tuple[int, ...]], bool]:
    """All choices of `count` numbers from 1 to `largest` whose maximum is above `above`.

    Choices of five or more numbers with the same number three times are excluded.

    Returns:
        The choices, and whether each choice is listed in all orders. It is if there are fewer than `CONSECUTIVE`.
    """
    found = [
        numbers
        for numbers in combinations_with_replacement(range(1, largest + 1), count)
        if numbers[-1] > above and (count <= SEARCHED or max(Counter(numbers).values()) < 3)
    ]
    if len(found) >= CONSECUTIVE:
        return found, False
    return sorted({order for numbers in found for order in permutations(numbers)}), True


@cache
def solvable_triples(largest: int, target: int) -> list[tuple[int, ...]]:
    """All triples of numbers from 1 to `largest` that can be combined into a target, in every order."""
    triples: set[tuple[int, ...]] = set()
    for a, b in combinations_with_replacement(range(1, largest + 1), 2):
        for (p, q), _, _, _ in _combined_pair((a, 1), (b, 1)):
            v = Fraction(p, q)
            # The third number may be on either side of the last operation.
            thirds = [target - v, v - target, target + v, target * v]
            thirds += [target / v, v / target] if v else []
            triples.update((a, b, int(c)) for c in thirds if c.denominator == 1 and 1 <= c <= largest)
    return sorted({order for triple in triples for order in permutations(triple)})


def solutions(numbers: Sequence[int], targets: Collection[int]) -> dict[int, tuple[Step, ...]]:
    """Steps to each reachable target, by an exact and complete search, with only whole numbers if possible.

    Args:
        numbers: Up to four numbers.
        targets: The targets.
    """
    found: dict[int, tuple[Step, ...]] = {}
    for whole in (True, False):
        if len(found) < len(targets):
            _search([(number, 1) for number in numbers], (), frozenset(targets), found, whole)
    return found


def combined(numbers: Sequence[int]) -> int:
    """The number of ways to combine numbers, two at a time, without division by zero."""

    def count(values: list[Rational]) -> int:
        if len(values) == 1:
            return 1
        return sum(
            count([*_others(values, i, j), value])
            for i, j in combinations(range(len(values)), 2)
            for value, _, _, _ in _combined_pair(values[i], values[j])
        )

    return count([(number, 1) for number in numbers])


def signed_sums(numbers: Sequence[int]) -> set[int]:
    """All values of the numbers with every choice of signs."""
    return {sum(map(prod, zip(numbers, signs, strict=True))) for signs in product((1, -1), repeat=len(numbers))}


def _combined_pair(a: Rational, b: Rational) -> Iterator[tuple[Rational, int, str, int]]:
    """All results of two values, each with the index (0 or 1) of the left value, the operation, and the index of the
    right value."""
    (p, q), (r, s) = a, b
    yield (p * s + r * q, q * s), 0, "+", 1
    yield (p * r, q * s), 0, "*", 1
    yield (p * s - r * q, q * s), 0, "-", 1
    yield (r * q - p * s, q * s), 1, "-", 0
    if r:
        yield (p * s, q * r), 0, "/", 1
    if p:
        yield (q * r, p * s), 1, "/", 0


def _search(
    values: list[Rational],
    path: tuple[Step, ...],
    targets: frozenset[int],
    found: dict[int, tuple[Step, ...]],
    whole: bool,
) -> None:
    """Add all reachable targets to `found`; with `whole`, every intermediate value is whole and not negative."""
    last = len(values) == 2
    for i, j in combinations(range(len(values)), 2):
        others = _others(values, i, j)
        for (p, q), left, operation, right in _combined_pair(values[i], values[j]):
            if whole and (p < 0 or p % q):
                continue
            if last:
                if not p % q and (made := p // q) in targets and made not in found:
                    found[made] = (*path, ((i, j)[left], operation, (i, j)[right]))
            else:
                step = ((i, j)[left], operation, (i, j)[right])
                _search([*others, (p // q, 1) if whole else (p, q)], (*path, step), targets, found, whole)


def _others(values: list[Rational], i: int, j: int) -> list[Rational]:
    return [value for place, value in enumerate(values) if place not in (i, j)]


def _beginnings(numbers: tuple[int, ...], random: Random) -> Iterator[tuple[Step, ...]]:
    """First steps whose results are positive integers and that leave at most four numbers, in random order."""
    if len(numbers) <= SEARCHED:
        yield ()
        return
    pairs = list(combinations(range(len(numbers)), 2))
    random.shuffle(pairs)
    for i, j in pairs:
        ways = [
            ((i, j)[left], operation, (i, j)[right])
            for (p, q), left, operation, right in _combined_pair((numbers[i], 1), (numbers[j], 1))
            if p > 0 and not p % q
        ]
        random.shuffle(ways)
        for step in ways:
            for rest in _beginnings(_after(numbers, (step,)), random):
                yield (step, *rest)


def _after(numbers: tuple[int, ...], steps: tuple[Step, ...]) -> tuple[int, ...]:
    """The integers that remain after steps."""
    for i, operation, j in steps:
        a, b = numbers[i], numbers[j]
        made = {"+": a + b, "-": a - b, "*": a * b, "/": a // (b or 1)}[operation]
        numbers = (*(number for place, number in enumerate(numbers) if place not in (i, j)), made)
    return numbers


def _played(numbers: Sequence[int], steps: Sequence[Step]) -> tuple[str, list[tuple[str, list[str]]]]:
    """The expression of steps, and each step as an equation with the remaining numbers."""
    rank = {"+": 1, "-": 1, "*": 2, "/": 2}
    # Each value with its expression and the rank of the expression's last operation.
    values = [(Fraction(number), str(number), 3) for number in numbers]
    lines: list[tuple[str, list[str]]] = []
    for i, operation, j in steps:
        (a, left, left_rank), (b, right, right_rank) = values[i], values[j]
        made = {"+": a + b, "-": a - b, "*": a * b, "/": a / (b or 1)}[operation]
        own = rank[operation]
        if left_rank < own:
            left = f"({left})"
        if right_rank < own or (right_rank == own and operation in "-/"):
            right = f"({right})"
        values = [value for place, value in enumerate(values) if place not in (i, j)]
        values.append((made, f"{left} {operation} {right}", own))
        lines.append((f"{_shown(a)} {operation} {_shown(b)} = {made}", [str(value) for value, _, _ in values]))
    return values[0][1], lines


def _shown(value: Fraction) -> str:
    return str(value) if value.denominator == 1 and value >= 0 else f"({value})"
