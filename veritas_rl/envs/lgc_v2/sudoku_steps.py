"""Solves a sudoku like a person: fills single candidates, and if there are none, refutes wrong digits."""

from collections.abc import Iterator
from dataclasses import dataclass

from veritas_rl.envs.lgc_v2.sudoku_solver import (
    ALL,
    FREE,
    SIZE,
    UNITS,
    Possible,
    most_constrained,
    naked_singles,
    possible_of,
    propagate,
)

_KINDS = (("box", "宫"), ("row", "行"), ("column", "列"))
_HEADS = {
    "en": "Fill in what is certain, cell by cell. Where nothing is certain, try a digit and follow it until it fails.",
    "zh": "逐格填入确定的数字;没有确定的格子时,先试一个数字,推到矛盾为止。",
}


@dataclass(frozen=True)
class Filled:
    """A cell that can be filled.

    Attributes:
        cell: The index of the cell, from 0 to 80, row by row.
        digit: The digit, 1 to 9.
        unit: The index in `UNITS` of the box, row or column in which no other cell can contain the digit; -1 if no
            other digit fits the cell.
    """

    cell: int
    digit: int
    unit: int = -1


@dataclass(frozen=True)
class Refuted:
    """A digit that a cell cannot contain, because it leads to a contradiction.

    Filling the singles that follow from the digit gives the contradiction in `empty` or `unit`. If both are -1, the
    singles give none, and the digit is only refuted by trying further digits.

    Attributes:
        cell: The index of the cell, from 0 to 80, row by row.
        digit: The wrong digit, 1 to 9.
        empty: The cell for which no digit is left, or -1.
        unit: The index in `UNITS` of the box, row or column that has no cell left for the digit `missing`, or -1.
        missing: The digit without a cell in `unit`; 0 for none.
    """

    cell: int
    digit: int
    empty: int = -1
    unit: int = -1
    missing: int = 0


def deductions(givens: str, solution: str) -> Iterator[Filled | Refuted]:
    """The steps that fill a puzzle with one solution, with at most 8 refuted digits for each filled cell.

    Args:
        givens: 81 characters, "." for an empty cell.
        solution: The solution, which determines the digits to refute.
    """
    possible = possible_of(givens)
    assert possible is not None
    done = sum(1 << cell for cell, digit in enumerate(givens) if digit != ".")
    while done != ALL:
        certain = (naked_singles(possible) or 0) & ~done
        if certain:
            bit = certain & -certain
            cell = bit.bit_length() - 1
            digit = int(solution[cell])
            yield Filled(cell, digit)
        elif found := _hidden_single(possible, done):
            cell, digit = found.cell, found.digit
            bit = 1 << cell
            yield found
        else:
            refuted = _refuted(possible, done, solution)
            for wrong in refuted:
                possible[wrong.digit - 1] &= ~(1 << wrong.cell)
            yield from refuted
            continue
        for other in range(SIZE):
            possible[other] &= FREE[bit] if other == digit - 1 else ~bit
        done |= bit


def _hidden_single(possible: Possible, done: int) -> Filled | None:
    for digit, cells in enumerate(possible, start=1):
        for number, unit in enumerate(UNITS):
            here = cells & unit
            if not here & (here - 1) and not here & done:
                return Filled(here.bit_length() - 1, digit, number)
    return None


def _refuted(possible: Possible, done: int, solution: str) -> list[Refuted]:
    """The refuted digits of one cell.

    The cell is the first with two candidates whose wrong digit is refuted by singles alone. If there is none, it is the
    first cell with the fewest candidates.
    """
    once = twice = more = 0
    for cells in possible:
        more |= twice & cells
        twice |= once & cells
        once |= cells
    pairs = twice & ~more & ~done
    while pairs:
        bit = pairs & -pairs
        pairs ^= bit
        (found,) = _tried(possible, bit, solution)
        if found.empty >= 0 or found.unit >= 0:
            return [found]
    return _tried(possible, most_constrained(possible), solution)


def _tried(possible: Possible, bit: int, solution: str) -> list[Refuted]:
    """The refutation of each wrong candidate of a cell."""
    cell = bit.bit_length() - 1
    found: list[Refuted] = []
    for digit in range(SIZE):
        if not possible[digit] & bit or str(digit + 1) == solution[cell]:
            continue
        tried = [cells & ~bit for cells in possible]
        tried[digit] = possible[digit] & FREE[bit]
        found.append(Refuted(cell, digit + 1, *(_contradiction(tried) if propagate(tried) is None else ())))
    return found


def _contradiction(possible: Possible) -> tuple[int, int, int]:
    """The contradiction after `propagate`, as `empty`, `unit` and `missing` of `Refuted`."""
    once = 0
    for cells in possible:
        once |= cells
    if once != ALL:
        empty = ALL & ~once
        return (empty & -empty).bit_length() - 1, -1, 0
    return next(
        (-1, number, digit)
        for digit, cells in enumerate(possible, start=1)
        for number, unit in enumerate(UNITS)
        if not cells & unit
    )


def solving_steps(givens: str, solution: str, language: str) -> str:
    """The steps of a solution as text, one step on each line."""
    line = _chinese if language == "zh" else _english
    return "\n".join([_HEADS[language], *map(line, deductions(givens, solution))])


def _english(step: Filled | Refuted) -> str:
    place = f"Row {step.cell // 9 + 1}, column {step.cell % 9 + 1}"
    if isinstance(step, Filled):
        if step.unit < 0:
            return f"{place}: only {step.digit} fits."
        return f"{place}: the only cell of its {_KINDS[step.unit // 9][0]} for {step.digit}."
    if step.empty >= 0:
        then = f"no digit is left for row {step.empty // 9 + 1}, column {step.empty % 9 + 1}"
    elif step.unit >= 0:
        then = f"{_KINDS[step.unit // 9][0]} {step.unit % 9 + 1} has no cell for {step.missing}"
    else:
        then = "every way to go on fails"
    return f"{place}: try {step.digit}. In the end {then}, so it is not {step.digit}."


def _chinese(step: Filled | Refuted) -> str:
    place = f"第{step.cell // 9 + 1}行第{step.cell % 9 + 1}列"
    if isinstance(step, Filled):
        if step.unit < 0:
            return f"{place}:只能填{step.digit}。"
        return f"{place}:所在的{_KINDS[step.unit // 9][1]}里只有这一格能填{step.digit}。"
    if step.empty >= 0:
        then = f"第{step.empty // 9 + 1}行第{step.empty % 9 + 1}列无数可填"
    elif step.unit >= 0:
        then = f"第{step.unit % 9 + 1}{_KINDS[step.unit // 9][1]}没有能填{step.missing}的格子"
    else:
        then = "每种填法都会矛盾"
    return f"{place}:试填{step.digit},最后{then},所以不是{step.digit}。"
