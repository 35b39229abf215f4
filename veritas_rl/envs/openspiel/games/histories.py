"""Values that depend on all earlier positions of a game, such as the positions since the last capture."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from veritas_rl.envs.openspiel.games.base import State

KEPT = 4096
"""The number of histories whose values are kept."""

T = TypeVar("T")


class Followed(Generic[T]):
    """A value that follows the states of a game from its start.

    A search asks about the children of a position that it has just asked about, so the values of `KEPT` recent
    histories are kept, and not every game is played again.

    Args:
        spiel: The loaded game.
        first: The value before the initial state.
        follow: Takes the value of the state before, or `first`, and a state; returns the value of that state. It must
            not keep the state.
    """

    def __init__(self, spiel: Any, first: T, follow: Callable[[T, State], T]) -> None:
        self._spiel, self._first, self._follow = spiel, first, follow
        self._kept: dict[tuple[int, ...], T] = {}

    def of(self, state: State) -> T:
        """The value of a state."""
        history = tuple(state.history())
        found = self._kept.get(history)
        if found is None:
            found = self._follow(self._before(history), state)
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[history] = found
        return found

    def _before(self, history: tuple[int, ...]) -> T:
        """The value of the state before the last move of a history."""
        if not history:
            return self._first
        known = self._kept.get(history[:-1])
        if known is not None:
            return known
        state = self._spiel.new_initial_state()
        value = self._follow(self._first, state)
        for action in history[:-1]:
            state.apply_action(action)
            value = self._follow(value, state)
        return value
