"""Clobber. Rules checked against OpenSpiel's `games/clobber/clobber.cc`: o begins on boards of all sizes."""

from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State, letters
from veritas_rl.envs.openspiel.games.boards import drawn, least_image, marks
from veritas_rl.envs.openspiel.notation import Notation, Steps


class Clobber(Game):
    """A move is named by its two cells, such as "a5b5"."""

    default_cases: ClassVar = tuple(f"clobber(columns={size},rows={size})" for size in (5, 6, 7))
    written: ClassVar = "A move is written as its two cells, such as a5b5."
    limits: ClassVar = {"rows": (2, 26), "columns": (2, 26)}
    budget: ClassVar = (1500, 100)
    # The moves of early positions hardly differ under random play; late positions have exact values.
    walk_thirds: ClassVar = (2, 0, 2, 1, 2)
    small_model_steps: ClassVar = 30

    def rules(self) -> str:
        rows, columns = self._shape
        return (
            f"You are playing Clobber on a board of {columns} columns (a to {letters(columns)[-1]} from left to right) "
            f"and {rows} rows ({rows} at the top down to 1 at the bottom). At the start every cell holds a stone, o "
            "and x in turn like the two colours of a chessboard, with o on a1. o moves first; then the players "
            "alternate, each moving one stone of their own by one cell up, down, left or right onto an opponent's "
            "stone, which is captured and leaves the board. There are no other moves: every move captures. Whoever "
            "makes the last move wins; the player who cannot move loses. There are no draws. A move is written as the "
            "cell it starts from and the cell it goes to. An empty cell is shown as a dot."
        )

    def role(self, player: int) -> str:
        return "ox"[player]

    def position(self, state: State, player: int) -> str:
        return drawn(self._rows(state), letters(self._shape[1]), upwards=True)

    def brief(self, state: State, player: int) -> str:
        return self.role(player) + marks(self._rows(state), self.role(player))

    def notation(self, state: State, player: int) -> Notation:
        return Steps(set(self.action_names(state, player).values()))  # every move captures

    def information_key(self, state: State, player: int) -> str:
        return "\n".join(self._rows(state))  # the number of empty cells shows whose turn it is

    def state_key(self, state: State) -> str:
        return state.observation_string(0)

    def symmetry_key(self, state: State, player: int) -> str:
        return least_image("".join(self._rows(state)), *self._shape)

    @property
    def brief_cells(self) -> int:
        rows, columns = self._shape
        return rows * columns

    @property
    def _shape(self) -> tuple[int, int]:
        return self.parameters["rows"], self.parameters["columns"]

    def _rows(self, state: State) -> list[str]:
        rows, columns = self._shape
        return [line[-columns:] for line in state.observation_string(0).split("\n")[:rows]]
