"""Monte Carlo tree search by OpenSpiel's C++ bots, an opponent of adjustable strength.

The search is bounded by simulations, never by time, so it plays the same on every machine. With hidden information it
uses only its seat's information: one search runs in each of several worlds that are dealt from that information
(Ginsberg 2001, "perfect-information Monte Carlo"), and each votes for its best move. If worlds cannot be dealt, it
searches the true state, and `sees_hidden` is true. OpenSpiel's search of information sets is not used, because it
breaks ties by the order of a hash table, so the same seed plays differently in each process.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import isqrt

import numpy as np
import pyspiel

from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.openspiel import playing
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.view import View
from veritas_rl.errors import UserError
from veritas_rl.seeding import digest, generator

WORLDS = 16
"""The maximum number of dealt worlds of a search. The number is about half the square root of the simulations: 4 worlds
for 50 simulations. In liar's dice, 50 simulations in 16 worlds lose 66% of games against 50 simulations in 4 worlds
with one die, and 86% with five dice."""
EXPLORATION = 2.0
"""The constant of UCT (Kocsis and Szepesvari 2006), in standard deviations of the returns of random games."""
MEMORY_MB = 1000


class MCTSPlayer:
    """Plays the most visited move of a search.

    Args:
        simulations: The simulations for each move; None for the game's full budget, see `Game.budget`.
        rollouts: Random playouts at the end of each simulation, if `simulations` is given.
        seed: Any seed; the search also depends on the turn's dice.
        solve: Whether a search ends once it has proven its best move; otherwise it makes all its simulations.

    Raises:
        UserError: `simulations` or `rollouts` is below 1.
    """

    def __init__(
        self, simulations: int | None = 50, rollouts: int = 1, seed: int | str = 0, *, solve: bool = True
    ) -> None:
        for name, value in (("simulations", simulations), ("rollouts", rollouts)):
            if value is not None and value < 1:
                raise UserError(f"{name} of a search must be at least 1, {value} was given")
        self.simulations = simulations
        self.rollouts = rollouts
        self.seed = seed
        self.solve = solve

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        """One legal reply for each turn of an OpenSpiel session.

        Raises:
            UserError: A game cannot be searched, see `check_searchable`.
        """
        return [self._answer(turn) for turn in turns]

    def _answer(self, turn: Turn) -> Reply:
        view: View = turn.view
        check_searchable(view.case)
        game = load(view.case)
        budget = (self.simulations, self.rollouts) if self.simulations else (game.budget or (1, 1))
        seed = digest("mcts", self.seed, *turn.dice) % 2**31
        if len(view.actions) == 1:
            return Reply(turn.answers[0])
        action = _choose(game, view.state, turn.seat, budget, seed, solve=self.solve)
        return Reply(turn.answers[view.actions.index(action)])


def check_searchable(case: str) -> None:
    """Check that OpenSpiel's tree search can play a game.

    Raises:
        UserError: The game has simultaneous moves, or pays before its end.
    """
    game = load(case)
    why = None
    if game.simultaneous:
        why = "its players move at once"
    elif game.type.reward_model != pyspiel.GameType.RewardModel.TERMINAL:
        why = "it pays before its end"
    if why:
        raise UserError(f"a tree search cannot play {game.case}: {why}; use the opponent random")


def sees_hidden(case: str) -> bool:
    """Whether a search of this game sees hidden information."""
    game = load(case)
    return game.hidden and not game.can_resample


def _choose(game: Game, state: State, seat: int, budget: tuple[int, int], seed: int, *, solve: bool) -> int:
    simulations, rollouts = budget
    evaluator = pyspiel.RandomRolloutEvaluator(rollouts, seed)
    exploration = EXPLORATION * _spread(game.case)
    if game.hidden and game.can_resample:
        return _choose_over_worlds(game, state, seat, simulations, evaluator, exploration, seed, solve=solve)
    return pyspiel.MCTSBot(game.spiel, evaluator, exploration, simulations, MEMORY_MB, solve, seed, False).step(state)


def _choose_over_worlds(
    game: Game,
    state: State,
    seat: int,
    simulations: int,
    evaluator: pyspiel.RandomRolloutEvaluator,
    exploration: float,
    seed: int,
    *,
    solve: bool,
) -> int:
    simulations = max(2, simulations)  # the first simulation of a world visits no move
    worlds = min(WORLDS, 1 + isqrt(simulations) // 2)
    votes: Counter[int] = Counter()
    worth: Counter[int] = Counter()
    for index in range(worlds):
        world = game.resample(state, seat, generator("world", seed, index).random)
        share = simulations // worlds + (index < simulations % worlds)
        bot = pyspiel.MCTSBot(game.spiel, evaluator, exploration, share, MEMORY_MB, solve, seed + index, False)
        best = bot.mcts_search(world).best_child()
        votes[best.action] += 1
        # After a short search the best child may be an unvisited one.
        worth[best.action] += best.outcome[seat] if best.outcome else best.total_reward / max(1, best.explore_count)
    return max(votes, key=lambda action: (votes[action], worth[action], -action))


@lru_cache(maxsize=64)
def _spread(case: str) -> float:
    """The standard deviation of player 0's return in 64 random games, the unit of a search's exploration."""
    game = load(case)
    returns = []
    for index in range(64):
        random, state = generator("spread", case, index), game.spiel.new_initial_state()
        while not state.is_terminal():
            if state.is_chance_node():
                playing.apply_chance(state, random.random())
            else:
                state.apply_action(random.choice(state.legal_actions()))
        returns.append(state.returns()[0])
    return float(np.std(returns)) or 1.0
