"""Values by Monte Carlo tree search, in a bounded number of simulations for each legal action."""

from collections.abc import Mapping
from functools import lru_cache

import pyspiel

from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.values.outlook import outlook
from veritas_rl.envs.openspiel.values.playouts import is_native
from veritas_rl.envs.openspiel.values.question import Question
from veritas_rl.seeding import digest

MOVES = 24_000
"""The number of playout moves for one position, about 10 ms on one core."""
MOST, LEAST = 128, 32
"""The maximum and minimum number of simulations for each legal action. With fewer simulations a search is no better
than playouts, so the position is not searched."""
TOLERANCE = 0.05
"""The difference up to which moves count as equally good: about the error of a search of this size."""
EXPLORATION = 2.0
"""The constant of UCT (Kocsis and Szepesvari 2006), for returns in [-1, 1]."""


@lru_cache(maxsize=8192)
def searched(question: Question) -> Mapping[int, float] | None:
    """The value of each legal action in [0, 1], by one tree search of equal size for each action. A single search of
    the position would visit bad moves rarely and estimate them poorly. None if search does not apply, or if the
    searches would take more than `MOVES` moves."""
    game, actions = question.game, question.actions
    if not is_native(game):
        return None
    simulations = min(MOST, int(MOVES / (outlook(question)[0] * len(actions))))
    if simulations < LEAST:
        return None
    seed = digest("search", question.case, question.known) % 2**31
    return {
        action: _searched(game, question.state.child(action), question.player, seed, simulations) for action in actions
    }


def _searched(game: Game, state: State, player: int, seed: int, simulations: int) -> float:
    """A search's value of a state for a player, in [0, 1]."""
    if state.is_terminal():
        return (1 + state.player_return(player)) / 2
    evaluator = pyspiel.RandomRolloutEvaluator(1, seed)
    bot = pyspiel.MCTSBot(game.spiel, evaluator, EXPLORATION, simulations, 1000, True, seed, False)
    root = bot.mcts_search(state)
    if root.outcome:  # the search has proven the result
        return (1 + root.outcome[player]) / 2
    mean = root.total_reward / root.explore_count
    return min(1.0, max(0.0, (1 + (mean if state.current_player() == player else -mean)) / 2))
