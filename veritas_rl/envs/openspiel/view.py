"""The view of an OpenSpiel turn for bots and solvers."""

from dataclasses import dataclass
from typing import Any

from veritas_rl.envs.openspiel import playing
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import State


@dataclass(frozen=True)
class View:
    """A turn for bots and solvers.

    Attributes:
        state: A copy of the `pyspiel.State`, which may be changed. It includes hidden information.
        actions: The legal actions' numbers, in the order of the turn's answers.
        case: The canonical case.
    """

    state: State
    actions: tuple[int, ...]
    case: str

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle the history, because OpenSpiel cannot deserialize some of its own states.
        return _view_of, (self.case, tuple(self.state.history()), self.actions)


def _view_of(case: str, history: tuple[int, ...], actions: tuple[int, ...]) -> View:
    return View(playing.replay(load(case), history), actions, case)
