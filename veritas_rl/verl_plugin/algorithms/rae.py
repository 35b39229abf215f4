"""Role-conditioned advantage estimation (Liu et al. 2025, "SPIRAL", arXiv 2506.24119), for self-play.

A seat's result is compared with a running mean of the seat's results in the same game against the same opponent, so
that moving first is not rewarded. Every reply has the same weight. A weight by the length of the game would depend on
the reply, and self-play would reach another equilibrium.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from veritas_rl.verl_plugin.algorithms import Algorithm, Move

DECAY = 0.95
"""The decay of a running mean per game."""


def advantages(moves: Sequence[Move], _settings: Mapping[str, Any], means: dict[str, float]) -> list[float]:
    """The advantages of a batch, whose results enter the running means first, one for each seat of each game.

    An illegal reply has reward 0 and is compared like a lost game.
    """
    seen: set[tuple[str, int]] = set()
    for move in moves:
        if (move.game, move.seat) not in seen:
            seen.add((move.game, move.seat))
            role = _role(move)
            means[role] = DECAY * means[role] + (1 - DECAY) * move.value if role in means else move.value
    return [move.reward - move.discount * means[_role(move)] for move in moves]


def _role(move: Move) -> str:
    return f"{move.name}/{move.opponent}/{move.seat}"


ALGORITHM = Algorithm(estimator="rae", advantages=advantages)
