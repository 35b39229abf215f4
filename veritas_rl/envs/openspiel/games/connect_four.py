"""Connect four. Rules checked against OpenSpiel's `games/connect_four/connect_four.cc`."""

from functools import cached_property
from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State


class ConnectFour(Game):
    """An action is a column, counted from 0 at the left; its name says so in words."""

    default_cases: ClassVar = ("connect_four",)
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
        gap = " " * len(str(self.parameters["columns"] - 1))
        return "\n".join([*[gap[1:] + gap.join(row) for row in self._rows(state)], self._numbers])

    def brief(self, state: State, player: int) -> str:
        return "\n".join([self.role(player), *self._rows(state)])

    def action_name(self, state: State, player: int, action: int) -> str:
        return f"column {action}"

    def information_key(self, state: State, player: int) -> str:
        return "\n".join(self._rows(state))  # the discs on the board tell whose turn it is

    def state_key(self, state: State) -> str:
        return "\n".join(self._rows(state))

    def symmetry_key(self, state: State, player: int) -> str:
        rows = self._rows(state)
        return min("\n".join(rows), "\n".join(row[::-1] for row in rows))

    @cached_property
    def _numbers(self) -> str:
        """The columns' numbers, below the board."""
        columns = self.parameters["columns"]
        return " ".join(str(column).rjust(len(str(columns - 1))) for column in range(columns))

    @staticmethod
    def _rows(state: State) -> list[str]:
        return state.observation_string(0).split()
