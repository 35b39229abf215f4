"""A player that gives the environment's own solutions: an upper bound for comparisons, and a teacher."""

from collections.abc import Sequence

from veritas_rl.envs.base import Reply, Turn
from veritas_rl.errors import UserError

SOLUTION = "solution"
"""The name of the player."""


class SolutionPlayer:
    """Gives each turn's solution."""

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        """The solution of each turn.

        Raises:
            UserError: A turn has no solution.
        """
        if not all(turn.solution for turn in turns):
            raise UserError("the player solution cannot play here, because these tasks have no solution")
        return [Reply(turn.solution) for turn in turns]
