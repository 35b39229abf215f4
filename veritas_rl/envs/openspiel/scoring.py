"""What a finished game, or a single move, is worth to a player: a value in [0, 1].

A finished game is valued by `Game.outcome`.

A single move is valued by the strongest source that its game allows:

- "exact": the minimax value, in a game that is enumerated and solvable.
- "playouts": elsewhere the mean over uniformly random playouts, an unbiased estimate of its value against random play,
  with its standard error. The dice depend on what the mover knows, never on the task's number or the move, so that
  equal answers to equal questions pay the same, and two moves are compared on the same luck. With hidden information
  each playout starts from a state drawn from what the mover knows: the value does not peek.

The reward "optimal" asks what a move loses against the best one, and values all of them alike: by minimax ("exact"); in
a small game with hidden information by their expected returns where everybody plays the equilibrium from then on
("equilibrium"), in proportion to the range of returns; elsewhere by Monte Carlo tree search ("search") or, where that
would see what the player does not, by playouts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyspiel

from veritas_rl.envs.base import Reason
from veritas_rl.envs.openspiel import positions
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.equilibrium import count_histories, equilibrium_of
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.solver import solver_of
from veritas_rl.seeding import digest, generator, uniform

SEARCH_SIMULATIONS = 64
"""Simulations for each legal action, in a search for the best move."""
SEARCH_DEALS = 8
"""In how many draws of the dice, in a game with chance."""
EQUILIBRIUM_TOLERANCE = 0.05
"""Actions this near to the best, in units of return, are equally good: CFR+ stops a little before the equilibrium."""
SEARCH_EXPLORATION = 2.0
"""The constant of UCT (Kocsis and Szepesvari 2006), for returns in [-1, 1]."""


@dataclass(frozen=True)
class MoveValue:
    """What a move is worth.

    Attributes:
        value: In [0, 1], for the mover.
        source: "exact", "equilibrium", "search" or "playouts".
        best: The value of the best move; None where no other was valued.
        error: The standard error of `value`, where that is an estimate of known error.
        tolerance: How far from the best value a move counts as equally good.
    """

    value: float
    source: str
    best: float | None
    error: float | None = None
    tolerance: float = 0.0

    @property
    def lost(self) -> float:
        """What the move loses against the best one, in [0, 1]; against a sure win where the best is not known."""
        return (1.0 if self.best is None else self.best) - self.value

    @property
    def good(self) -> bool:
        """Whether no other move is better; where the best is not known, whether this one is worth more than 0.5."""
        return self.value > 0.5 if self.best is None else self.value >= self.best - self.tolerance


def result(value: float) -> Reason:
    """What a finished game of this value is called: won above 0.5."""
    return Reason.WON if value > 0.5 else Reason.LOST if value < 0.5 else Reason.DRAWN


def move_value(game: Game, state: State, player: int, action: int, playouts: int, scale: str = "result") -> MoveValue:
    """What a player's legal action is worth: exactly, or as the mean of so many playouts."""
    if is_exact(game.case):
        values = {move: _sign_value(worth) for move, worth in solver_of(game.case).values(state).items()}
        return MoveValue(values[action], "exact", max(values.values()))
    value, error = playouts_value(game, state, player, action, playouts, scale)
    return MoveValue(value, "playouts", None, error)


def playouts_value(
    game: Game, state: State, player: int, action: int, playouts: int, scale: str, dice: Sequence[object] = ()
) -> tuple[float, float]:
    """The mean over uniformly random playouts after a player's legal action, and its standard error.

    Args:
        game: The game.
        state: Where the player is asked.
        player: Who.
        action: The legal action.
        playouts: How many games are played.
        scale: "result" or "utility".
        dice: Words that choose the dice beside what the player knows. Without any, the dice are those of the reward.
    """
    estimate = _native_playouts if _is_native(game) else _playouts
    return estimate(game, state, player, action, playouts, scale, dice)


def best_move_value(
    game: Game, state: State, player: int, action: int, playouts: int, scale: str = "result"
) -> MoveValue:
    """What a player's legal action is worth beside the best one; see the module for how."""
    if is_exact(game.case):
        return move_value(game, state, player, action, playouts)
    if has_equilibrium(game.case):
        least, greatest = game.spiel.min_utility(), game.spiel.max_utility()
        worths = equilibrium_of(game.case).values(state)
        values = {move: (worth - least) / (greatest - least) for move, worth in worths.items()}
        tolerance = EQUILIBRIUM_TOLERANCE / (greatest - least)
        return MoveValue(values[action], "equilibrium", max(values.values()), tolerance=tolerance)
    source, values = _values(game.case, tuple(state.history()), player, playouts, scale)
    return MoveValue(values[action], source, max(values.values()))


@lru_cache(maxsize=1024)  # every copy of a task asks for the same position
def _values(
    case: str, history: tuple[int, ...], player: int, playouts: int, scale: str
) -> tuple[str, Mapping[int, float]]:
    game = load(case)
    state = positions.replay(game, history)
    if is_searchable(game):
        return "search", _search(game, state, player)
    actions = state.legal_actions(player)
    return "playouts", {action: playouts_value(game, state, player, action, playouts, scale)[0] for action in actions}


