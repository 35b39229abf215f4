"""The limits of each level: the length of programs, the iterations of loops, the amount of output."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The sizes of a level's programs.

    Attributes:
        level: The level, 1 to 10.
        lines: The range of the number of lines that the generator aims at, without blank lines.
        turns: The range of the number of iterations of a loop.
        size: The range of the length of a container literal.
        literal: The largest integer literal in expressions.
        depth: The maximum depth of nested statements.
        printed: The approximate number of lines that the program may print.
    """

    level: int
    lines: tuple[int, int]
    turns: tuple[int, int]
    size: tuple[int, int]
    literal: int
    depth: int
    printed: int


LIMITS = {
    limits.level: limits
    for limits in (
        Limits(1, (2, 4), (2, 2), (2, 2), 12, 0, 1),
        Limits(2, (4, 7), (2, 3), (2, 3), 9, 1, 2),
        Limits(3, (6, 10), (2, 4), (3, 4), 12, 2, 4),
        Limits(4, (12, 17), (3, 4), (3, 5), 15, 2, 6),
        Limits(5, (18, 24), (3, 5), (3, 5), 20, 2, 9),
        Limits(6, (26, 32), (3, 6), (4, 6), 20, 2, 12),
        Limits(7, (35, 42), (4, 7), (4, 6), 30, 3, 16),
        Limits(8, (44, 53), (4, 8), (4, 7), 30, 3, 20),
        Limits(9, (55, 66), (6, 11), (5, 8), 50, 3, 25),
        Limits(10, (68, 88), (8, 15), (6, 10), 50, 3, 31),
    )
}
