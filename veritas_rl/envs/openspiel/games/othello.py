"""Othello. Rules checked against OpenSpiel's `games/othello/othello.cc`: the board is always 8 x 8, black is x."""

from typing import ClassVar

import numpy as np

from veritas_rl.envs.openspiel.games.base import Game, State, letters
from veritas_rl.envs.openspiel.games.boards import drawn, least_image, marks
from veritas_rl.envs.openspiel.notation import Cells, Notation

_SIZE = 8
_PASS = _SIZE * _SIZE
_QUARTER = np.array(((100, -25, 10, 5), (-25, -25, 1, 1), (10, 1, 5, 2), (5, 1, 2, 1)))
"""The weights of cells that Yoshioka, Ishii and Ito (1999) give a heuristic player, in hundredths, for the upper left
quarter. A sum of fractions would be rounded in an order that depends on the processor."""
_HALF = np.hstack((_QUARTER, _QUARTER[:, ::-1]))
_WORTHS = np.zeros((_SIZE, 2 * _SIZE + 4), dtype=np.int64)
"""The weight of each character of OpenSpiel's board: every second one of a line, after the row's number."""
_WORTHS[:, 2:-2:2] = np.vstack((_HALF, _HALF[::-1]))
_WORTHS = _WORTHS.ravel()
_SIGNS = np.zeros(128, dtype=np.int64)
_SIGNS[[ord("x"), ord("o")]] = 1, -1
_NOTATION = Cells(words={"i pass": "pass", "pass turn": "pass"})


class Othello(Game):
    """Cells are named by column letter and row number from the top left: action 8 * row + column. Passing is an action,
    legal only if no other action is."""

    default_cases: ClassVar = ("othello",)
    screening_moves: ClassVar = 800
    budget: ClassVar = (1000, 20)
    margin_unit: ClassVar = 0.5
    small_model_steps: ClassVar = 7
    playout_moves: ClassVar = 2

    def rules(self) -> str:
        return (
            "You are playing Othello on a board of 8 columns (a to h from left to right) and 8 rows (1 to 8 from top "
            "to bottom). It starts with o on d4 and e5 and x on e4 and d5. Black (x) moves first; then the players "
            "alternate, each putting one disc of their own on an empty cell where it flanks at least one disc of the "
            "opponent. A disc is flanked if it lies on the straight line, along a row, column or diagonal, between the "
            "new disc and the nearest other disc of the same player on that line, with nothing but opponent's discs "
            "between them. All flanked discs, in all eight directions, turn into the mover's own. Who has no such move "
            "must pass; who has one may not pass. When neither player has a move, the game ends, and whoever has more "
            "discs wins; equal numbers are a draw. An empty cell is shown as a dot."
        )

    def role(self, player: int) -> str:
        return ("black (x)", "white (o)")[player]

    def position(self, state: State, player: int) -> str:
        rows = self._rows(state)
        x, o = ("".join(rows).count(mark) for mark in "xo")
        return f"{drawn(rows, letters(_SIZE), upwards=False)}\nDiscs: x {x}, o {o}"

    def brief(self, state: State, player: int) -> str:
        return "xo"[player] + marks(self._rows(state), "xo"[player])

    def action_name(self, state: State, player: int, action: int) -> str:
        return "pass" if action == _PASS else f"{letters(_SIZE)[action % _SIZE]}{action // _SIZE + 1}"

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def margin(self, state: State, player: int) -> float:
        """The lead in discs, weighted by cell. Before the end corners matter more than the number of discs."""
        text = state.observation_string(0)
        board = np.frombuffer(text[text.index("1") :].encode(), np.uint8, len(_WORTHS))
        ahead = int(_SIGNS[board] @ _WORTHS) / 100
        return -ahead if player else ahead

    def information_key(self, state: State, player: int) -> str:
        return "\n".join(["xo"[player], *self._rows(state)])

    def state_key(self, state: State) -> str:
        return state.observation_string(0)  # the text also shows whose turn it is

    def symmetry_key(self, state: State, player: int) -> str:
        return "xo"[player] + least_image("".join(self._rows(state)), _SIZE, _SIZE)

    @property
    def brief_cells(self) -> int:
        return _SIZE * _SIZE

    @staticmethod
    def _rows(state: State) -> list[str]:
        lines = state.observation_string(0).split("\n")[2 : 2 + _SIZE]
        return [line[2 : 2 + 2 * _SIZE : 2].replace("-", ".") for line in lines]
