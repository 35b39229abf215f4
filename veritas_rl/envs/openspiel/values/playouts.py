"""Values by playouts: games of uniformly random moves from a position, valued by their results.

Playout i of a position has the same deal of hidden cards, the same first chance outcomes, and the same stream of random
moves for every valued move. That lowers the error of the difference between two moves. These random numbers depend only
on the player's information and on i, so equal questions have equal values.

If a finished game is worth 1, 0.5 or 0 and nothing is dealt, OpenSpiel plays the playouts, about ten times as fast. The
playouts of different moves are then independent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from random import Random
from statistics import fmean
from threading import RLock

import numpy as np
import pyspiel
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from veritas_rl.envs.openspiel import playing
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.values.question import Question
from veritas_rl.seeding import digest, generator

MOVES, NATIVE_MOVES = 2_000, 40_000
"""The default number of playout moves to value one move: about 5 ms in Python, 15 ms by OpenSpiel."""
START = 12
"""The cost of starting a playout in Python, in moves."""
DEALT = 3
"""The approximate number of moves of a position that share a deal of hidden cards."""
MOST, LEAST = 256, 8
"""The largest and the smallest default number of playouts."""
DICE = 16
"""The number of chance outcomes of a playout that are drawn in advance, so that they do not depend on the moves."""
CACHED_BYTES, ENTRY_BYTES = 128 * 2**20, 2_000
"""The approximate maximum memory of a process's cached samples, and that of a sample without its results but with its
share of the position, which has about ten samples: 800 bytes in hex, 1,400 in chess."""
SEEDS = 2**31
"""The upper limit of OpenSpiel's seeds."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Playouts after one move, or after a random move.

    Attributes:
        mean: The mean value, in [0, 1].
        variance: The variance of a single playout.
        count: The number of playouts.
        results: The value of each playout, of shape (count,); None for OpenSpiel's playouts, which give only the mean.
    """

    mean: float
    variance: float
    count: int
    results: NDArray[np.float64] | None = None

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return math.sqrt(self.variance / self.count)

    def less(self, other: "Sample") -> tuple[float, float]:
        """The mean of this sample minus that of `other`, and the standard error; paired if both have results."""
        if self.results is not None and other.results is not None and self.count == other.count:
            paired = _sample(self.results - other.results)
            return paired.mean, paired.error
        return self.mean - other.mean, math.hypot(self.error, other.error)


def _sample(results: NDArray[np.float64]) -> Sample:
    count = len(results)
    return Sample(float(results.mean()), float(results.var(ddof=1)) if count > 1 else 0.25, count, results)


def is_native(game: Game) -> bool:
    """Whether OpenSpiel's playouts are equivalent: returns of -1, 0 and 1, no margin, no chance, and nothing hidden."""
    ends = (game.spiel.min_utility(), game.spiel.max_utility())
    return game.solvable and ends == (-1, 1) and not game.is_graded


@lru_cache(maxsize=256)
def usual_count(case: str) -> int:
    """The default number of playouts for a move: as many as `MOVES` allow from the middle of a game."""
    game, lengths = load(case), []
    for index in range(8):
        random, state = generator("length", case, index), game.spiel.new_initial_state()
        moves = 0
        while not state.is_terminal():
            moves += 1
            if state.is_chance_node():
                playing.apply_chance(state, random.random())
            else:
                state.apply_action(random.choice(state.legal_actions()))
        lengths.append(moves)
    length = fmean(lengths) / 2
    if game.playout_moves is not None:
        length = min(length, game.playout_moves)
    if is_native(game):
        return int(min(MOST, max(LEAST, NATIVE_MOVES / length)))
    count = MOVES / (length + START + game.deal_moves / DEALT + game.grade_moves)
    return int(min(MOST, max(LEAST, count)))


def count_of(case: str, playouts: int) -> int:
    """The number of playouts of a task that asks for `playouts`, where 0 asks for the default."""
    return playouts or usual_count(case)


def sample_of(question: Question, action: int | None, count: int, scale: str, visits: int = 1) -> Sample:
    """Playouts after a legal action of the player.

    Args:
        question: The position.
        action: The action; None for a uniformly random one in each playout, so that the mean is that of the average
            legal move.
        count: The number of playouts that a visit adds.
        scale: See `Game.outcome`.
        visits: The number of visits, including this one, whose playouts are combined.
    """
    samples = [visit_sample(question, action, count, scale, visit) for visit in range(visits)]
    return samples[0] if visits == 1 else _joined(samples)


def _bytes(sample: Sample) -> int:
    """The approximate memory of a cached sample with its key."""
    return ENTRY_BYTES + (0 if sample.results is None else sample.results.nbytes)


