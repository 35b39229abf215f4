"""Helpers for board games: drawing a grid of cells, and its symmetries."""

from collections.abc import Sequence
from functools import cache


@cache
def symmetries(rows: int, columns: int) -> tuple[tuple[int, ...], ...]:
    """The symmetries of a board of `rows * columns` cells, numbered row by row: 8 of a square, else 4.

    A symmetry lists the cell that moves onto each cell, so that `[cells[cell] for cell in symmetry]` is the image.
    """
    found: list[tuple[int, ...]] = []
    grid = [tuple(range(row * columns, (row + 1) * columns)) for row in range(rows)]
    for seen in (grid, list(zip(*grid, strict=True))) if rows == columns else (grid,):
        for turned in (seen, seen[::-1]):
            found.append(tuple(cell for row in turned for cell in row))
            found.append(tuple(cell for row in turned for cell in row[::-1]))
    return tuple(found)


@cache
def neighbours(rows: int, columns: int) -> tuple[tuple[int, ...], ...]:
    """For each cell of a board, numbered row by row, the cells that share an edge with it."""
    found = []
    for cell in range(rows * columns):
        row, column = divmod(cell, columns)
        sides = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
        found.append(tuple(r * columns + c for r, c in sides if 0 <= r < rows and 0 <= c < columns))
    return tuple(found)


def least_image(cells: Sequence[str], rows: int, columns: int) -> str:
    """The first, in alphabetical order, of a board's images under all symmetries of its shape."""
    return min("".join([cells[cell] for cell in symmetry]) for symmetry in symmetries(rows, columns))


def marks(rows: Sequence[str], mine: str) -> str:
    """The occupied cells of a board, as in " +3 -12": "+3" is the player's piece on cell 3, "-12" an opponent's piece.

    Cells are numbered row by row. A small model learns to read such signs long before it learns to read grids, because
    each sign contains piece and cell.

    Args:
        rows: From top to bottom; an empty cell is a dot.
        mine: The signs of the player's pieces.
    """
    cells = enumerate("".join(rows))
    return "".join([f" {'+' if sign in mine else '-'}{cell}" for cell, sign in cells if sign != "."])


def drawn(rows: Sequence[str], columns: str, *, upwards: bool) -> str:
    """A board with its coordinates: a sign for each cell, a number before each row.

    Args:
        rows: From top to bottom.
        columns: The letter of each column, from left to right.
        upwards: Whether rows are counted from the bottom and the letters are at the bottom; otherwise from the top.
    """
    width = len(str(len(rows)))
    numbers = range(len(rows), 0, -1) if upwards else range(1, len(rows) + 1)
    lines = [f"{number:>{width}} {' '.join(row)}" for number, row in zip(numbers, rows, strict=True)]
    header = " " * (width + 1) + " ".join(columns)
    return "\n".join([*lines, header] if upwards else [header, *lines])
