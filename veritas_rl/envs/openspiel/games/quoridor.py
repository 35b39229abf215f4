"""Quoridor for two. Rules checked against OpenSpiel's `games/quoridor/quoridor.cc`.

Oddities of OpenSpiel: it warns of "known issues" when the game is loaded; a pawn's move is numbered by its direction,
so that the same number means different cells at different times; a game of `4 * board_size ** 2` moves is a draw,
even if the last of them reaches the goal. Without a `wall_count` each player has `board_size ** 2 // 8` walls. In a
game for two a pawn can always move, because a path to each goal row stays open. Games for three and four players are
not described.
"""

from dataclasses import dataclass
from random import Random
from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State, letters
from veritas_rl.envs.openspiel.games.boards import neighbours
from veritas_rl.envs.openspiel.notation import Notation, Placed

_NOTATION = Placed(
    {
        **dict.fromkeys(("h", "horizontal", "horizontally"), "h"),
        **dict.fromkeys(("v", "vertical", "vertically"), "v"),
    },
    before="wall|build|build wall|build a wall|place wall|place a wall",
    alone="to|move to|go to|pawn|pawn to|move pawn to|cell",
)
_PAWN_SHARE = 0.7
"""The probability that `sensible_action` moves the pawn."""


@dataclass(frozen=True)
class _Board:
    """A position: each player's cell (column, row) from the top left, the walls in hand, and the walls on the board as
    (column, row, kind), sorted."""

    pawns: tuple[tuple[int, int], tuple[int, int]]
    hand: tuple[int, int]
    walls: tuple[tuple[int, int, str], ...]


