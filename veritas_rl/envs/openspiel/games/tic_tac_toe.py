"""Tic-tac-toe. Rules checked against OpenSpiel's `games/tic_tac_toe/tic_tac_toe.cc`."""

from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.games.boards import least_image
from veritas_rl.envs.openspiel.notation import Cells, Notation


def draw(cells: str) -> str:
    """The board with its coordinates, from its three rows of cells, one per line."""
    rows = cells.split("\n")
    return "\n".join(["  a b c", *[f"{number} {' '.join(row)}" for number, row in enumerate(rows, 1)]])


_NAMES = tuple(f"{column}{row}" for row in "123" for column in "abc")


def cell_name(action: int) -> str:
    """The column letter and row number of a cell."""
    return _NAMES[action]


_NOTATION = Cells()


class TicTacToe(Game):
    """Cells are named by column letter and row number from the top left: action 3 * row + column."""

    default_cases: ClassVar = ("tic_tac_toe",)
    small_model_steps: ClassVar = 48
    brief_shows_actions: ClassVar = True

    def rules(self) -> str:
        return (
            "You are playing tic-tac-toe on a board of 3 columns (a, b, c from left to right) and 3 rows (1, 2, 3 from "
            "top to bottom). x moves first; then the players alternate, each putting one mark of their own on an empty "
            "cell. Whoever first has three own marks in one row, column or diagonal wins. A full board without such a "
            "line is a draw. An empty cell is shown as a dot."
        )

    def role(self, player: int) -> str:
        return "xo"[player]

    def position(self, state: State, player: int) -> str:
        return draw(self._cells(state))

    def brief(self, state: State, player: int) -> str:
        """The board with a different sign in each cell: a to i for the player's marks, A to I for the opponent's, and
        the action's number in empty cells. A small model learns to read signs long before it learns to read grids."""
        cells = enumerate(self._cells(state).replace("\n", ""))
        mine = self.role(player)
        signs = [str(i) if cell == "." else "abcdefghi"[i] if cell == mine else "ABCDEFGHI"[i] for i, cell in cells]
        return "\n".join("".join(signs[start : start + 3]) for start in (0, 3, 6))

    def action_name(self, state: State, player: int, action: int) -> str:
        return cell_name(action)

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def information_key(self, state: State, player: int) -> str:
        return self._cells(state)  # the marks on the board show whose turn it is

    def state_key(self, state: State) -> str:
        return self._cells(state)

    def symmetry_key(self, state: State, player: int) -> str:
        return least_image(self._cells(state).replace("\n", ""), 3, 3)

    @staticmethod
    def _cells(state: State) -> str:
        return state.observation_string(0).strip()
