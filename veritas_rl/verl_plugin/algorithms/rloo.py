"""REINFORCE leave-one-out (Ahmadian et al. 2024, arXiv 2402.14740).

The mean of the other replies to the same task is the baseline, and nothing is divided by a deviation. Whole games are
compared as in GRPO.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from veritas_rl.verl_plugin.algorithms import Algorithm, Move, compared


def advantages(moves: Sequence[Move], _settings: Mapping[str, Any], _memory: dict[str, float]) -> list[float]:
    """The advantages of a batch. They are 0 in a group of one."""
    return [
        weight * (move.reward * len(rewards) - sum(rewards)) / max(1, len(rewards) - 1)
        for move, (weight, rewards) in zip(moves, compared(moves), strict=True)
    ]


ALGORITHM = Algorithm(estimator="rloo", groups=True, advantages=advantages)
