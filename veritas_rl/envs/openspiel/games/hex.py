"""Hex. Rules checked against OpenSpiel's `games/hex/hex.cc`: x joins top and bottom, o joins left and right."""

from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State, letters
from veritas_rl.envs.openspiel.games.boards import marks
from veritas_rl.envs.openspiel.notation import Cells, Notation

# OpenSpiel marks stones that touch an edge or a winning chain by other letters.
_MARKS = str.maketrans({"y": "x", "z": "x", "X": "x", "p": "o", "q": "o", "O": "o"})
_NOTATION = Cells()


class Hex(Game):
    """Cells are named by column letter and row number from the top left: action columns * row + column."""

    default_cases: ClassVar = tuple(f"hex(board_size={size})" for size in (5, 7, 9, 11))
    budget: ClassVar = (1000, 50)
    limits: ClassVar = {"board_size": (2, 26), "num_rows": (2, 26), "num_cols": (2, 26)}

    def rules(self) -> str:
        rows, columns = self._shape
        return (
            f"You are playing Hex on a board of {columns} columns (a to {letters(columns)[-1]} from left to right) and "
            f"{rows} rows (1 to {rows} from top to bottom). The cells are hexagons: each row is shifted half a cell to "
            "the right of the row above it. A cell touches its left and right neighbour in its row, the cell above it "
            "in the same column and the one to the right of that, and the cell below it in the same column and the one "
            "to the left of that. x moves first; then the players alternate, each putting one stone of their own on an "
            "empty cell; stones never move or leave. x wins by joining the top row to the bottom row with a chain of "
            f"touching x stones; o wins by joining column a to column {letters(columns)[-1]} with a chain of touching "
            "o stones. There are no draws, and there is no swap. An empty cell is shown as a dot."
        )

    def role(self, player: int) -> str:
        return "xo"[player]

    def position(self, state: State, player: int) -> str:
        rows, columns = self._shape
        width = len(str(rows))
        lines = [" " * (width + 1) + " ".join(letters(columns))]
        for number, row in enumerate(self._rows(state), 1):
            lines.append(" " * (number - 1) + f"{number:>{width}} " + " ".join(row))
        return "\n".join(lines)

    def brief(self, state: State, player: int) -> str:
        return self.role(player) + marks(self._rows(state), self.role(player))

    def action_name(self, state: State, player: int, action: int) -> str:
        row, column = divmod(action, self._shape[1])
        return f"{letters(column + 1)[-1]}{row + 1}"

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def information_key(self, state: State, player: int) -> str:
        return "\n".join(self._rows(state))  # the stones on the board show whose turn it is

    def state_key(self, state: State) -> str:
        return state.observation_string(0)

    def symmetry_key(self, state: State, player: int) -> str:
        board = self.information_key(state, player)
        return min(board, board[::-1])  # a rotation by 180 degrees

    @property
    def brief_cells(self) -> int:
        rows, columns = self._shape
        return rows * columns

    @property
    def _shape(self) -> tuple[int, int]:
        return self.parameters["num_rows"], self.parameters["num_cols"]

    def _rows(self, state: State) -> list[str]:
        cells = "".join(state.observation_string(0).split()).translate(_MARKS)
        columns = self._shape[1]
        return [cells[start : start + columns] for start in range(0, len(cells), columns)]
