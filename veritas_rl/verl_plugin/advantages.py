"""Advantages of whole games for estimators without a critic.

`grpo` (Shao et al. 2024) compares the games of one task, seat by seat and turn by turn. The advantage of a seat's t-th
reply is its reward minus the mean over the games that have a t-th reply, divided by their standard deviation. If only
one game has a t-th reply, the advantage is 0. Each seat of each game has the same total weight: an advantage is divided
by the number of the seat's replies, and multiplied by the mean number in the batch.

`rloo`, REINFORCE leave-one-out (Ahmadian et al. 2024), compares the same games. The baseline of a reply is the mean of
the other games, and nothing is divided by a deviation.

`rae`, role-conditioned advantage estimation (Liu et al. 2025, "SPIRAL"), compares a seat's result with a running
mean of the seat's results in the same game against the same opponent, so that moving first is not rewarded. Every
reply has the same weight. A weight by the length of the game would depend on the reply, and self-play would reach
another equilibrium.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ESTIMATORS = ("grpo", "rae", "rloo")
DECAY = 0.95
"""The decay of a running mean per game."""


@dataclass(frozen=True)
class Move:
    """One trajectory of a batch: a reply, or the replies of one seat in a conversation.

    Attributes:
        task: The task, which the games of a group share.
        game: The game of the batch.
        name: The game's name, such as "hex".
        opponent: The player of the seats that are not trained; "self" if all are trained.
        seat: The seat that replied.
        turn: The index of the trajectory among this seat's in this game.
        reward: The reward, shaped or custom.
        value: The seat's final score in [0, 1]; the mean of its rewards if they are custom.
        discount: The discount of `reward`; 1 if it is custom.
    """

    task: str
    game: str
    name: str
    opponent: str
    seat: int
    turn: int
    reward: float
    value: float
    discount: float


class RoleBaselines:
    """The running mean of the score of each seat in each game, against each opponent."""

    def __init__(self) -> None:
        self.means: dict[str, float] = {}

    def advance(self, moves: Sequence[Move]) -> None:
        """Update the means with the results of a batch, one for each seat of each game."""
        seen: set[tuple[str, int]] = set()
        for move in moves:
            if (move.game, move.seat) not in seen:
                seen.add((move.game, move.seat))
                role = self._role(move)
                before = self.means.get(role)
                self.means[role] = move.value if before is None else DECAY * before + (1 - DECAY) * move.value

    def of(self, move: Move) -> float:
        """The mean of the move's role."""
        return self.means[self._role(move)]

    @staticmethod
    def _role(move: Move) -> str:
        return f"{move.name}/{move.opponent}/{move.seat}"


def group_relative(moves: Sequence[Move], *, normalize: bool) -> list[float]:
    """The advantages of `grpo`, one for each move.

    Args:
        moves: A batch.
        normalize: Whether to divide by the group's standard deviation.
    """
    advantages = []
    for move, weight, rewards in zip(moves, _weights(moves), _groups(moves), strict=True):
        mean = sum(rewards) / len(rewards)
        spread = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / max(1, len(rewards) - 1))
        scale = spread + 1e-6 if normalize else 1.0
        advantages.append(weight * (move.reward - mean) / scale if len(rewards) > 1 else 0.0)
    return advantages


def leave_one_out(moves: Sequence[Move]) -> list[float]:
    """The advantages of `rloo`, one for each move. They are 0 in a group of one."""
    return [
        weight * (move.reward * len(rewards) - sum(rewards)) / max(1, len(rewards) - 1)
        for move, weight, rewards in zip(moves, _weights(moves), _groups(moves), strict=True)
    ]


def role_conditioned(moves: Sequence[Move], baselines: RoleBaselines) -> list[float]:
    """The advantages of `rae`, one for each move. The baselines are updated with the batch first.

    An illegal reply has reward 0 and is compared like a lost game.
    """
    baselines.advance(moves)
    return [move.reward - move.discount * baselines.of(move) for move in moves]


def _groups(moves: Sequence[Move]) -> list[list[float]]:
    """For each move the rewards of the same turn of the same seat in all games of its task."""
    groups: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for move in moves:
        groups[move.task, move.seat, move.turn].append(move.reward)
    return [groups[move.task, move.seat, move.turn] for move in moves]


def _weights(moves: Sequence[Move]) -> list[float]:
    counts: Mapping[tuple[str, int], int] = _counts(moves)
    mean = len(moves) / len(counts) if counts else 1.0
    return [mean / counts[move.game, move.seat] for move in moves]


def _counts(moves: Sequence[Move]) -> dict[tuple[str, int], int]:
    counts: dict[tuple[str, int], int] = defaultdict(int)
    for move in moves:
        counts[move.game, move.seat] += 1
    return counts
