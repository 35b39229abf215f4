"""Task ids of puzzles: `type * 10^8 + seed`, a fixed integer for each puzzle."""

from functools import lru_cache

from veritas_rl.envs.lgc_v2.kinds import KINDS
from veritas_rl.envs.lgc_v2.puzzle import LEVELS, SEEDS, Puzzle, PuzzleKind, level_of
from veritas_rl.errors import UserError, unknown
from veritas_rl.seeding import generator


def task_id_of(kind: PuzzleKind, seed: int) -> int:
    """The id of the puzzle of a seed."""
    return kind.type_id * SEEDS + seed


def parts_of(task_id: int) -> tuple[PuzzleKind, int]:
    """The kind and the seed of an id.

    Raises:
        UserError: No type has this number.
    """
    type_id, seed = divmod(task_id, SEEDS)
    for kind in KINDS.values():
        if kind.type_id == type_id:
            return kind, seed
    known = ", ".join(f"{kind.type_id} {kind.name}" for kind in KINDS.values())
    raise UserError(f"task id {task_id} is of type {type_id}, which does not exist: {known}")


def kind_of(name: str) -> PuzzleKind:
    """The kind of this name.

    Raises:
        UserError: There is no such kind; the message lists the nearest names.
    """
    if name not in KINDS:
        raise unknown("puzzle type", name, KINDS)
    return KINDS[name]


@lru_cache(maxsize=4096)
def puzzle_of(name: str, seed: int) -> Puzzle:
    """The puzzle of a seed.

    Raises:
        UserError: The kind does not exist, or the seed is out of range.
    """
    kind = kind_of(name)
    if not 0 <= seed < SEEDS:
        raise UserError(f"a seed of {name} must lie between 0 and {SEEDS - 1}, {seed} was given")
    level = level_of(seed)
    return kind.make(level, seed // len(LEVELS), generator("lgc-v2", name, seed))