class Quoridor(Game):
    """A pawn's move is named by the cell it goes to, a wall by the cell at its top left and its kind, h or v. Actions
    number the places of a grid of `2 * board_size - 1` columns, cells and the gaps between them, row by row; a pawn's
    move is the place that it reaches from column 2, row 2 of that grid, counted from 0."""

    default_cases: ClassVar = ("quoridor(board_size=7,wall_count=8)", "quoridor(board_size=9)")
    screening_moves: ClassVar = 400
    grade_moves: ClassVar = 70
    limits: ClassVar = {"board_size": (3, 25), "wall_count": (0, 1000)}
    budget: ClassVar = (800, 80)
    playout_moves: ClassVar = 2
    margin_unit: ClassVar = 2.0
    walk_skills: ClassVar = (0.7, 0.85, 1.0)

    def rules(self) -> str:
        size = self._size
        return (
            f"You are playing Quoridor on a board of {size} columns (a to {letters(size)[-1]} from left to right) and "
            f"{size} rows (1 to {size} from top to bottom). x starts on {self._cell(*self._starts[0])} and wins by "
            f"reaching any cell of row 1; o starts on {self._cell(*self._starts[1])} and wins by reaching any cell of "
            f"row {size}. Each player has {self.parameters['wall_count']} walls. x moves first; then the players "
            "alternate, each either moving their pawn or building one of their walls. A pawn moves one cell up, down, "
            "left or right, unless a wall is in between. If the opponent's pawn is on that cell, it jumps over it to "
            "the next cell in the same direction; where a wall or the edge of the board is behind the opponent's pawn, "
            "it goes instead to a cell beside that pawn, at a right angle, with no wall in between. A wall is two "
            "cells long and lies between two rows (h) or two columns (v): a1h lies below a1 and b1, a1v to the right "
            "of a1 and a2. A wall may not overlap or cross another wall nor leave the board, and it may not cut a pawn "
            f"off from every cell of its goal row. Walls stay for good. After {4 * size**2} moves in all the game is a "
            "draw, even if the last one reaches the goal. A pawn's move is written as the cell it goes to, a wall as "
            "in a1h and a1v. On the board a wall is drawn as --- or |, a cell without a pawn as a dot."
        )

    def role(self, player: int) -> str:
        return ("x (to row 1)", f"o (to row {self._size})")[player]

    def position(self, state: State, player: int) -> str:
        size, board = self._size, self._board(state)
        width = len(str(size))
        marks = dict(zip(board.pawns, "xo", strict=True))
        right = {(column, row + by) for column, row, kind in board.walls if kind == "v" for by in (0, 1)}
        below = {(column + by, row) for column, row, kind in board.walls if kind == "h" for by in (0, 1)}
        lines = [" " * (width + 1) + "   ".join(letters(size))]
        for row in range(size):
            cells = "".join(
                marks.get((column, row), ".") + (" | " if (column, row) in right else "   ") for column in range(size)
            )
            lines.append(f"{row + 1:>{width}} {cells}".rstrip())
            if row + 1 < size:
                gaps = "".join("--- " if (column, row) in below else "    " for column in range(size))
                lines.append((" " * width + gaps).rstrip())
        built = " ".join(self._wall(*wall) for wall in board.walls) or "none"
        return "\n".join(
            [
                *lines,
                f"Walls on the board: {built}",
                f"Walls left: x {board.hand[0]}, o {board.hand[1]}",
                f"Moves so far: {len(state.history())} of at most {4 * size**2}",
            ]
        )

    def brief(self, state: State, player: int) -> str:
        """Each player's mark, cell and walls left, the mover's first; then the walls on the board."""
        board = self._board(state)
        players = [f"{'xo'[seat]} {self._cell(*board.pawns[seat])} {board.hand[seat]}" for seat in (player, 1 - player)]
        walls = " ".join(self._wall(*wall) for wall in board.walls)
        return "\n".join([*players, *([walls] if walls else [])])

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def margin(self, state: State, player: int) -> float:
        """The lead in moves on the shortest path to the goal, without pawns as obstacles."""
        board, size = self._board(state), self._size
        blocked = set()
        for column, row, kind in board.walls:
            for by in (0, 1):
                cell = (row + by) * size + column if kind == "v" else row * size + column + by
                blocked.add((cell, cell + (1 if kind == "v" else size)))
        around = neighbours(size, size)
        distances = []
        for (column, row), goal in zip(board.pawns, (0, size - 1), strict=True):
            far = {row * size + column: 0}
            for cell in (line := list(far)):  # the list grows during the loop
                if cell // size == goal:
                    distances.append(far[cell])
                    break
                for other in around[cell]:
                    if other not in far and (min(cell, other), max(cell, other)) not in blocked:
                        far[other] = far[cell] + 1
                        line.append(other)
        return distances[1 - player] - distances[player]

    def sensible_action(self, state: State, random: Random) -> int:
        """Usually the pawn move that shortens the player's path most, otherwise the best of a few walls."""
        actions, player = state.legal_actions(), state.current_player()
        pawn = [action for action in actions if not self._is_wall(action)]
        walls = [action for action in actions if self._is_wall(action)]
        some = (
            pawn if not walls or (pawn and random.random() < _PAWN_SHARE) else random.sample(walls, min(3, len(walls)))
        )
        return max(some, key=lambda action: (self.margin(state.child(action), player), random.random()))

    def _is_wall(self, action: int) -> bool:
        row, column = divmod(action, 2 * self._size - 1)
        return bool(row % 2 or column % 2)

    def information_key(self, state: State, player: int) -> str:
        return f"{self.brief(state, player)}\n{len(state.history())}"

    def state_key(self, state: State) -> str:
        return self.information_key(state, state.current_player())

    def symmetry_key(self, state: State, player: int) -> str:
        """The board or its mirror image. The number of moves is left out, so that equal boards belong to one class."""
        board, end = self._board(state), self._size - 1
        mirrored = _Board(
            ((end - board.pawns[0][0], board.pawns[0][1]), (end - board.pawns[1][0], board.pawns[1][1])),
            board.hand,
            tuple(sorted((end - 1 - column, row, kind) for column, row, kind in board.walls)),
        )
        return "xo"[player] + min(str(board), str(mirrored))

    @property
    def _size(self) -> int:
        return self.parameters["board_size"]

    @property
    def _starts(self) -> tuple[tuple[int, int], tuple[int, int]]:
        middle = self._size // 2
        return (middle, self._size - 1), (middle, 0)

    @staticmethod
    def _cell(column: int, row: int) -> str:
        return f"{letters(column + 1)[-1]}{row + 1}"

    def _wall(self, column: int, row: int, kind: str) -> str:
        return f"{self._cell(column, row)}{kind}"

    def _board(self, state: State) -> _Board:
        hand, walls = [self.parameters["wall_count"]] * 2, []
        for number, action in enumerate(state.history()):
            row, column = divmod(action, 2 * self._size - 1)
            if self._is_wall(action):  # a pawn's move states only its direction
                walls.append((column // 2, row // 2, "h" if row % 2 else "v"))
                hand[number % 2] -= 1
        # OpenSpiel prints two signs for the row's number, then three for each cell and one for each gap.
        rows = [line[3 : 3 + 4 * self._size : 4] for line in state.observation_string(0).split("\n")[2::2]]
        x, o = (next((row.index(mark), number) for number, row in enumerate(rows) if mark in row) for mark in "0@")
        return _Board((x, o), (hand[0], hand[1]), tuple(sorted(walls)))
