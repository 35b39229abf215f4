"""Generates programs: adds random blocks until the program is long enough for its level, and joins their texts."""

from itertools import accumulate
from random import Random

from veritas_rl.envs.trace.programs.blocks import BLOCKS
from veritas_rl.envs.trace.programs.blocks.first import first_program
from veritas_rl.envs.trace.programs.blocks.registry import Block
from veritas_rl.envs.trace.programs.draft import Draft
from veritas_rl.envs.trace.programs.levels import LIMITS
from veritas_rl.envs.trace.programs.program import Program
from veritas_rl.envs.trace.programs.writer import Writer

_HOME = 2
"""Blocks whose own level is at most this far below the program's level are more likely than easier blocks."""


def generate(random: Random, level: int) -> Program:
    """Generate a program that ends without an error and prints something.

    Args:
        random: The only source of randomness; the same state gives the same program in every process.
        level: The difficulty, 1 to 10.

    Returns:
        The program. It needs no import, reads no input, and prints the same output under every implementation of Python
        3.11 or later.

    Raises:
        ValueError: There is no such level.
    """
    if level not in LIMITS:
        raise ValueError(f"level must be 1 to {len(LIMITS)}, got {level}")
    draft = Draft(random, level)
    if level == 1:
        first_program(draft)
        return Program("\n".join(draft.body.writer.lines) + "\n", level=level)
    parts = _parts(draft)
    source = _assembled(draft, parts)
    if "self" in source:
        draft.opaque.add("self")
    return Program(source, level=level, opaque=frozenset(draft.opaque))


def _parts(draft: Draft) -> list[tuple[list[Writer], Writer]]:
    """The definitions and the main statements of each block, in order."""
    parts: list[tuple[list[Writer], Writer]] = []
    goal, lines = draft.between(*draft.limits.lines), 0
    comments = draft.level > 3 and draft.chance(0.3)
    used: set[str] = set()
    while lines < goal - 1:
        block = _choose(draft, goal - lines, used)
        used.add(block.name)
        draft.definitions, draft.body.writer = [], Writer()
        if comments and draft.chance(0.6):
            draft.add(f"# {block.name}")
        block.write(draft)
        parts.append((draft.definitions, draft.body.writer))
        lines += sum(len(writer.lines) for writer in (*draft.definitions, draft.body.writer))
    if not any(line.startswith("print(") for _, body in parts for line in body.lines):
        known = draft.body.variables
        parts[-1][1].add(f"print({known[-1].name if known else draft.literal()})")
    return parts


_ALLOWED = {level: [block for block in BLOCKS if block.level <= level] for level in LIMITS}
_WEIGHTS = {
    level: [block.weight * (1.0 if block.level >= level - _HOME else 0.6) for block in blocks]
    for level, blocks in _ALLOWED.items()
}
_CUMULATED = {level: list(accumulate(weights)) for level, weights in _WEIGHTS.items()}


def _choose(draft: Draft, room: int, used: set[str]) -> Block:
    """A random block that fits into `room` lines and is not `used`; the block `steps` if none is found quickly."""
    allowed, cumulated = _ALLOWED[draft.level], _CUMULATED[draft.level]
    for _ in range(12):
        block = draft.random.choices(allowed, cum_weights=cumulated)[0]
        if block.lines <= room + 2 and block.name not in used:
            return block
    return BLOCKS[0] if BLOCKS[0].name == "steps" else next(block for block in BLOCKS if block.name == "steps")


def _assembled(draft: Draft, parts: list[tuple[list[Writer], Writer]]) -> str:
    """The program's text in one of three layouts.

    Definitions are before the statements of each block, or before all statements, or the statements are in `main`.
    """
    layout = draft.random.random() if draft.level > 3 else 0.0
    gap = [""] if draft.level < 6 or draft.chance(0.5) else ["", ""]
    between = [""] if draft.level > 5 or (draft.level > 3 and draft.chance(0.5)) else []
    lines: list[str] = []
    if layout < 0.35:
        for definitions, body in parts:
            for definition in definitions:
                lines += [*(gap if lines else []), *definition.lines]
            lines += [*((gap if definitions else between) if lines else []), *body.lines]
    else:
        definitions = [definition for found, _ in parts for definition in found]
        for definition in definitions:
            lines += [*(gap if lines else []), *definition.lines]
        wrapped = layout > 0.85 and bool(definitions)
        if definitions:
            lines += gap
        if wrapped:
            lines.append("def main():")
        for place, (_, body) in enumerate(parts):
            lines += between if place else []
            lines += [f"    {line}" if wrapped and line else line for line in body.lines]
        if wrapped:
            lines += [*gap, "main()"]
    return "\n".join(lines) + "\n"
