"""What bots and solvers see of an OpenSpiel turn."""

from dataclasses import dataclass
from typing import Any

from veritas_rl.envs.openspiel import playing
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import State


@dataclass(frozen=True)
class View:
    """A turn for bots and solvers.

    Attributes:
        state: A copy of the `pyspiel.State`, to do with as one likes. It holds what the seat may not know.
        actions: The legal actions' numbers, in the order of the turn's answers.
        case: The canonical case.
    """

    state: State
    actions: tuple[int, ...]
    case: str

    def __reduce__(self) -> tuple[Any, ...]:
        # By its history: OpenSpiel writes some states down in a way that it cannot read.
        return _view_of, (self.case, tuple(self.state.history()), self.actions)


def _view_of(case: str, history: tuple[int, ...], actions: tuple[int, ...]) -> View:
    return View(playing.replay(load(case), history), actions, case)
