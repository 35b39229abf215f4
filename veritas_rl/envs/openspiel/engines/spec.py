"""Names of engines: "uci:stockfish", or "uci:stockfish:nodes=2000" with a limit of the work."""

from dataclasses import dataclass

from veritas_rl.errors import UserError, unknown


@dataclass(frozen=True)
class EngineKind:
    """An engine that can be named.

    Attributes:
        name: The name, such as "uci:stockfish".
        game: The short name of its game.
        plays: A description of the cases that the engine plays.
        bound: The unit in which the work on one request is limited, such as "nodes".
        default: The default limit.
        least: The smallest valid limit.
        greatest: The largest valid limit.
        program: The program; "" for a library in this process.
        library: The required PyPI package; "" for none.
        install: How to install the program.
        values: Whether the engine values moves in addition to playing.
    """

    name: str
    game: str
    plays: str
    bound: str
    default: int
    least: int
    greatest: int
    program: str = ""
    library: str = ""
    install: str = ""
    values: bool = True

    @property
    def forms(self) -> tuple[str, str]:
        """The forms of the name for users: with the default limit, and with a given limit."""
        return self.name, f"{self.name}:{self.bound}={self.bound.upper()}"


KINDS = (
    EngineKind(
        name="uci:stockfish",
        game="chess",
        plays="chess, not chess960",
        bound="nodes",
        default=10_000,
        least=100,
        greatest=10**9,
        program="stockfish",
        library="chess",
        install="apt-get install stockfish",
    ),
    EngineKind(
        name="gtp:gnugo",
        game="go",
        plays="go on boards of size 5 to 19, without handicap",
        bound="level",
        default=5,
        least=0,
        greatest=10,
        program="gnugo",
        install="apt-get install gnugo",
    ),
    EngineKind(
        name="gtp:pachi",
        game="go",
        plays="go on boards of size 5 to 19, without handicap",
        bound="playouts",
        default=1000,
        least=500,
        greatest=10**6,
        program="pachi",
        install="build it from https://github.com/pasky/pachi, see docs/engines.md",
        values=False,
    ),
    EngineKind(
        name="gnubg",
        game="backgammon",
        plays="backgammon with scoring_type=winloss_scoring",
        bound="plies",
        default=0,
        least=0,
        greatest=3,
        program="gnubg",
        install="apt-get install gnubg",
    ),
    EngineKind(
        name="dds",
        game="bridge",
        plays="bridge",
        bound="deals",
        default=10,
        least=1,
        greatest=1000,
        library="endplay",
    ),
)
"""All engines."""

_BY_NAME = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True)
class EngineSpec:
    """An engine and the limit of its work.

    Attributes:
        kind: The engine.
        limit: The limit of its work on one request, in units of `kind.bound`.
    """

    kind: EngineKind
    limit: int

    def __str__(self) -> str:
        return f"{self.kind.name}:{self.kind.bound}={self.limit}"


def parse(text: str) -> EngineSpec:
    """The engine of a name such as "uci:stockfish:nodes=2000".

    Raises:
        UserError: The engine does not exist, or its limit is invalid.
    """
    found = [kind for kind in KINDS if text == kind.name or text.startswith(f"{kind.name}:")]
    if not found:
        # The search for the nearest name ignores the limit, which would change the distance between names.
        raise unknown("engine", text.partition("=")[0].rpartition(":")[0] if "=" in text else text, _BY_NAME)
    (kind,) = found
    given = text.removeprefix(kind.name).removeprefix(":")
    if not given:
        if text != kind.name:
            raise UserError(f"{text!r} is no engine; type {kind.forms[0]} or {kind.forms[1]}")
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
    """The engines in a text with commas. All of them must value moves, with at most one engine for each game.

    Raises:
        UserError: As for `parse`; or two engines play the same game, or an engine values no moves.
    """
    specs = tuple(parse(part.strip()) for part in text.split(",") if part.strip())
    for spec in specs:
        if not spec.kind.values:
            others = [kind.name for kind in KINDS if kind.game == spec.kind.game and kind.values]
            raise UserError(f"{spec.kind.name} plays but values no moves; use {' or '.join(others)}")
    games: dict[str, EngineSpec] = {}
    for spec in specs:
        other = games.setdefault(spec.kind.game, spec)
        if other is not spec:
            raise UserError(f"{other.kind.name} and {spec.kind.name} both play {spec.kind.game}; name one of them")
    return specs
