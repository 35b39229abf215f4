"""External engines, as a source of values and as players: Stockfish, GNU Go, Pachi, GNU Backgammon, double dummy.

An engine is named as in `spec`, such as "uci:stockfish:nodes=2000". Its work is limited by nodes, level, playouts,
plies or deals, never by time. It has one thread and a fixed seed, and keeps no state between requests, so its answer
does not depend on earlier requests. docs/engines.md describes the installation of each engine and the meaning of its
values.
"""

import logging
from collections.abc import Callable, Mapping

from veritas_rl.envs.openspiel.engines.backgammon import GnuBackgammon, is_plain
from veritas_rl.envs.openspiel.engines.bridge import DoubleDummy, is_bridge
from veritas_rl.envs.openspiel.engines.go import GnuGo, Pachi, fits
from veritas_rl.envs.openspiel.engines.process import Engine, EngineError, EnginePool, find_library, find_program
from veritas_rl.envs.openspiel.engines.spec import EngineSpec, parse, parse_all
from veritas_rl.envs.openspiel.engines.uci import Stockfish, is_standard
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.errors import UserError

_ENGINES: Mapping[str, tuple[Callable[[EngineSpec], Engine], Callable[[Game], bool]]] = {
    "uci:stockfish": (Stockfish, is_standard),
    "gtp:gnugo": (GnuGo, fits),
    "gtp:pachi": (Pachi, fits),
    "gnubg": (GnuBackgammon, is_plain),
    "dds": (DoubleDummy, is_bridge),
}
"""For each engine's name, its constructor and the check whether it plays a case."""

_pool = EnginePool(lambda spec: _ENGINES[spec.kind.name][0](spec))
_given_up: set[EngineSpec] = set()
"""Engines that failed in this process and are not used for values again."""
_log = logging.getLogger(__name__)


def plays(spec: EngineSpec, game: Game) -> bool:
    """Whether an engine plays a case, including its size and variant."""
    return _ENGINES[spec.kind.name][1](game)


def engine_values(game: Game, state: State, player: int, spec: str, scale: str = "auto") -> Mapping[int, float] | None:
    """The value in [0, 1] of each legal action of a player to move, by the engine of this game.

    The values depend only on the player's information, the engine and the scale, not on the time or on other requests.

    Args:
        game: The game.
        state: The state of the decision.
        player: The player to move.
        spec: Names of engines, separated by commas, see `spec.parse_all`.
        scale: The scale from scores to values, see `Game.outcome`.

    Returns:
        The values; None if no engine plays this case, or if its engine has failed in this process. The first failure is
        logged as a warning.
    """
    for engine in parse_all(spec):
        if engine in _given_up or not engine.kind.values or not plays(engine, game):
            continue
        try:
            return _pool.ask(engine, lambda running: running.values(game, state, player, scale))
        except (EngineError, UserError) as error:
            _given_up.add(engine)
            _log.warning("%s; this process values further moves of %s without the engine", error, game.case)
    return None


def engine_move(game: Game, state: State, player: int, spec: EngineSpec) -> int:
    """The legal action that an engine plays.

    Raises:
        UserError: The engine does not play this case, or it failed.
    """
    check_plays(spec, game)
    try:
        action = _pool.ask(spec, lambda running: _legal(running.move(game, state, player), spec, state))
    except EngineError as error:
        raise UserError(f"the player {spec} failed in {game.case}: {error}") from error
    return action


def check_plays(spec: EngineSpec, game: Game) -> None:
    """Check that an engine plays a case.

    Raises:
        UserError: The engine does not play this game, size or variant.
    """
    if not plays(spec, game):
        raise UserError(f"{spec.kind.name} cannot play {game.case}; it plays {spec.kind.plays}")


def check_installed(spec: EngineSpec) -> None:
    """Check that an engine is installed.

    Raises:
        UserError: The engine's program or library is missing.
    """
    if spec.kind.library:
        find_library(spec, spec.kind.library)
    if spec.kind.program:
        find_program(spec)


def check_starts(spec: EngineSpec) -> None:
    """Start an engine unless it is running.

    Raises:
        UserError: The engine is not installed, or its program does not start as this engine.
    """
    try:
        _pool.ask(spec, lambda running: None)
    except EngineError as error:
        raise UserError(str(error)) from error


def _legal(action: int, spec: EngineSpec, state: State) -> int:
    if action not in state.legal_actions():
        raise EngineError(f"{spec.kind.name} plays {action}, which is no legal action")
    return action


__all__ = [
    "EngineSpec",
    "check_installed",
    "check_plays",
    "check_starts",
    "engine_move",
    "engine_values",
    "parse",
    "parse_all",
    "plays",
]
