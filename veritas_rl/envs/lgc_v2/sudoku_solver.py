"""Sudoku grids: an exact solver, random full grids, and puzzles with one solution and a chosen number of givens.

A set of cells is an integer of 81 bits, with the first row in the lowest bits. The candidates are a list of nine such
sets: for each digit, the cells that can contain it. So one bit operation processes all cells.
"""

from collections.abc import Collection, Iterator, Sequence
from random import Random

SIZE, CELLS = 9, 81
ALL = (1 << CELLS) - 1

ROWS = tuple(tuple(range(9 * row, 9 * row + 9)) for row in range(9))
COLUMNS = tuple(tuple(range(column, 81, 9)) for column in range(9))
BOXES = tuple(
    tuple(9 * row + column for row in range(top, top + 3) for column in range(left, left + 3))
    for top in (0, 3, 6)
    for left in (0, 3, 6)
)


def _set_of(cells: Collection[int]) -> int:
    return sum(1 << cell for cell in cells)


UNITS = tuple(_set_of(unit) for unit in (*BOXES, *ROWS, *COLUMNS))
"""The cells of each box, each row and each column."""

FREE = {
    1 << cell: ALL & ~_set_of({other for unit in (*BOXES, *ROWS, *COLUMNS) if cell in unit for other in unit})
    | 1 << cell
    for cell in range(CELLS)
}
"""For the bit of a cell, the cells that may contain the same digit as the cell, including the cell itself."""

Possible = list[int]
"""For each digit, the cells that can still contain it; index 0 is the digit 1."""


def possible_of(grid: str) -> Possible | None:
    """The candidates of a grid that do not conflict with its digits; None if two of its digits conflict.

    Args:
        grid: 81 characters, row by row: a digit, or "." for an empty cell.
    """
    possible = [ALL] * SIZE
    given = [0] * SIZE
    for cell, digit in enumerate(grid):
        if digit != ".":
            bit = 1 << cell
            given[int(digit) - 1] |= bit
            possible[int(digit) - 1] &= FREE[bit]
    filled = sum(given)
    for digit in range(SIZE):
        if given[digit] & ~possible[digit]:
            return None
        possible[digit] &= given[digit] | ~filled
    return possible


def naked_singles(possible: Possible) -> int | None:
    """The cells with exactly one candidate, including filled cells; None if a cell has no candidate."""
    once = twice = 0
    for cells in possible:
        twice |= once & cells
        once |= cells
    return once & ~twice if once == ALL else None


def propagate(possible: Possible) -> int | None:
    """Fill all singles in place: cells with one digit, and digits with one cell in a row, column or box.

    Args:
        possible: The candidates, which are updated; invalid after a contradiction.

    Returns:
        The filled cells; None after a contradiction.
    """
    done = 0
    while True:
        singles = naked_singles(possible)
        if singles is None:
            return None
        if fresh := singles & ~done:
            for digit in range(SIZE):
                cells = possible[digit]
                new = cells & fresh
                while new:
                    bit = new & -new
                    new ^= bit
                    cells &= FREE[bit]
                possible[digit] = cells
            done = singles
            continue
        if done == ALL:
            return done
        found = False
        for digit in range(SIZE):
            cells = possible[digit]
            for unit in UNITS:
                here = cells & unit
                if here & (here - 1):
                    continue
                if not here:
                    return None
                if not here & done:
                    for other in range(SIZE):
                        possible[other] &= ~here
                    done |= here
                    cells &= FREE[here]
                    possible[digit] = cells
                    found = True
        if not found:
            return done


def solutions(possible: Possible, random: Random | None = None) -> Iterator[str]:
    """All full grids that the candidates allow, each as 81 digits.

    Args:
        possible: The candidates, which are changed.
        random: Draws the order in which digits are tried; None for ascending order.
    """
    done = propagate(possible)
    if done is None:
        return
    if done == ALL:
        yield written(possible)
        return
    bit = most_constrained(possible)
    digits = [digit for digit in range(SIZE) if possible[digit] & bit]
    if random is not None:
        random.shuffle(digits)
    for digit in digits:
        tried = [cells & ~bit for cells in possible]
        tried[digit] = possible[digit] & FREE[bit]
        yield from solutions(tried, random)


def most_constrained(possible: Possible) -> int:
    """The bit of the first cell with the fewest candidates, among cells with at least two."""
    at_least = [ALL] + [0] * SIZE
    for cells in possible:
        for count in range(SIZE, 0, -1):
            at_least[count] |= at_least[count - 1] & cells
    for count in range(2, SIZE + 1):
        exactly = at_least[count] & ~(at_least[count + 1] if count < SIZE else 0)
        if exactly:
            return exactly & -exactly
    raise ValueError("the sudoku has no empty cell")


def written(possible: Possible) -> str:
    """A full grid as 81 digits, row by row."""
    grid = [""] * CELLS
    for digit, cells in enumerate(possible, start=1):
        while cells:
            bit = cells & -cells
            cells ^= bit
            grid[bit.bit_length() - 1] = str(digit)
    return "".join(grid)


def random_grid(random: Random) -> str:
    """A random full grid: the three boxes on the diagonal are drawn, and a search in random order fills the rest."""
    grid = ["."] * CELLS
    for box in BOXES[::4]:
        for cell, digit in zip(box, random.sample("123456789", SIZE), strict=True):
            grid[cell] = digit
    possible = possible_of("".join(grid))
    assert possible is not None
    return next(solutions(possible, random))


def thinned(solution: str, givens: int, random: Random) -> str:
    """A puzzle with this unique solution. Givens are removed in random order if the solution stays unique.

    Args:
        solution: A full grid.
        givens: The number of givens to reach. More givens remain if each of them is necessary.
        random: Draws the order.
    """
    cells = [1 << cell for cell in range(CELLS)]
    random.shuffle(cells)
    given = [0] * SIZE
    for cell, digit in enumerate(solution):
        given[int(digit) - 1] |= 1 << cell
    left = CELLS
    for bit in cells:
        if left == givens:
            break
        digit = int(solution[bit.bit_length() - 1]) - 1
        given[digit] ^= bit
        if _another(given, digit, bit):
            given[digit] ^= bit
        else:
            left -= 1
    filled = sum(given)
    return "".join(digit if filled >> cell & 1 else "." for cell, digit in enumerate(solution))


def _another(given: Sequence[int], digit: int, bit: int) -> bool:
    """Whether some solution has a digit other than `digit` in the empty cell `bit`."""
    possible: Possible = []
    empty = ALL & ~sum(given)
    for cells in given:
        free = ALL
        rest = cells
        while rest:
            last = rest & -rest
            rest ^= last
            free &= FREE[last]
        possible.append(free & (empty | cells))
    possible[digit] &= ~bit
    if not any(cells & bit for cells in possible):
        return False
    return next(solutions(possible), None) is not None
