"""Whom a fresh model imitates before it learns from rewards: the best player that a game has for nothing."""

from collections.abc import Sequence

from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.openspiel.scoring import is_exact
from veritas_rl.players.exact import ExactPlayer
from veritas_rl.players.random import RandomPlayer


class Teacher:
    """Plays exactly where a game is enumerated and solved, and at random among the legal moves elsewhere.

    Args:
        seed: Any seed; it draws among moves that are equally good.
    """

    def __init__(self, seed: int | str = 0) -> None:
        self._exact = ExactPlayer(seed=seed)
        self._random = RandomPlayer(seed)

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        """One legal reply for each turn of an OpenSpiel session."""
        return [(self._exact if is_exact(turn.view.case) else self._random).act([turn])[0] for turn in turns]
