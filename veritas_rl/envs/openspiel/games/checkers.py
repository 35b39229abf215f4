"""Checkers. Rules checked against OpenSpiel's `games/checkers/checkers.cc`: each jump is a separate move.

Oddities of OpenSpiel: 40 moves without a capture are a draw, even if the last one leaves the opponent without a move.
On a board with more columns than rows OpenSpiel looks up a second jump wrongly, which ends the game with an error, so
such boards are refused.
"""

import re
from typing import Any, ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State, letters
from veritas_rl.envs.openspiel.games.boards import drawn
from veritas_rl.envs.openspiel.notation import Notation, Steps
from veritas_rl.errors import UserError

_DRAW = 40
_MARKS = str.maketrans({"8": "O", "+": "x", "*": "X"})
_NOTATION = Steps()


class Checkers(Game):
    """A move is named by the cell it starts from and the cell it lands on, such as "a3b4"."""

    default_cases: ClassVar = ("checkers",)
    screening_moves: ClassVar = 700
    written: ClassVar = "A move is written as its two cells, such as a3b4; a jump too, such as a3c5."
    limits: ClassVar = {"rows": (7, 26), "columns": (2, 26), "egocentric": (False, True)}
    budget: ClassVar = (500, 50)
    solver_nodes: ClassVar = 1500
    playout_moves: ClassVar = 8
    margin_unit: ClassVar = 1.0

    def __init__(self, case: str, spiel: Any) -> None:
        super().__init__(case, spiel)
        rows, columns = self._shape
        if columns > rows:
            raise UserError(
                f"{case}: OpenSpiel cannot play checkers with more columns than rows, {columns} and {rows} were given"
            )

    def rules(self) -> str:
        rows, columns = self._shape
        return (
            f"You are playing checkers on a board of {columns} columns (a to {letters(columns)[-1]} from left to "
            f"right) and {rows} rows ({rows} at the top down to 1 at the bottom). o starts with men on every second "
            "cell of the three bottom rows and moves up; x starts with men on every second cell of the three top rows "
            "and moves down. Men are shown as o and x, kings as O and X, an empty cell as a dot. o moves first; then "
            "the players alternate. A man moves one cell diagonally forward onto an empty cell, a king one cell "
            "diagonally in any of the four directions. A piece captures by jumping: if an opponent's piece is on the "
            "next cell diagonally, forward for a man, in any of the four directions for a king, and the cell right "
            "behind it on the same line is empty, the piece moves there and the piece it jumped over leaves the board. "
            "Who can capture must capture, with any piece that can. Each jump is a move of its own: if the piece that "
            "jumped can jump again, the same player moves again and must jump with that piece. A man that reaches the "
            "last row in its direction becomes a king; if it came there by a jump, the turn ends. A player whose turn "
            f"it is and who has no move, with or without pieces, loses. After {_DRAW} moves in a row, both players "
            "together, without a capture the game is a draw. A move is written as the cell it starts from and the cell "
            "it goes to."
        )

    def role(self, player: int) -> str:
        return ("o (men o, kings O)", "x (men x, kings X)")[player]

    def position(self, state: State, player: int) -> str:
        lines = [
            drawn(self._rows(state), letters(self._shape[1]), upwards=True),
            f"Moves since the last capture: {self._clock(state)} ({_DRAW} are a draw)",
        ]
        if jumper := self._jumper(state):
            lines.append(f"You have just captured with the piece on {jumper} and must jump on with it.")
        return "\n".join(lines)

    def brief(self, state: State, player: int) -> str:
        head = " ".join(filter(None, ("ox"[player], str(self._clock(state)), self._jumper(state))))
        return "\n".join([head, *self._rows(state)])

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def margin(self, state: State, player: int) -> float:
        """The lead in pieces; a king counts as two men."""
        cells = "".join(self._rows(state))
        ahead = cells.count("o") - cells.count("x") + 2 * (cells.count("O") - cells.count("X"))
        return -ahead if player else ahead

    def information_key(self, state: State, player: int) -> str:
        return self.brief(state, player)

    def symmetry_key(self, state: State, player: int) -> str:
        """The board or its mirror image, whose turn it is, and the piece that must continue to jump. The moves since
        the last capture are left out, so that equal boards belong to one class."""
        columns = letters(self._shape[1])
        jumper, rows = self._jumper(state), self._rows(state)
        mirrored = jumper.translate(str.maketrans(columns, columns[::-1]))
        images = ([jumper, *rows], [mirrored, *(row[::-1] for row in rows)])
        return "\n".join(["ox"[player], *min(images)])

    @property
    def _shape(self) -> tuple[int, int]:
        return self.parameters["rows"], self.parameters["columns"]

    def _rows(self, state: State) -> list[str]:
        rows, columns = self._shape
        return [line[-columns:].translate(_MARKS) for line in state.observation_string(0).split("\n")[:rows]]

    def _clock(self, state: State) -> int:
        """The number of moves since the last capture, whose actions are the even numbers at the end of the history."""
        clock = 0
        for action in reversed(state.history()):
            if action % 2:
                break
            clock += 1
        return clock

    def _jumper(self, state: State) -> str:
        """The cell of a piece that must continue to jump; empty if there is none."""
        last = state.full_history()[-1:]
        if not last or last[0].player != state.current_player():
            return ""
        return re.findall(r"[a-z]\d+", state.action_to_string(last[0].player, last[0].action))[-1]
