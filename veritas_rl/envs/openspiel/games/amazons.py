"""Amazons. Rules checked against OpenSpiel's `games/amazons/amazons.cc`.

A turn consists of three decisions of one player: which amazon to move, where to, and where to shoot. During the second
decision the amazon is missing on OpenSpiel's board.
"""

from collections.abc import Sequence
from functools import cache
from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State, letters
from veritas_rl.envs.openspiel.notation import Cells, Notation

_PHASES = ("from", "to", "shoot")
_NOTATION = Cells(
    {
        **dict.fromkeys(("from", "move from", "move the amazon from", "the amazon on"), "from"),
        **dict.fromkeys(("to", "move to", "go to", "->"), "to"),
        **dict.fromkeys(("shoot", "shoot at", "shoot to", "arrow", "arrow at", "arrow to"), "shoot"),
    }
)


class Amazons(Game):
    """Cells are named by column letter and row number from the bottom left; a decision by its kind and a cell."""

    default_cases: ClassVar = tuple(f"amazons(board_size={size})" for size in (6, 8, 10))
    limits: ClassVar = {"board_size": (6, 10)}
    budget: ClassVar = (200, 20)
    playout_moves: ClassVar = 3
    margin_unit: ClassVar = 6.0

    def rules(self) -> str:
        size = self.parameters["board_size"]
        return (
            f"You are playing Amazons on a board of {size} columns (a to {letters(size)[-1]} from left to right) and "
            f"{size} rows ({size} at the top down to 1 at the bottom). Each player has four amazons, X or O. X moves "
            "first; then the players alternate. A turn has three parts: choose one of your amazons that can move "
            '("from" its cell), move it ("to" a cell), and then let the amazon that has moved shoot an arrow from '
            'where it now is ("shoot" a cell). Both the amazon and the arrow go like a queen in chess: any number of '
            "cells straight or diagonally, not onto or over an amazon or an arrow of either side. So the arrow may go "
            "to or over the cell that the amazon has just left. Arrows (#) stay where they are for the rest of the "
            "game; nothing is ever captured. The first player who has to start a turn and cannot move any amazon "
            "loses. There are no draws. An empty cell is shown as a dot."
        )

    def role(self, player: int) -> str:
        return "XO"[player]

    def position(self, state: State, player: int) -> str:
        rows = self._rows(state)
        size = len(rows)
        lines = [f"{size - index:>2} {' '.join(row)}" for index, row in enumerate(rows)]
        lines.append("   " + " ".join(letters(size)))
        match self._chosen(state):
            case []:
                lines.append("Choose which amazon moves.")
            case [start]:
                lines.append(f"The amazon from {self._cell(start)} moves (it is taken off the board). Choose where to.")
            case [start, goal]:
                lines.append(
                    f"The amazon moved from {self._cell(start)} to {self._cell(goal)}. Choose where it shoots."
                )
        return "\n".join(lines)

    def brief(self, state: State, player: int) -> str:
        chosen = self._chosen(state)
        return "\n".join([self.role(player), *self._rows(state), *map(self._cell, chosen[-1:])])

    def action_name(self, state: State, player: int, action: int) -> str:
        return f"{_PHASES[len(self._chosen(state))]} {self._cell(action)}"

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def margin(self, state: State, player: int) -> float:
        """Mobility: the sum over a player's amazons of the cells that each can reach in one move."""
        rays, cells = _rays(self.parameters["board_size"]), "".join(self._rows(state))
        moves = {"X": 0, "O": 0}
        for cell, piece in enumerate(cells):
            if piece in moves:
                for ray in rays[cell]:
                    for reached in ray:
                        if cells[reached] != ".":
                            break
                        moves[piece] += 1
        return moves["XO"[player]] - moves["OX"[player]]

    def information_key(self, state: State, player: int) -> str:
        return self._key(state, player, "".join(self._rows(state)), self._chosen(state)[-1:])

    def state_key(self, state: State) -> str:
        return self.information_key(state, state.current_player())

    def symmetry_key(self, state: State, player: int) -> str:
        """Mirrored positions are equivalent. The other symmetries of the square lead to unreachable positions."""
        size = self.parameters["board_size"]
        mirrored = "".join([row[::-1] for row in self._rows(state)])
        chosen = [cell // size * size + size - 1 - cell % size for cell in self._chosen(state)[-1:]]
        return min(self.information_key(state, player), self._key(state, player, mirrored, chosen))

    def _key(self, state: State, player: int, cells: str, chosen: Sequence[int]) -> str:
        return f"{'XO'[player]}{len(self._chosen(state))}{cells}{''.join(map(str, chosen))}"

    def _cell(self, action: int) -> str:
        size = self.parameters["board_size"]
        return f"{letters(size)[action % size]}{size - action // size}"

    @staticmethod
    def _chosen(state: State) -> list[int]:
        """The decisions of this turn so far: none, the amazon's start, or its start and destination."""
        history = state.history()
        return history[len(history) - len(history) % 3 :]

    @staticmethod
    def _rows(state: State) -> list[str]:
        return state.observation_string(0).split("\n")


@cache
def _rays(size: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """For each cell and each of the eight directions, the cells on a queen's path, nearest first."""
    found = []
    for cell in range(size * size):
        row, column = divmod(cell, size)
        rays = []
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                steps = range(1, size) if down or right else ()
                places = [(row + down * step, column + right * step) for step in steps]
                rays.append(tuple(r * size + c for r, c in places if 0 <= r < size and 0 <= c < size))
        found.append(tuple(filter(None, rays)))
    return tuple(found)
