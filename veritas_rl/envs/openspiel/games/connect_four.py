"""Connect four. Rules checked against OpenSpiel's `games/connect_four/connect_four.cc`."""

from functools import cached_property
from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.games.boards import marks
from veritas_rl.envs.openspiel.notation import Notation, Numbered

_NOTATION = Numbered(r"(?:drop )?(?:in |into )?(?:the )?col(?:umn|\.)?")


class ConnectFour(Game):
    """An action is a column, counted from 0 at the left, and its name is "column" with this number."""

    default_cases: ClassVar = ("connect_four",)
    small_model_steps: ClassVar = 28
    limits: ClassVar = {"rows": (1, 26), "columns": (1, 26), "x_in_row": (2, 26)}

    def rules(self) -> str:
        rows, columns, line = (self.parameters[name] for name in ("rows", "columns", "x_in_row"))
        return (
            f"You are playing connect four on an upright board of {columns} columns, numbered 0 to {columns - 1} from "
            f"left to right, and {rows} rows. x moves first; then the players alternate, each dropping one disc of "
            "their own into a column that is not full, where it falls to the lowest empty cell. Whoever first has "
            f"{line} own discs side by side in one row, column or diagonal wins. A full board without such a line is "
            "a draw. An empty cell is shown as a dot."
        )

    def role(self, player: int) -> str:
        return "xo"[player]

    def position(self, state: State, player: int) -> str:
        gap, numbers = self._grid
        lines = f"\n{gap[1:]}".join(["", *map(gap.join, self._rows(state))])
        return f"{lines[1:]}\n{numbers}"

    def brief(self, state: State, player: int) -> str:
        return self.role(player) + marks(self._rows(state), self.role(player))

    def action_name(self, state: State, player: int, action: int) -> str:
        return f"column {action}"

    def cells(self, state: State, player: int, action: int, name: str) -> tuple[str, ...]:
        """Any cell of the column."""
        return (str(action),)

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def information_key(self, state: State, player: int) -> str:
        return "\n".join(self._rows(state))  # the discs on the board show whose turn it is

    def state_key(self, state: State) -> str:
        return "\n".join(self._rows(state))

    def symmetry_key(self, state: State, player: int) -> str:
        rows = self._rows(state)
        return min("\n".join(rows), "\n".join(row[::-1] for row in rows))

    @property
    def brief_cells(self) -> int:
        return self.parameters["rows"] * self.parameters["columns"]

    @cached_property
    def _grid(self) -> tuple[str, str]:
        """The separator between two cells, and the column numbers below the board."""
        numbers = [str(column) for column in range(self.parameters["columns"])]
        width = len(numbers[-1])
        return " " * width, " ".join(number.rjust(width) for number in numbers)

    @staticmethod
    def _rows(state: State) -> list[str]:
        return state.observation_string(0).split()
