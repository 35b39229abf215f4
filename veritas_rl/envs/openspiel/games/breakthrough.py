"""Breakthrough. Rules checked against OpenSpiel's `games/breakthrough/breakthrough.cc`: black begins, at the top."""

from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State, letters
from veritas_rl.envs.openspiel.games.boards import marks
from veritas_rl.envs.openspiel.notation import Notation, Steps


class Breakthrough(Game):
    """A move is named by its two cells, such as "a7b6", without the star that OpenSpiel adds to a capture."""

    default_cases: ClassVar = ("breakthrough(columns=6,rows=6)", "breakthrough(columns=8,rows=8)")
    small_model_steps: ClassVar = 20
    written: ClassVar = "A move is written as its two cells, such as a4b5, a capture too."
    limits: ClassVar = {"rows": (4, 26), "columns": (2, 26)}

    def rules(self) -> str:
        rows, columns = self.parameters["rows"], self.parameters["columns"]
        return (
            f"You are playing Breakthrough on a board of {columns} columns (a to {letters(columns)[-1]} from left to "
            f"right) and {rows} rows ({rows} at the top down to 1 at the bottom). Black (b) starts with all cells of "
            "the two top rows and moves down; white (w) starts with all cells of the two bottom rows and moves up. "
            "Black moves first; then the players alternate, each moving one piece of their own one row forward: "
            "straight or diagonally onto an empty cell, or diagonally onto an opponent's piece, which is captured. "
            "A piece never captures straight ahead, and capturing is never forced. Whoever first brings a piece to the "
            "opponent's end of the board, or captures all the opponent's pieces, wins. There are no draws. A move is "
            "written as the cell it starts from and the cell it goes to. An empty cell is shown as a dot."
        )

    def role(self, player: int) -> str:
        return ("black (b)", "white (w)")[player]

    def position(self, state: State, player: int) -> str:
        rows = self._rows(state)
        width = len(str(len(rows)))
        lines = [f"{len(rows) - index:>{width}} {' '.join(row)}" for index, row in enumerate(rows)]
        return "\n".join([*lines, " " * (width + 1) + " ".join(letters(len(rows[0])))])

    def brief(self, state: State, player: int) -> str:
        return "bw"[player] + marks(self._rows(state), "bw"[player])

    def action_name(self, state: State, player: int, action: int) -> str:
        return super().action_name(state, player, action).rstrip("*")

    def notation(self, state: State, player: int) -> Notation:
        names = [super(Breakthrough, self).action_name(state, player, action) for action in state.legal_actions(player)]
        return Steps({name.rstrip("*") for name in names if name.endswith("*")})

    def information_key(self, state: State, player: int) -> str:
        return "\n".join(["bw"[player], *self._rows(state)])

    def state_key(self, state: State) -> str:
        return f"{state.current_player()}{state.observation_string(0)}"

    def symmetry_key(self, state: State, player: int) -> str:
        rows, mover = self._rows(state), "bw"[player]
        return min("\n".join([mover, *rows]), "\n".join([mover, *(row[::-1] for row in rows)]))

    @property
    def brief_cells(self) -> int:
        return self.parameters["rows"] * self.parameters["columns"]

    def _rows(self, state: State) -> list[str]:
        lines = state.observation_string(0).split("\n")[: self.parameters["rows"]]
        return [line[-self.parameters["columns"] :] for line in lines]
