"""The perfect player, for OpenSpiel games small enough to be solved: the ceiling of every comparison."""

from collections.abc import Sequence

from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.env import View
from veritas_rl.envs.openspiel.solver import MAX_STATES, ExactSolver


class ExactPlayer:
    """Plays a move of the greatest minimax value; of several, the one with the lowest number.

    Args:
        max_states: How many states a game may have, see `ExactSolver`.
    """

    def __init__(self, max_states: int = MAX_STATES) -> None:
        self.max_states = max_states
        self._solvers: dict[str, ExactSolver] = {}

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        """One reply for each turn of an OpenSpiel session.

        Raises:
            UserError: A game cannot be solved: it is too large, or hides something, or has chance.
        """
        replies = []
        for turn in turns:
            view: View = turn.view
            if view.case not in self._solvers:
                self._solvers[view.case] = ExactSolver(load(view.case), self.max_states)
            best = self._solvers[view.case].optimal_actions(view.state)[0]
            replies.append(Reply(turn.answers[view.actions.index(best)]))
        return replies