def _sign_value(utility: float) -> float:
    """1 for a win, 0.5 for a draw, 0 for a loss."""
    return 0.5 * (1 + (utility > 0) - (utility < 0))


def is_exact(case: str) -> bool:
    """Whether single moves of a case are paid by their exact values."""
    return load(case).solvable and positions.enumerate_states(case) is not None


def has_equilibrium(case: str) -> bool:
    """Whether CFR+ solves a case: small, hidden information, two players in turn, zero-sum."""
    game = load(case)
    suits = game.hidden and game.players == 2 and game.zero_sum and not game.simultaneous
    return suits and game.type.provides_information_state_string and count_histories(case) is not None


def is_searchable(game: Game) -> bool:
    """Whether OpenSpiel's tree search applies without seeing what its player does not: two in turn, paid at the end by
    -1, 0 or 1."""
    terminal = game.type.reward_model == pyspiel.GameType.RewardModel.TERMINAL
    ends = (game.spiel.min_utility(), game.spiel.max_utility())
    in_turn = game.players == 2 and not game.simultaneous
    return in_turn and game.zero_sum and not game.hidden and terminal and ends == (-1, 1)


def _is_native(game: Game) -> bool:
    """Whether OpenSpiel's own playouts measure the same: returns of -1, 0 and 1, and nothing to deal."""
    return game.solvable and game.spiel.min_utility() == -1 and game.spiel.max_utility() == 1


def _search(game: Game, state: State, player: int) -> dict[int, float]:
    """The value of each legal action by a tree search of its own, all of the same size: one search of the position
    would look at a bad move less often and know less about it."""
    seed = digest("search", game.case, game.information_key(state, player)) % 2**31
    deals = SEARCH_DEALS if game.type.chance_mode != pyspiel.GameType.ChanceMode.DETERMINISTIC else 1
    return {
        action: sum(_searched(game, state.child(action), player, seed + deal, deals) for deal in range(deals)) / deals
        for action in state.legal_actions()
    }


def _searched(game: Game, state: State, player: int, seed: int, deals: int) -> float:
    """What a search finds a state to be worth to a player, in [0, 1], after one draw of what chance does next."""
    while state.is_chance_node():  # the same luck for every action
        positions.apply_chance(state, uniform("search", seed, state.move_number()))
    if state.is_terminal():
        return (1 + state.player_return(player)) / 2
    evaluator = pyspiel.RandomRolloutEvaluator(1, seed)
    simulations = max(1, SEARCH_SIMULATIONS // deals)
    bot = pyspiel.MCTSBot(game.spiel, evaluator, SEARCH_EXPLORATION, simulations, 1000, True, seed, False)
    root = bot.mcts_search(state)
    if root.outcome:  # proven
        return (1 + root.outcome[player]) / 2
    mean = root.total_reward / root.explore_count
    return min(1.0, max(0.0, (1 + (mean if state.current_player() == player else -mean)) / 2))


def _native_playouts(
    game: Game, state: State, player: int, action: int, playouts: int, scale: str, dice: Sequence[object] = ()
) -> tuple[float, float]:
    child = state.child(action)
    if child.is_terminal():
        return game.outcome(child.returns(), player, scale), 0.0
    # One simulation evaluates the unexpanded root: the mean return of so many rollouts, some 40 times as fast as a
    # loop in Python (150,000 a second on 5x5 Hex).
    seed = digest("playouts", game.case, game.information_key(state, player), *dice) % 2**31
    evaluator = pyspiel.RandomRolloutEvaluator(playouts, seed)
    root = pyspiel.MCTSBot(game.spiel, evaluator, 1.0, 1, 1, False, seed, False).mcts_search(child)
    mean = root.total_reward / root.explore_count
    mean = mean if child.current_player() == player else -mean
    value = min(1.0, max(0.0, (1 + mean) / 2))
    # Exact without draws; with them the true variance is smaller.
    return value, math.sqrt(value * (1 - value) / max(1, playouts - 1))


def _playouts(
    game: Game, state: State, player: int, action: int, playouts: int, scale: str, dice: Sequence[object] = ()
) -> tuple[float, float]:
    key = game.information_key(state, player)
    values = []
    for index in range(playouts):
        random = generator("playouts", game.case, key, *dice, index)
        copy = game.resample(state, player, random.random)
        others = {mover: random.choice(copy.legal_actions(mover)) for mover in game.movers(copy) if mover != player}
        game.apply(copy, {**others, player: action})
        while not copy.is_terminal():
            if copy.is_chance_node():
                positions.apply_chance(copy, random.random())
            else:
                copy.apply_action(random.choice(copy.legal_actions()))
        values.append(game.outcome(copy.returns(), player, scale))
    mean = sum(values) / playouts
    variance = sum((value - mean) ** 2 for value in values) / max(1, playouts - 1)
    return mean, math.sqrt(variance / playouts)
