"""The player that gives the environment's own solutions: the ceiling of every comparison, and a teacher."""

from collections.abc import Sequence

from veritas_rl.envs.base import Reply, Turn


class SolutionPlayer:
    """Gives the solution that a turn has at hand."""

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        """The solution of each turn.

        Raises:
            ValueError: A turn has none.
        """
        if not all(turn.solution for turn in turns):
            raise ValueError("the player solution needs turns that have a solution at hand")
        return [Reply(turn.solution) for turn in turns]
