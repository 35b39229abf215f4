"""How engines are named: "uci:stockfish", or "uci:stockfish:nodes=2000" with the bound of its work."""

from dataclasses import dataclass

from veritas_rl.errors import UserError, unknown


@dataclass(frozen=True)
class EngineKind:
    """An engine that can be named.

    Attributes:
        name: How it is named, such as "uci:stockfish".
        game: The short name of the game that it plays.
        bound: What bounds its work on one request, such as "nodes".
        default: The bound where none is given.
        least: The smallest bound that works.
        greatest: The greatest bound that works.
        program: The program that is started, or "" for a library in this process.
        library: The PyPI package that it needs, or "".
        debian: The Debian package of the program, or "".
    """

    name: str
    game: str
    bound: str
    default: int
    least: int
    greatest: int
    program: str = ""
    library: str = ""
    debian: str = ""

    @property
    def forms(self) -> tuple[str, str]:
        """How it is typed, for people: with its own bound, and with another."""
        return self.name, f"{self.name}:{self.bound}={self.bound.upper()}"


KINDS = (
    EngineKind("uci:stockfish", "chess", "nodes", 10_000, 100, 10**9, "stockfish", "chess", "stockfish"),
    EngineKind("gtp:gnugo", "go", "level", 5, 0, 10, "gnugo", debian="gnugo"),
    EngineKind("gtp:pachi", "go", "playouts", 200, 10, 10**6, "pachi", debian="pachi"),
    EngineKind("gnubg", "backgammon", "plies", 0, 0, 3, "gnubg", debian="gnubg"),
    EngineKind("dds", "bridge", "deals", 10, 1, 1000, library="endplay"),
)
"""Every engine."""

_BY_NAME = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True)
class EngineSpec:
    """An engine and how much it may work.

    Attributes:
        kind: The engine.
        limit: The bound of its work on one request, in units of `kind.bound`.
    """

    kind: EngineKind
    limit: int

    def __str__(self) -> str:
        return f"{self.kind.name}:{self.kind.bound}={self.limit}"


def parse(text: str) -> EngineSpec:
    """The engine of a name such as "uci:stockfish:nodes=2000".

    Raises:
        UserError: There is no such engine, or it has no such bound.
    """
    found = [kind for kind in KINDS if text == kind.name or text.startswith(f"{kind.name}:")]
    if not found:
        # A bound after the name would hide how near the name is.
        raise unknown("engine", text.partition("=")[0].rpartition(":")[0] if "=" in text else text, _BY_NAME)
    (kind,) = found
    given = text.removeprefix(kind.name).removeprefix(":")
    if not given:
        if text != kind.name:
            raise UserError(f"{text!r} is no engine: {kind.forms[0]} or {kind.forms[1]}")
        return EngineSpec(kind, kind.default)
    name, _, number = given.partition("=")
    if name != kind.bound:
        raise UserError(f"{kind.name} is bounded by {kind.bound}, {given!r} was given: {kind.forms[1]}")
    if not (number.isascii() and number.isdigit() and kind.least <= int(number) <= kind.greatest):
        raise UserError(
            f"{kind.bound} of {kind.name} must be a whole number from {kind.least} to {kind.greatest}, {number!r} was "
            f"given: {kind.name}:{kind.bound}={kind.default}"
        )
    return EngineSpec(kind, int(number))


def parse_all(text: str) -> tuple[EngineSpec, ...]:
    """The engines of a list with commas; each game has one at most.

    Raises:
        UserError: As `parse`, or two of them play the same game.
    """
    specs = tuple(parse(part.strip()) for part in text.split(",") if part.strip())
    games: dict[str, EngineSpec] = {}
    for spec in specs:
        other = games.setdefault(spec.kind.game, spec)
        if other is not spec:
            raise UserError(f"{other.kind.name} and {spec.kind.name} both play {spec.kind.game}: name one of them")
    return specs
