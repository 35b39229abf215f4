"""Neural replicator dynamics (Hennes et al. 2020, arXiv 1906.00190) on all legal answers, for self-play of small games.

As `all_actions`, but an answer's probability is no factor: the logit of each answer grows by its advantage. A policy
gradient hardly moves an answer that has become rare, however good it is now. In self-play answers become good again all
the time, and the logits of replicator dynamics follow them, as those of mirror descent do.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from veritas_rl.verl_plugin.algorithms import Algorithm, Move


def advantages(moves: Sequence[Move], _settings: Mapping[str, Any], _memory: dict[str, float]) -> list[float]:
    """The value of each answer minus the plain mean of all answers to its decision.

    They sum to 0, so an update moves the logits of a decision's answers against each other, and not against replies
    that are no legal answer.
    """
    values: dict[tuple[str, int], list[float]] = defaultdict(list)
    for move in moves:
        values[move.game, move.decision].append(move.reward)
    means = {decision: fmean(found) for decision, found in values.items()}
    return [move.reward - means[move.game, move.decision] for move in moves]


ALGORITHM = Algorithm(estimator="neurd", lists=True, advantages=advantages)
