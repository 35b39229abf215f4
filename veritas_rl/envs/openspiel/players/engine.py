"""An external engine as a player, such as Stockfish."""

from collections.abc import Sequence

from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.environment import PlayerKind
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.engines import check_plays, check_starts, engine_move, parse
from veritas_rl.envs.openspiel.engines.spec import KINDS as ENGINES
from veritas_rl.envs.openspiel.view import View


class EnginePlayer:
    """Plays the moves of an engine: always the same move in the same position.

    Args:
        name: The engine's name, see `spec.parse`.

    Raises:
        UserError: There is no such engine, it is not installed, or it does not start.
    """

    def __init__(self, name: str) -> None:
        self.spec = parse(name)
        check_starts(self.spec)

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        """One legal reply for each turn of an OpenSpiel session.

        Raises:
            UserError: The engine does not play a case, or it failed.
        """
        return [self._answer(turn) for turn in turns]

    def _answer(self, turn: Turn) -> Reply:
        view: View = turn.view
        action = engine_move(load(view.case), view.state, turn.seat, self.spec)
        return Reply(turn.answers[view.actions.index(action)])


def _kind(family: str) -> PlayerKind:
    """The kind of player that covers all engines of a family."""
    engines = [engine for engine in ENGINES if engine.name.partition(":")[0] == family]
    described = "; ".join(f"{engine.name} plays {engine.plays}" for engine in engines)
    return PlayerKind(
        forms=tuple(form for engine in engines for form in engine.forms),
        pattern=rf"{family}(?::.*)?",
        description=f"an engine, see docs/engines.md: {described}",
        make=lambda name, seed: EnginePlayer(name),
        check=lambda name, case: check_plays(parse(name), load(case)),
        stand_in="random",
        canonical=lambda name: str(parse(name)),
        note=lambda name, case: f"{case}: {name} plays the same move whenever it meets the same position.",
    )


KINDS = tuple(map(_kind, dict.fromkeys(engine.name.partition(":")[0] for engine in ENGINES)))
"""The kinds of engine players, one for each family: the word before the first colon of an engine's name."""
