"""Exact values by memoised minimax, for games that can be searched completely and for late positions of other games."""

from functools import lru_cache

from veritas_rl.envs.openspiel import enumeration
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.errors import UserError

MAX_STATES = 100_000
"""The maximum number of states of a solved game, about two seconds. Tic-tac-toe has 4,520 non-terminal states."""


class ExactSolver:
    """Minimax values of a two-player zero-sum game without chance or hidden information. Values are cached.

    A move with the greatest possible return ends the search of a state, because no other move can be better.

    Args:
        game: The game.
        max_states: The maximum number of states visited to value one position, counting repetitions, and of cached
            values. A larger position counts as too large.

    Raises:
        UserError: The game is of another kind.
    """

    def __init__(self, game: Game, max_states: int = MAX_STATES) -> None:
        if not game.solvable:
            raise UserError(
                f"{game.case} cannot be solved by minimax: it needs two players in turn, perfect information, no chance"
            )
        self.game = game
        self.max_states = max_states
        self._ends = (game.spiel.max_utility(), game.spiel.min_utility())
        self._values: dict[str, float] = {}
        self._left = max_states

    def values(self, state: State) -> dict[int, float]:
        """The game-theoretic value of each legal action for the player to move, in units of return.

        Raises:
            UserError: The search would visit more than `max_states` states, or games of hundreds of moves.
        """
        sign = 1.0 if state.current_player() == 0 else -1.0
        self._left = self.max_states
        try:
            return {action: sign * self._value(state.child(action)) for action in state.legal_actions()}
        except RecursionError:
            raise self._too_large(f"games of up to {self.game.spiel.max_game_length():,} moves") from None

    def optimal_actions(self, state: State) -> list[int]:
        """The legal actions of the greatest value, ascending."""
        values = self.values(state)
        best = max(values.values())
        return [action for action, value in values.items() if value == best]

    def _value(self, state: State) -> float:
        """The value of a state for player 0."""
        if state.is_terminal():
            return state.player_return(0)
        key = self.game.state_key(state)
        known = self._values.get(key)
        if known is None:
            known = self._values[key] = self._searched(state)
        return known

    def _searched(self, state: State) -> float:
        """The value of a state that is not cached."""
        mover = state.current_player()
        best, better = self._ends[mover], max if mover == 0 else min
        children = [state.child(action) for action in state.legal_actions()]
        self._left -= len(children)
        if self._left < 0 or len(self._values) >= self.max_states:
            raise self._too_large(f"more than {self.max_states:,} states")
        found = None
        # Children with the fewest replies come first: terminal states need no search, and small subtrees little.
        for child in sorted(children, key=lambda child: len(child.legal_actions())):
            value = self._value(child)
            if value == best:
                return value
            found = value if found is None else better(found, value)
        assert found is not None
        return found

    def _too_large(self, size: str) -> UserError:
        return UserError(f"{self.game.case} is too large to solve exactly: it has {size}; use a search such as mcts:50")


@lru_cache(maxsize=16)
def solver_of(case: str, max_states: int = MAX_STATES) -> ExactSolver:
    """The solver of a case, cached in the process together with its values."""
    return ExactSolver(load(case), max_states)


@lru_cache(maxsize=256)
def is_exact(case: str) -> bool:
    """Whether a case is solved completely, so that every position has a minimax value."""
    return load(case).solvable and enumeration.enumerate_states(case) is not None
