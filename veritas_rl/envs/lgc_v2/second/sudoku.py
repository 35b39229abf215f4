"""sudoku as an exact cover (Knuth, "Dancing links", 2000, algorithm X). The search shows that it has one solution."""

from collections.abc import Iterator
from itertools import product

Constraint = tuple[str, int, int]
Placed = tuple[int, int, int]
"""Row, column and digit, each from 0 to 8."""


def check(question: str, answer: str) -> str:
    """The error in an answer to a question, or ""; see `second`."""
    given = [line for line in question.splitlines() if len(line) == 9 and not line.strip(".123456789")]
    if len(given) != 9:
        return f"the question shows {len(given)} lines of 9 cells"
    found = solved(given)
    if len(found) != 1:
        return "the grid has no solution" if not found else "the grid has a second solution"
    if answer.split("\n") != found[0]:
        return f"the answer {answer.split()} is not the solution {found[0]}"
    return ""


def constraints(placed: Placed) -> tuple[Constraint, ...]:
    """The constraints that a digit in a cell meets: the cell is filled, and its row, column and box have the digit."""
    row, column, digit = placed
    return (
        ("cell", row, column),
        ("row", row, digit),
        ("column", column, digit),
        ("box", row // 3 * 3 + column // 3, digit),
    )


def solved(given: list[str], most: int = 2) -> list[list[str]]:
    """The solutions of a grid of nine lines, at most `most` of them."""
    fits = [
        (row, column, digit)
        for row, column, digit in product(range(9), repeat=3)
        if given[row][column] in (".", str(digit + 1))
    ]
    needed: dict[Constraint, set[Placed]] = {}
    for placed in fits:
        for constraint in constraints(placed):
            needed.setdefault(constraint, set()).add(placed)
    if len(needed) < 4 * 81:
        return []
    found: list[list[str]] = []
    for cover in covers(needed, []):
        digits = {(row, column): str(digit + 1) for row, column, digit in cover}
        found.append(["".join(digits[row, column] for column in range(9)) for row in range(9)])
        if len(found) == most:
            break
    return found


def covers(needed: dict[Constraint, set[Placed]], chosen: list[Placed]) -> Iterator[list[Placed]]:
    """The ways to meet each constraint exactly once."""
    if not needed:
        yield list(chosen)
        return
    fewest = min(needed, key=lambda constraint: len(needed[constraint]))
    for placed in sorted(needed[fewest]):
        taken = [(met, needed.pop(met)) for met in constraints(placed)]
        hidden = [
            (constraint, other)
            for _, others in taken
            for other in others
            for constraint in constraints(other)
            if constraint in needed and other in needed[constraint]
        ]
        for constraint, other in hidden:
            needed[constraint].discard(other)
        yield from covers(needed, [*chosen, placed])
        for constraint, other in hidden:
            needed[constraint].add(other)
        needed.update(taken)
