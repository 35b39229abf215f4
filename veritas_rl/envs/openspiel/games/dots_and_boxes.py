"""Dots and Boxes. Rules checked against OpenSpiel's `games/dots_and_boxes/dots_and_boxes.cc`.

The size counts boxes: 3 x 3 boxes have 4 x 4 dots. The owners of lines and boxes affect only the score, so the
board shows only lines.
"""

from functools import cached_property
from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State, letters
from veritas_rl.envs.openspiel.games.boards import symmetries
from veritas_rl.envs.openspiel.notation import Joined, Notation

_NOTATION = Joined()


class DotsAndBoxes(Game):
    """A line is named by the two dots that it joins, such as "a1-b1". Actions number the horizontal lines row by row,
    then the vertical ones."""

    default_cases: ClassVar = tuple(f"dots_and_boxes(num_cols={size},num_rows={size})" for size in (3, 4, 5))
    written: ClassVar = "A move is written as its two dots, such as a1-b1."
    limits: ClassVar = {"num_rows": (1, 25), "num_cols": (1, 25), "utility_margin": (False, True)}
    budget: ClassVar = (1200, 100)
    margin_unit: ClassVar = 0.5
    playout_moves: ClassVar = 2
    result_share: ClassVar = 0.5

    def rules(self) -> str:
        rows, columns = self._shape
        margin = " The result is the difference." if self.parameters["utility_margin"] else ""
        return (
            f"You are playing Dots and Boxes on {columns + 1} columns of dots (a to {letters(columns + 1)[-1]} from "
            f"left to right) and {rows + 1} rows of dots (1 to {rows + 1} from top to bottom). Players A and B in turn "
            "join two dots that are next to each other in a row or column by a line that is not there yet. A moves "
            f"first. Four lines around one of the {rows * columns} smallest squares make a box. It belongs to the "
            "player who drew its last line, whoever drew the others; one line may complete two boxes. Who completes a "
            "box moves again; otherwise it is the other player's turn. When all lines are drawn, whoever has more "
            f"boxes wins; equal numbers are a draw.{margin} A move is written as the two dots that it joins. A dot is "
            "shown as +."
        )

    def role(self, player: int) -> str:
        return f"player {'AB'[player]}"

    def position(self, state: State, player: int) -> str:
        rows, columns = self._shape
        width = len(str(rows + 1))
        horizontal, vertical = self._lines(state)
        lines = [" " * (width + 1) + "   ".join(letters(columns + 1))]
        for row, drawn in enumerate(horizontal):
            lines.append(f"{row + 1:>{width}} +" + "+".join("---" if line == "1" else "   " for line in drawn) + "+")
            if row < rows:
                between = "   ".join("|" if line == "1" else " " for line in vertical[row])
                lines.append((" " * (width + 1) + between).rstrip())
        own, other = self._boxes(state, player)
        counts = (own, other) if player == 0 else (other, own)
        return "\n".join([*lines, f"Boxes: A {counts[0]}, B {counts[1]}"])

    def brief(self, state: State, player: int) -> str:
        """The mover, the mover's boxes, the opponent's boxes, then the drawn lines."""
        own, other = self._boxes(state, player)
        drawn = [f" +{action}" for action, line in enumerate(state.dbn_string()) if line == "1"]
        return f"{'AB'[player]}{own}:{other}{''.join(drawn)}"

    def action_name(self, state: State, player: int, action: int) -> str:
        return "-".join(f"{letters(column + 1)[-1]}{row + 1}" for row, column in self._dots[action])

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def margin(self, state: State, player: int) -> float:
        """The lead in boxes."""
        own, other = self._boxes(state, player)
        return own - other

    def information_key(self, state: State, player: int) -> str:
        own, other = self._boxes(state, player)
        return f"{'AB'[player]} {own} {other} {state.dbn_string()}"

    def state_key(self, state: State) -> str:
        return self.information_key(state, state.current_player())

    def symmetry_key(self, state: State, player: int) -> str:
        """The lines, rotated and reflected, and the mover's boxes. Which player is the mover has no effect."""
        drawn = state.dbn_string()
        image = min("".join([drawn[line] for line in symmetry]) for symmetry in self._symmetries)
        return f"{self._boxes(state, player)} {image}"

    @property
    def brief_cells(self) -> int:
        return len(self._dots)

    @property
    def _shape(self) -> tuple[int, int]:
        return self.parameters["num_rows"], self.parameters["num_cols"]

    @cached_property
    def _dots(self) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
        """Row and column of both dots of every line, by action."""
        rows, columns = self._shape
        across = [((row, column), (row, column + 1)) for row in range(rows + 1) for column in range(columns)]
        down = [((row, column), (row + 1, column)) for row in range(rows) for column in range(columns + 1)]
        return (*across, *down)

    @cached_property
    def _symmetries(self) -> tuple[tuple[int, ...], ...]:
        """The symmetries of the board, each as the list of lines that are mapped to lines 0, 1, and so on."""
        rows, columns = self._shape
        joined = [frozenset(row * (columns + 1) + column for row, column in dots) for dots in self._dots]
        action = {dots: number for number, dots in enumerate(joined)}
        images = symmetries(rows + 1, columns + 1)
        return tuple(tuple(action[frozenset(image[dot] for dot in dots)] for dots in joined) for image in images)

    def _lines(self, state: State) -> tuple[list[str], list[str]]:
        """The rows of horizontal and of vertical lines, "1" for each that is drawn."""
        rows, columns = self._shape
        drawn = state.dbn_string()
        down = (rows + 1) * columns
        horizontal = [drawn[start : start + columns] for start in range(0, down, columns)]
        return horizontal, [drawn[start : start + columns + 1] for start in range(down, len(drawn), columns + 1)]

    def _boxes(self, state: State, player: int) -> tuple[int, int]:
        """The number of a player's and of the opponent's boxes. In OpenSpiel's text a box is its owner's number, 1 or
        2, and there are no other digits."""
        shown = state.observation_string(0)
        return shown.count("12"[player]), shown.count("21"[player])
