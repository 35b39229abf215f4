"""A cheap estimate of whether the moves of a position have different values, before a task uses the position.

The estimate uses a few random playouts of each move, with random numbers that no reward uses. With hidden information
all moves share the same worlds: each world is one deal of the hidden cards.
"""

import math
from collections.abc import Callable
from random import Random

import numpy as np

from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.playing import apply_chance
from veritas_rl.envs.openspiel.values.ladder import solved
from veritas_rl.envs.openspiel.values.playouts import SEEDS, is_native, native_mean
from veritas_rl.envs.openspiel.values.question import Question
from veritas_rl.seeding import digest, generator

PLAYOUTS = 128
"""The number of playouts of each move in a measurement by `learning_signal`, which should detect the difference."""
LEAST_SPREAD = 0.02
"""The smallest standard deviation at which the moves' values count as different, see `learning_signal`."""
SURE = 2.0
"""The number of standard errors by which the variance of the moves' values must exceed 0."""
VISIBLE = 3.5
"""The same number for a measurement with `PLAYOUTS` playouts, so that a difference is almost always detected."""
MOVES = 1200
"""The maximum number of playout moves of a screening in Python."""
NATIVE_MOVES = 8000
"""The maximum number of playout moves of a screening with OpenSpiel's playouts."""
START = 6
"""The cost of starting a playout, in moves."""
WORLDS = (4, 16)
"""The minimum and maximum number of worlds for each move. If there are very many moves, only some are tried."""


def screen(game: Game, state: State, player: int) -> float:
    """The confidence that a player's moves differ, at least 1 if they seem to; the same in every process."""
    question = Question.of(game, state, player)
    known = solved(question)
    if known is not None:
        return SURE if max(known.values()) > min(known.values()) else 0.0
    random = generator("screen", game.case, question.known)
    native = is_native(game)
    actions = state.legal_actions(player)
    tries = game.screening_moves or (NATIVE_MOVES if native else MOVES)
    limit = game.playout_limit(state)
    _, plies = _playout(game, state, state, player, random.choice(actions), limit, random)
    least, most = WORLDS
    playouts = tries // (plies + START + game.deal_moves // len(actions))
    if len(actions) > max(2, playouts // least):
        actions = random.sample(actions, max(2, playouts // least))
    worlds = min(most, max(least, playouts // len(actions)))
    if native:
        return _score_of_shares(np.array([_native(game, state, player, action, worlds) for action in actions]), worlds)
    values = np.empty((len(actions), worlds))
    for world in range(worlds):
        dealt = game.resample(state, player, random.random) if game.hidden else state
        for row, action in enumerate(actions):
            values[row, world], _ = _playout(game, state, dealt, player, action, limit, random)
    return _score_of_samples(values)


def _native(game: Game, state: State, player: int, action: int, playouts: int) -> float:
    """The mean of OpenSpiel's own playouts after a move."""
    child = state.child(action)
    if child.is_terminal():
        return (1 + child.player_return(player)) / 2
    seed = digest("screen", game.case, game.state_key(state), action) % SEEDS
    return native_mean(game, child, player, playouts, seed)


def _playout(
    game: Game, start: State, dealt: State, player: int, action: int, limit: int | None, random: Random
) -> tuple[float, int]:
    """The value of one random playout after a move, and the number of its further moves."""
    state, moves, draw = dealt.clone(), 0, random.random
    if state.is_simultaneous_node():
        _move_all(state, draw, player, action)
    else:
        state.apply_action(action)
    while not state.is_terminal():
        if state.is_chance_node():
            apply_chance(state, draw())
            continue
        if moves == limit:
            break
        if state.is_simultaneous_node():
            _move_all(state, draw)
        else:
            actions = state.legal_actions()
            state.apply_action(actions[int(draw() * len(actions))])  # `random.choice` would take four times as long
        moves += 1
    return game.graded(start, state, player, "auto"), moves


def _move_all(state: State, draw: Callable[[], float], player: int = -1, action: int = 0) -> None:
    """Apply random simultaneous moves of all players, except `action` for `player`."""
    choices = [state.legal_actions(seat) or [0] for seat in range(state.num_players())]
    moves = [actions[int(draw() * len(actions))] for actions in choices]
    if player >= 0:
        moves[player] = action
    state.apply_actions(moves)


def _score_of_shares(means: np.ndarray, playouts: int) -> float:
    """The score of moves with these shares of won playouts.

    Draws make the variance of a playout smaller than assumed, so the score is then too low.
    """
    noise = float((means * (1 - means)).mean()) * playouts / max(1, playouts - 1)
    return _score(means, playouts, noise, noise)


def _score_of_samples(values: np.ndarray) -> float:
    """The score of moves with these values, of shape (moves, worlds), by a two-way analysis of variance."""
    moves, worlds = values.shape
    rest = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0, keepdims=True) + values.mean()
    paired = float((rest**2).sum()) / ((moves - 1) * (worlds - 1))
    return _score(values.mean(axis=1), worlds, paired, float(values.var(axis=1, ddof=1).mean()))


def _score(means: np.ndarray, playouts: int, noise: float, alone: float) -> float:
    """The confidence that moves differ.

    Args:
        means: The mean of each move.
        playouts: The number of playouts of a mean.
        noise: The variance of a playout without the part that it shares with other moves.
        alone: The variance of a playout with the shared part.
    """
    variance = float(means.var(ddof=1)) - noise / playouts
    if variance < LEAST_SPREAD**2:
        return 0.0
    error = math.sqrt(2 / (len(means) - 1))
    found = variance / max(error * noise / playouts, 1e-9)
    visible = variance / max(error * alone / PLAYOUTS, 1e-9)
    return min(found / SURE, visible / VISIBLE)
