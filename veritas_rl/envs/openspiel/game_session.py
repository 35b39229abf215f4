"""The common base of sessions over an OpenSpiel state, for any turn protocol."""

from collections.abc import Sequence

from veritas_rl.envs.base import Score, Session, Turn
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.task import OpenSpielTask


class GameSession(Session):
    """A state of a game, the turns that wait for a reply, and the scores once the game is over.

    Args:
        task: The task.
        game: The task's game.
        state: The state in which the session starts.
    """

    def __init__(self, task: OpenSpielTask, game: Game, state: State) -> None:
        self.task = task
        self.game = game
        self._chance_seed = task.chance_seed
        self._state = state
        self._scores: dict[int, Score] | None = None
        self._accepted: dict[int, int] = {}
        self._turns: tuple[Turn, ...] = ()
        self._moves = 0

    def turns(self) -> Sequence[Turn]:
        return self._turns

    def scores(self) -> dict[int, Score]:
        if self._scores is None:
            raise RuntimeError("the session is not over")
        return dict(self._scores)

    def board(self, seat: int) -> str:
        return self.game.position(self._state, seat)

    def role(self, seat: int) -> str:
        return self.game.role(seat)
