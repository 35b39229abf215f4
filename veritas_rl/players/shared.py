"""A bot whose turns are shared by workers. Its replies depend only on the turns, not on the worker."""

from collections.abc import Sequence
from functools import partial

from veritas_rl.envs.base import Player, Reply, Turn
from veritas_rl.parallel import Workers
from veritas_rl.players.loading import NamedPlayer

QUICK = ("random", "solution", "empty")
"""The bots whose replies take less time than a request to another process."""


def share(named: NamedPlayer, workers: Workers) -> Player:
    """A player whose turns the workers share; a model, a server and a quick bot answer in this process."""
    if named.is_model or named.name in QUICK or not workers.several:
        return named.player
    return SharedPlayer(named.player, workers)


class SharedPlayer:
    """A player whose turns are answered by workers.

    Args:
        player: The player; it can be pickled.
        workers: The workers that share its turns.
    """

    def __init__(self, player: Player, workers: Workers) -> None:
        self._player = player
        self._workers = workers

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        """One reply for each turn, in order."""
        return list(self._workers.map(partial(_answer, self._player), turns))


def _answer(player: Player, turn: Turn) -> Reply:
    return player.act([turn])[0]
