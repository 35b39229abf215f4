"""Exact values by memoised minimax, for games small enough to be searched to the end."""

from functools import lru_cache

from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.errors import UserError

MAX_STATES = 100_000
"""A larger game is refused, after a second or two. Tic-tac-toe has 4,520 states that are not over."""


class ExactSolver:
    """Minimax values of a two-player zero-sum game without chance or hidden information. Found values are kept.

    Args:
        game: The game.
        max_states: How many different states may be searched before the game counts as too large.

    Raises:
        UserError: The game is of another kind.
    """

    def __init__(self, game: Game, max_states: int = MAX_STATES) -> None:
        if not game.solvable:
            raise UserError(
                f"{game.case} cannot be solved by minimax: it takes two players in turn, perfect information, no chance"
            )
        self.game = game
        self.max_states = max_states
        self._values: dict[str, float] = {}

    def values(self, state: State) -> dict[int, float]:
        """The game-theoretic value of each legal action for the player to move, in units of return.

        Raises:
            UserError: More than `max_states` states would have to be searched, or games of hundreds of moves.
        """
        sign = 1.0 if state.current_player() == 0 else -1.0
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
        if known is not None:
            return known
        if len(self._values) >= self.max_states:
            raise self._too_large(f"more than {self.max_states:,} states")
        children = [self._value(state.child(action)) for action in state.legal_actions()]
        value = max(children) if state.current_player() == 0 else min(children)
        self._values[key] = value
        return value

    def _too_large(self, size: str) -> UserError:
        return UserError(f"{self.game.case} is too large to solve exactly: it has {size}; use a search such as mcts:50")


@lru_cache(maxsize=16)
def solver_of(case: str, max_states: int = MAX_STATES) -> ExactSolver:
    """The solver of a case, made once a process; it remembers what it has solved."""
    return ExactSolver(load(case), max_states)
