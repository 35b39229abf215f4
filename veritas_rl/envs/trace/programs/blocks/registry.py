"""The table of blocks: the pieces that a program is composed of."""

from collections.abc import Callable
from dataclasses import dataclass

from veritas_rl.envs.trace.programs.draft import Draft


@dataclass(frozen=True)
class Block:
    """A piece of a program.

    Attributes:
        write: Writes the piece into a draft.
        level: The lowest level of programs with this block.
        lines: The approximate number of lines.
        weight: The relative probability of the block.
        name: The name of the block, which may be a comment in the program.
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
