"""A program whose output a model has to predict."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A Python program and what it reads.

    Attributes:
        source: The text of the program, ending with a new line.
        stdin: What the program reads from standard input. Generated programs read nothing.
        level: The difficulty it was generated for, 1 to 10.
        opaque: Names that are bound, somewhere in the program, to a value without a stable printed form, or to an
            object that may be half made: functions kept in variables, running generators, `self`. A debug print must
            not show them.
    """

    source: str
    stdin: str = ""
    level: int = 1
    opaque: frozenset[str] = frozenset()
