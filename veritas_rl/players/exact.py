"""The perfect player, for OpenSpiel games small enough to be solved: the ceiling of every comparison."""

from collections.abc import Sequence

from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.openspiel.env import View
from veritas_rl.envs.openspiel.solver import MAX_STATES, solver_of
from veritas_rl.seeding import generator


class ExactPlayer:
    """Plays a move of the greatest minimax value; of several, one drawn by the seed and the turn's dice.

    Args:
        max_states: How many states a game may have, see `ExactSolver`.
        seed: Any seed.
    """

    def __init__(self, max_states: int = MAX_STATES, seed: int | str = 0) -> None:
        self.max_states = max_states
        self.seed = seed

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        """One reply for each turn of an OpenSpiel session.

        Raises:
            UserError: A game cannot be solved: it is too large, or hides something, or has chance.
        """
        replies = []
        for turn in turns:
            view: View = turn.view
            best = solver_of(view.case, self.max_states).optimal_actions(view.state)
            chosen = generator("exact player", self.seed, *turn.dice).choice(best)
            replies.append(Reply(turn.answers[view.actions.index(chosen)]))
        return replies
