"""Group relative policy optimization (Shao et al. 2024, arXiv 2402.03300).

The other replies to the same task are the baseline. In whole games the games of one task are compared, seat by seat and
turn by turn: the advantage of a seat's t-th reply is its reward minus the mean over the games that have a t-th reply,
divided by their standard deviation. If only one game has a t-th reply, the advantage is 0.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from veritas_rl.verl_plugin.algorithms import Algorithm, Move, compared


def advantages(moves: Sequence[Move], settings: Mapping[str, Any], _memory: dict[str, float]) -> list[float]:
    """The advantages of a batch. `norm_adv_by_std_in_grpo: false` leaves out the division by the standard deviation."""
    normalize = settings.get("norm_adv_by_std_in_grpo", True)
    found = []
    for move, (weight, rewards) in zip(moves, compared(moves), strict=True):
        mean = sum(rewards) / len(rewards)
        spread = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / max(1, len(rewards) - 1))
        scale = spread + 1e-6 if normalize else 1.0
        found.append(weight * (move.reward - mean) / scale if len(rewards) > 1 else 0.0)
    return found


ALGORITHM = Algorithm(estimator="grpo", groups=True, reads=("norm_adv_by_std_in_grpo",), advantages=advantages)
