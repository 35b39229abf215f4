"""The table of blocks: the pieces that a program is composed of."""

from collections.abc import Callable
from dataclasses import dataclass

from veritas_rl.envs.trace.programs.draft import Draft


@dataclass(frozen=True)
class Block:
    """A piece of a program.

    Attributes:
        write: Writes the piece into a draft.
        level: The least level at which it may occur.
        lines: About how many lines it has.
        weight: How likely it is beside others.
        name: What it is about, for a comment.
    """

    write: Callable[[Draft], None]
    level: int
    lines: int
    weight: float
    name: str


BLOCKS: list[Block] = []


def block(level: int, lines: int, weight: float = 1.0) -> Callable[[Callable[[Draft], None]], Callable[[Draft], None]]:
    """Register a function as a block; see `Block` for the arguments."""

    def register(write: Callable[[Draft], None]) -> Callable[[Draft], None]:
        BLOCKS.append(Block(write, level, lines, weight, write.__name__.strip("_").replace("_", " ")))
        return write

    return register
