"""Judging a player on single moves: how many are legal, how many are as good as any, with intervals.

The positions are the validation tasks of an environment, whose symmetry classes never occur in training where a game
is large enough to be split. A move is optimal if no other has a greater value; the value is exact where the game can
be solved, and the note of the result says so where it is not.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from veritas_rl.arena.statistics import Estimate, clustered_mean
from veritas_rl.envs.base import Player, Score, Session, Task, play
from veritas_rl.envs.registry import get_environment


@dataclass(frozen=True)
class Judgement:
    """What one player did on a list of positions.

    Attributes:
        legal: 1.0 or 0.0 for each position.
        optimal: The same, for moves with the best value; a probability for a player that is computed, not sampled.
        classes: The symmetry class of each position.
    """

    legal: tuple[float, ...]
    optimal: tuple[float, ...]
    classes: tuple[Hashable, ...]

    def legal_rate(self) -> Estimate:
        """The share of legal moves."""
        return clustered_mean(self.legal, self.classes)

    def optimal_rate(self) -> Estimate:
        """The share of optimal moves; an illegal one is not optimal."""
        return clustered_mean(self.optimal, self.classes)

    def gain_over(self, other: "Judgement") -> Estimate:
        """The difference in optimal rate, this minus the other, paired position by position.

        Raises:
            ValueError: The two were not judged on the same positions.
        """
        if self.classes != other.classes:
            raise ValueError("a paired difference needs the same positions in the same order")
        return clustered_mean([a - b for a, b in zip(self.optimal, other.optimal, strict=True)], self.classes)


def start_sessions(tasks: Sequence[Task]) -> list[Session]:
    """A fresh session for each task."""
    return [get_environment(task.env).start(task) for task in tasks]
