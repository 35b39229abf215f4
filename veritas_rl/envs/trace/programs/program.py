"""A program whose output a model must predict."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A Python program and its input.

    Attributes:
        source: The text of the program; a generated program ends with a newline.
        stdin: The text of its standard input; generated programs read no input.
        level: The difficulty of a generated program, 1 to 10.
        opaque: Names that a debug print must not show. Somewhere in the program they are bound to a value without a
            stable printed form, such as a function or a generator, or to an object that may be incomplete, such as
            `self`.
    """

    source: str
    stdin: str = ""
    level: int = 1
    opaque: frozenset[str] = frozenset()