# The agent loop prepares the next batch in a second thread.
@cached(LRUCache(CACHED_BYTES, _bytes), lock=RLock(), info=True)
def visit_sample(question: Question, action: int | None, count: int, scale: str, visit: int) -> Sample:
    """The playouts that one visit adds, from 0; see `sample_of`."""
    return _visit(question, action, count, scale, (visit,) if visit else ())


def fresh_sample(question: Question, action: int, count: int, scale: str, dice: Sequence[object]) -> Sample:
    """Playouts with random numbers that no reward uses, because `dice` also seeds them. They are not cached."""
    return _visit(question, action, count, scale, ("fresh", *dice))


def _joined(samples: Sequence[Sample]) -> Sample:
    results = [sample.results for sample in samples if sample.results is not None]
    if len(results) == len(samples):
        return _sample(np.concatenate(results))
    count = sum(sample.count for sample in samples)
    mean = sum(sample.mean * sample.count for sample in samples) / count
    return Sample(mean, _variance(mean, count), count)


def _visit(question: Question, action: int | None, count: int, scale: str, dice: Sequence[object]) -> Sample:
    if is_native(question.game):
        return _native(question, action, count, scale, dice)
    seed = digest("playouts", question.case, question.known, *dice)
    deals = _deals(question, count, seed)
    return _sample(np.array([_played(question, deal, action, scale, seed + 2 * i) for i, deal in enumerate(deals)]))


@lru_cache(maxsize=32)
def _deals(question: Question, count: int, seed: int) -> tuple[State, ...]:
    """The initial states of playouts; hidden cards are dealt again for each."""
    if not question.game.hidden:
        return (question.state,) * count
    random = Random(seed)
    return tuple([question.game.resample(question.state, question.player, random.random) for _ in range(count)])


def _played(question: Question, deal: State, action: int | None, scale: str, seed: int) -> float:
    """The value of one playout."""
    game, player = question.game, question.player
    random = Random(seed)
    state, first = deal.clone(), random.random()
    if game.simultaneous:
        moves = {mover: random.choice(state.legal_actions(mover)) for mover in game.movers(state)}
        game.apply(state, moves if action is None else {**moves, player: action})
    elif action is None:
        actions = state.legal_actions()
        state.apply_action(actions[int(first * len(actions))])
    else:
        state.apply_action(action)
    return _finished(question, state, player, scale, random)


def _finished(question: Question, state: State, player: int, scale: str, random: Random) -> float:
    """The value of a state that is played to its end, in place."""
    game = question.game
    limit = game.playout_limit(question.state)
    left = -1 if limit is None else limit
    dice = [random.random() for _ in range(DICE)] if game.has_chance else ()
    chance = chain(dice, iter(random.random, None))
    while left and not state.is_terminal():
        if state.is_chance_node():
            playing.apply_chance(state, next(chance))
        else:
            actions = state.legal_actions()
            state.apply_action(actions[int(random.random() * len(actions))])  # takes half the time of random.choice
            left -= 1
    return game.graded(question.state, state, player, scale)


def _native(question: Question, action: int | None, count: int, scale: str, dice: Sequence[object]) -> Sample:
    game, player = question.game, question.player
    state = question.state if action is None else question.state.child(action)
    if state.is_terminal():
        return Sample(game.outcome(state.returns(), player, scale), 0.0, count)
    seed = digest("playouts", question.case, question.known, *dice) % SEEDS
    value = native_mean(game, state, player, count, seed)
    return Sample(value, _variance(value, count), count)


def native_mean(game: Game, state: State, player: int, count: int, seed: int) -> float:
    """The mean value for a player, in [0, 1], of `count` OpenSpiel playouts from a non-terminal state."""
    evaluator = pyspiel.RandomRolloutEvaluator(count, seed)
    # One simulation evaluates the unexpanded root by the mean return of its rollouts.
    root = pyspiel.MCTSBot(game.spiel, evaluator, 1.0, 1, 1, False, seed, False).mcts_search(state)
    mean = root.total_reward / root.explore_count
    return min(1.0, max(0.0, (1 + (mean if state.current_player() == player else -mean)) / 2))


def _variance(value: float, count: int) -> float:
    """The variance of a single playout, estimated from the mean; too large if there are draws."""
    return value * (1 - value) * count / max(1, count - 1)


def mean_of_state(question: Question, player: int, count: int, scale: str) -> float:
    """The mean value for any player of playouts from the question's state, with its true hidden cards."""
    first = digest("playouts", question.case, question.true, "state")
    seeds = range(first, first + 2 * count, 2)
    return fmean(_finished(question, question.state.clone(), player, scale, Random(seed)) for seed in seeds)
