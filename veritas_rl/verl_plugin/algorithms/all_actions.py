"""The all-action policy gradient (Sutton, Singh and McAllester 2001; Allen et al. 2017, "Mean Actor-Critic"): the batch
has every legal answer to each decision once, weighted by its probability, instead of sampled replies.

The gradient is that of the expected value itself, without the noise of sampling and without a critic. It needs answers
that can be listed, and their values: those of single moves, or of all decisions of a small game against itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from veritas_rl.verl_plugin.algorithms import Algorithm, Move


def advantages(moves: Sequence[Move], _settings: Mapping[str, Any], _memory: dict[str, float]) -> list[float]:
    """The value of each answer times its probability, so that the sum of a decision is its expected value.

    Without sampling, a baseline would lower no noise. A reply that is no legal answer is worth 0, so the policy learns
    to avoid it. Each decision has the same weight: the factor is the mean number of answers, because verl's loss is a
    mean over rows.
    """
    mean = len(moves) / max(1, len({(move.game, move.decision) for move in moves}))
    return [mean * move.probability * move.reward for move in moves]


ALGORITHM = Algorithm(estimator="all_actions", lists=True, advantages=advantages)
