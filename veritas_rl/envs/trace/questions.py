"""What a question of a task is: a program with its output. `asking` computes it from the task's identity.

A hash of the syntax tree without names decides the split, so no program of validation is in training, for any seed and
any names in the program.
"""

from dataclasses import dataclass

from veritas_rl.envs.trace.nodes import shape
from veritas_rl.envs.trace.programs.levels import LIMITS
from veritas_rl.errors import UserError
from veritas_rl.seeding import digest

VALIDATION_SHARE = 0.25
"""The share of forms that is reserved for validation."""

LEVELS = tuple(f"level_{level}" for level in LIMITS)
"""The cases of generated programs."""

FILE = "programs:"
"""The prefix of a case that names a file of users' programs: programs:FILE."""


@dataclass(frozen=True)
class Question:
    """A program and its output.

    Attributes:
        source: The program with its debug prints.
        stdin: The text of its standard input.
        truth: The complete output.
        form: The program's `form_of`, without debug prints.
    """

    source: str
    stdin: str
    truth: str
    form: str


@dataclass(frozen=True)
class Identity:
    """The values that determine a question; see `Task` and `TraceParameters`."""

    case: str
    k: int
    seed: int
    split: str
    debug_prints: int


def level_of(case: str) -> int:
    """The level of a case of generated programs.

    Raises:
        UserError: The case is no level.
    """
    if case not in LEVELS:
        raise UserError(f"{case!r} is no case of trace; cases are {LEVELS[0]} to {LEVELS[-1]}, and {FILE}FILE")
    return int(case.partition("_")[2])


def form_of(source: str) -> str:
    """A digest of a program's `shape`: equal for programs that differ only in names, comments and layout.

    Raises:
        SyntaxError: `source` is not Python; see `parse` for other errors.
    """
    return f"{digest('program', shape(source)):016x}"


def split_of(form: str) -> str:
    """The split of a form, independent of the seed."""
    return "val" if digest("split", "trace", form) < VALIDATION_SHARE * 2**64 else "train"
