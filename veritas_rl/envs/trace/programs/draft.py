"""A program under construction: its random choices, its names, its variables and its text so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from veritas_rl.envs.trace.programs.levels import LIMITS
from veritas_rl.envs.trace.programs.names import WORDS, Names
from veritas_rl.envs.trace.programs.writer import Writer

T = TypeVar("T")

LETTERS = "abcdefghijklmnoprstuwxyz"


@dataclass
class Variable:
    """A name that later statements may use.

    Attributes:
        name: The name.
        kind: "int", "str", "ints" (a list of integers), "words" (a list of strings) or "counts" (a dict from strings
            to integers).
        least: For a string or a container, its guaranteed minimum length.
        small: Whether the integer, or every integer in the container, is always small, so that its products are short.
            For "words", whether every string has at least two characters.
        keys: For "counts", guaranteed keys.
    """

    name: str
    kind: str
    least: int = 0
    small: bool = True
    keys: tuple[str, ...] = ()


class Scope:
    """One scope of the program: the text of its statements, and the variables that they may use.

    Attributes:
        writer: Receives the lines of the scope.
        names: Chooses the names of the scope.
        variables: The variables that statements may use.
        locked: Names of variables that must be neither assigned nor resized, because a loop iterates over them or
            counts with them.
        times: An estimate of how many times the current place is executed.
        loops: The number of loops around the current place.
        nested: The number of compound statements around the current place.
    """

    def __init__(self, names: Names, writer: Writer) -> None:
        self.writer = writer
        self.names = names
        self.variables: list[Variable] = []
        self.locked: set[str] = set()
        self.times = 1
        self.loops = 0
        self.nested = 0

    def of(self, kind: str, least: int = 0) -> list[Variable]:
        """The variables of a kind with a guaranteed length of at least `least`."""
        return [v for v in self.variables if v.kind == kind and v.least >= least]

    def changeable(self, kind: str, least: int = 0) -> list[Variable]:
        """The variables of `of(kind, least)` that statements may change."""
        return [v for v in self.variables if v.kind == kind and v.least >= least and v.name not in self.locked]


class Draft:
    """A program under construction.

    A block writes definitions with `define`, and statements of the main part into `body.writer`.

    Args:
        random: The random generator, the only source of randomness.
        level: The difficulty, 1 to 10.

    Attributes:
        limits: The sizes that the level allows.
        body: The scope of the program's main part.
        definitions: The definitions of the current block, a writer for each.
        opaque: See `Program.opaque`.
        printed: The number of lines that may still be printed; negative if the limit is exceeded.
    """

    def __init__(self, random: Random, level: int) -> None:
        self.random = random
        self.level = level
        self.limits = LIMITS[level]
        self.names = Names(random)
        self.body = Scope(self.names, Writer())
        self.definitions: list[Writer] = []
        self.opaque: set[str] = set()
        self.printed = self.limits.printed

    # Choices.

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random.random() < probability

    def pick(self, *options: T) -> T:
        """One of the arguments, with equal probabilities."""
        return options[int(self.random.random() * len(options))]

    def choose(self, options: Sequence[T]) -> T:
        """One member of a sequence, with equal probabilities."""
        return options[int(self.random.random() * len(options))]

    def maybe(self, text: str, probability: float = 0.5) -> str:
        """`text` with this probability, else the empty string."""
        return text if self.random.random() < probability else ""

    def between(self, low: int, high: int) -> int:
        """An integer from `low` to `high` inclusive."""
        return low + int(self.random.random() * (high - low + 1))

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """`count` different members of a sequence in random order; all of them if there are fewer."""
        return self.random.sample(options, min(count, len(options)))

    def shuffled(self, *options: T) -> list[T]:
        """The arguments in a random order."""
        return self.random.sample(options, len(options))

    def literal(self) -> int:
        """An integer for an expression, from 1 to the level's largest literal."""
        return self.between(1, self.limits.literal)

    def turns(self) -> int:
        """A number of iterations that the level allows."""
        return self.between(*self.limits.turns)

    def size(self) -> int:
        """A length of a container that the level allows."""
        return self.between(*self.limits.size)

    def ints(self, count: int | None = None, low: int = 0, high: int | None = None) -> list[int]:
        """Integers for a list literal, from `low` to `high`, by default the level's largest literal."""
        high = self.limits.literal if high is None else high
        return [self.between(low, high) for _ in range(count or self.size())]

    def words(self, count: int | None = None) -> list[str]:
        """Different short words."""
        return self.sample(WORDS, count or self.size())

    def word(self) -> str:
        """A short word."""
        return self.choose(WORDS)

    def said(self) -> str:
        """A short word as a string literal."""
        return f'"{self.word()}"'

    # Text.

    def local(self, *used: str) -> Names:
        """A chooser of names inside a function or a class, which never chooses the names `used`."""
        return Names(self.random, frozenset(used))

    def define(self) -> Writer:
        """A writer for one top-level definition, which is placed before the block's statements."""
        writer = Writer()
        self.definitions.append(writer)
        return writer

    def afford(self, lines: int = 1) -> bool:
        """Whether the program may print this many more lines; if so, they are counted as printed."""
        if self.printed < lines:
            return False
        self.printed -= lines
        return True

    def label(self) -> str:
        """A word to print in front of a value."""
        return self.pick(
            "total", "result", "value", "answer", "got", "now", "end", "sum", "left", "out", "n", "ok", "->"
        )

    def shown(self, expression: str, label: str = "") -> str:
        """A print statement of an expression in a random style, with or without a label.

        Args:
            expression: A Python expression.
            label: The word to print before the expression; random if empty.
        """
        style = self.random.random()
        if style < 0.35:
            return f"print({expression})"
        label = label or self.label()
        if style < 0.6:
            return f'print("{label}", {expression})'
        if style < 0.85 and '"' not in expression and "{" not in expression and "\\" not in expression:
            return f'print(f"{label}{self.pick(": ", "=", " ")}{{{expression}}}")'
        if style < 0.93:
            return f'print("{label}:", {expression})'
        return f'print("{label} " + str({expression}))'

    def show(self, expression: str, label: str = "") -> None:
        """Print an expression in the main part."""
        self.printed -= 1
        self.body.writer.add(self.shown(expression, label))

    def add(self, *lines: str) -> None:
        """Append lines to the main part."""
        self.body.writer.add(*lines)

    # Values that blocks share through variables of the main part.

    def number(self) -> str:
        """A small integer: the name of a variable, or a literal."""
        known = [v for v in self.body.of("int") if v.small]
        return self.choose(known).name if known and self.chance(0.4) else str(self.literal())

    def numbers(self, least: int = 3) -> str:
        """The name of a list of at least `least` small integers, which may be a new variable."""
        known = [v for v in self.body.of("ints", least) if v.small]
        if known and self.chance(0.6):
            return self.choose(known).name
        name = self.names.one("list")
        values = self.ints(max(least, self.size()))
        self.add(f"{name} = {values}")
        self.keep(name, "ints", len(values))
        return name

    def texts(self, least: int = 3) -> str:
        """The name of a list of at least `least` words, which may be a new variable."""
        known = self.body.of("words", least)
        if known and self.chance(0.6):
            return self.choose(known).name
        name = self.names.one("texts")
        values = self.words(max(least, self.size()))
        self.add(f"{name} = {quoted(values)}" if self.chance(0.7) else f'{name} = "{" ".join(values)}".split()')
        self.keep(name, "words", len(values))
        return name

    def text(self, least: int = 3) -> str:
        """The name of a string of at least `least` characters, which may be a new variable."""
        known = self.body.of("str", least)
        if known and self.chance(0.5):
            return self.choose(known).name
        name = self.names.one("text")
        value = self.phrase()
        self.add(f'{name} = "{value}"')
        self.keep(name, "str", len(value))
        return name

    def phrase(self) -> str:
        """One to four words, for a string literal of at least three characters."""
        return " ".join(self.words(self.between(1, 2 if self.level < 6 else 4)))

    def letters(self, count: int) -> str:
        """Random lowercase letters, with repetitions."""
        pool = self.sample(LETTERS, max(2, count // 2))
        return "".join(self.choose(pool) for _ in range(count))

    def keep(self, name: str, kind: str, least: int = 0, small: bool = True, keys: tuple[str, ...] = ()) -> str:
        """Let later blocks use a variable of the main part; return its name."""
        self.body.variables.append(Variable(name, kind, least, small, keys))
        return name

    def result(self, expression: str, kind: str = "int", least: int = 0) -> str:
        """Assign a block's result to a new variable of the main part, which later blocks may use.

        Args:
            expression: A Python expression.
            kind: See `Variable`.
            least: See `Variable`.

        Returns:
            The variable's name.
        """
        name = self.names.one(
            {"int": "number", "ints": "list", "str": "text", "words": "texts", "counts": "dict"}[kind]
        )
        self.add(f"{name} = {expression}")
        return self.keep(name, kind, least, small=False)


def quoted(words: Sequence[str]) -> str:
    """A list literal of strings."""
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"


def mapping(entries: Mapping[str, object]) -> str:
    """A dict literal from strings to expressions."""
    return "{" + ", ".join(f'"{key}": {value}' for key, value in entries.items()) + "}"
