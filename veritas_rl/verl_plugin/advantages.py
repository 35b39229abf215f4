"""Advantages of whole games, for the estimators that compare games instead of asking a critic.

`grpo` (Shao et al. 2024) compares the games that were played of one task, turn by turn of the same seat: the reward of
a seat's t-th reply less the mean over the games that have one, divided by their standard deviation. Where only one game
has a t-th reply there is nothing to compare with, and its advantage is 0. The replies of one seat in one game weigh as
much together as those of any other, however long the game: each is divided by their number, and multiplied by the mean
number of the batch.

`rae`, role-conditioned advantage estimation (Liu et al. 2025, "SPIRAL"), compares a seat's result with a running mean
of that seat's results in that game against the same opponent, so that moving first is no merit. Every reply weighs the
same: a weight by the game's length would depend on the reply itself, by what it led to, and self-play would come to
another equilibrium.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ESTIMATORS = ("grpo", "rae")
DECAY = 0.95
"""Of a running mean, at each game."""


@dataclass(frozen=True)
class Move:
    """One trajectory of a batch: a reply, or the replies of one seat in a conversation.

    Attributes:
        task: Which task was played; the games of a group have the same one.
        game: Which game of the batch it belongs to.
        name: The game's name, such as "hex".
        opponent: Who sat on the seats that are not trained; "self" where all are.
        seat: Who replied.
        turn: Which trajectory of this seat in this game, from 0.
        reward: The shaped reward.
        value: The seat's score in [0, 1] at the end.
        discount: What `reward` was discounted by.
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
        """Take in the results of a batch, one for each seat of each game."""
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
    groups: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for move in moves:
        groups[move.task, move.seat, move.turn].append(move.reward)
    weights = _weights(moves)
    advantages = []
    for move, weight in zip(moves, weights, strict=True):
        rewards = groups[move.task, move.seat, move.turn]
        mean = sum(rewards) / len(rewards)
        spread = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / max(1, len(rewards) - 1))
        scale = spread + 1e-6 if normalize else 1.0
        advantages.append(weight * (move.reward - mean) / scale if len(rewards) > 1 else 0.0)
    return advantages


def role_conditioned(moves: Sequence[Move], baselines: RoleBaselines) -> list[float]:
    """The advantages of `rae`, one for each move; the baselines take in the batch first.

    A reply that was a mistake has earned nothing and is compared like a lost game.
    """
    baselines.advance(moves)
    return [move.reward - move.discount * baselines.of(move) for move in moves]


def _weights(moves: Sequence[Move]) -> list[float]:
    counts: Mapping[tuple[str, int], int] = _counts(moves)
    mean = len(moves) / len(counts) if counts else 1.0
    return [mean / counts[move.game, move.seat] for move in moves]


def _counts(moves: Sequence[Move]) -> dict[tuple[str, int], int]:
    counts: dict[tuple[str, int], int] = defaultdict(int)
    for move in moves:
        counts[move.game, move.seat] += 1
    return counts
