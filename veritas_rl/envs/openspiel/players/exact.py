"""The perfect player for OpenSpiel games that are small enough to solve: an upper bound for comparisons.

With perfect information it plays a move of the highest minimax value. With hidden information it samples its move from
the CFR+ equilibrium.
"""

from collections.abc import Sequence

from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.values.equilibrium import equilibrium_of
from veritas_rl.envs.openspiel.values.minimax import MAX_STATES, solver_of
from veritas_rl.envs.openspiel.view import View
from veritas_rl.seeding import generator


class ExactPlayer:
    """Plays perfectly; the seed and the turn's dice choose among equally good moves.

    Args:
        max_states: The maximum number of states of a game that is solved by minimax, see `ExactSolver`.
        seed: Any seed.
    """

    def __init__(self, max_states: int = MAX_STATES, seed: int | str = 0) -> None:
        self.max_states = max_states
        self.seed = seed

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        """One reply for each turn of an OpenSpiel session.

        Raises:
            UserError: A game cannot be solved: it is too large, or of another kind.
        """
        return [self._answer(turn) for turn in turns]

    def _answer(self, turn: Turn) -> Reply:
        view: View = turn.view
        random = generator("exact player", self.seed, *turn.dice)
        if load(view.case).hidden:
            probabilities = equilibrium_of(view.case).probabilities(view.state)
            (chosen,) = random.choices(tuple(probabilities), tuple(probabilities.values()))
        else:
            chosen = random.choice(solver_of(view.case, self.max_states).optimal_actions(view.state))
        return Reply(turn.answers[view.actions.index(chosen)])


def check_solvable(case: str) -> None:
    """Check that a game can be solved, by solving its initial state.

    Raises:
        UserError: As `ExactPlayer.act`.
    """
    game = load(case)
    if game.hidden:
        equilibrium_of(game.case)
    else:
        solver_of(game.case).values(game.spiel.new_initial_state())
