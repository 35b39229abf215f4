"""2048, for one player. Rules checked against OpenSpiel's `games/twenty_forty_eight/2048.cc`.

Only moves that change the board are legal, and the game ends with the first tile of 2048. The prompt states a bug of
OpenSpiel 2.0.2 as a rule: tiles that were merged in the last move still count as merged when the next legal moves are
computed, so a move that would only merge another tile with one of them is missing.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.notation import Notation, Words

_MOVES = ("up", "right", "down", "left")
_SIGNS = {0: ".", **{2**power: "0123456789ab"[power] for power in range(1, 12)}}
_NOTATION = Words(
    {f"{verb} {move}": move for verb in ("move", "slide", "swipe", "push") for move in ("up", "right", "down", "left")}
)


class TwentyFortyEight(Game):
    """The tiles as numbers in four rows; a move is a direction."""

    default_cases: ClassVar = ("2048",)
    playout_moves: ClassVar = 1
    margin_unit: ClassVar = 16.0
    return_unit: ClassVar = 2000.0

    def rules(self) -> str:
        return (
            "You are playing 2048, alone, on a board of 4 columns and 4 rows. A cell is empty, shown as a dot, or "
            "holds a tile with a number. A move is a direction: up, down, left or right. All tiles slide that way as "
            "far as they can, over empty cells. Two equal tiles that meet become one tile of twice the number, which "
            "scores that number; the pairs that are nearest to the side where the tiles go are joined first, and a "
            "tile that was just made is not joined again in the same move. A move must change the board; and a move "
            "is barred if all that it would do is to push tiles into equal ones that were made in your last move. "
            "After each move a new tile appears in an empty cell, each cell equally likely: a 2 with chance 0.9, a 4 "
            "with chance 0.1. The board starts with two such tiles. The game ends when a tile of 2048 is made, or when "
            "the board is full and no equal tiles are neighbours in a row or column. The result is the sum of what was "
            "scored."
        )

    def role(self, player: int) -> str:
        return "the only player"

    def position(self, state: State, player: int) -> str:
        board, legal = self._rows(state), state.legal_actions()
        rows = [" ".join([f"{tile or '.':>4}" for tile in row]) for row in board]
        barred = [name for move, name in enumerate(_MOVES) if move not in legal and _changes(board, move)]
        bars = [f"Barred now: {', '.join(barred)}"] if barred else []
        return "\n".join([*rows, *bars, f"Score so far: {self._score(state)}"])

    def brief(self, state: State, player: int) -> str:
        """A sign for each tile: its power of two, a for 1024."""
        return "\n".join(["".join([_SIGNS[tile] for tile in row]) for row in self._rows(state)])

    def action_name(self, state: State, player: int, action: int) -> str:
        return _MOVES[action]

    def measures(self, state: State, player: int) -> dict[str, float]:
        """The score, and the highest tile."""
        return {"points": float(self._score(state)), "highest_tile": float(max(map(max, self._rows(state))))}

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def information_key(self, state: State, player: int) -> str:
        legal = "".join(map(str, state.legal_actions()))  # the board does not show which moves are missing
        return f"{self.brief(state, player)} {legal} {self._score(state)}"

    def symmetry_key(self, state: State, player: int) -> str:
        """The board and the legal moves, up to rotations and reflections. The score so far does not affect
        decisions."""
        rows = tuple(self.brief(state, player).split("\n"))
        legal = state.legal_actions()
        found = []
        for quarters in range(1, 5):
            rows = tuple("".join(column) for column in zip(*rows[::-1], strict=True))
            moves = [(move + quarters) % 4 for move in legal]
            found.append(f"{''.join(rows)}{sorted(moves)}")
            found.append(f"{''.join(row[::-1] for row in rows)}{sorted(-move % 4 for move in moves)}")
        return min(found)

    @staticmethod
    def _score(state: State) -> int:
        return int(state.returns()[0])

    @staticmethod
    def _rows(state: State) -> list[list[int]]:
        return [list(map(int, row.split())) for row in state.observation_string(0).strip("\n").split("\n")]


def _changes(rows: Sequence[Sequence[int]], move: int) -> bool:
    """Whether a move changes the board, because some tile has an empty cell or an equal tile ahead."""
    lines = rows if _MOVES[move] in ("left", "right") else list(zip(*rows, strict=True))
    forwards = _MOVES[move] in ("right", "down")
    pairs = [pair[::-1] if forwards else pair for line in lines for pair in pairwise(line)]
    return any(tile and goal in (0, tile) for goal, tile in pairs)
