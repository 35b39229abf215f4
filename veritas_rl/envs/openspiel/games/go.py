"""Go. Rules checked against OpenSpiel's `games/go/go.cc`: area scoring, no suicide, and a repeated position is a draw.

Oddities of OpenSpiel: a simple ko is forbidden, but any other repetition of an earlier position is allowed and ends the
game as a draw; every game ends after `max_game_length` moves, by default twice the number of points; handicap stones
have places only on the 19 x 19 board, so games with them are not described here.
"""

from bisect import bisect_left
from functools import cached_property
from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.games.boards import drawn, least_image, neighbours
from veritas_rl.envs.openspiel.games.histories import Followed
from veritas_rl.envs.openspiel.notation import Cells, Notation
from veritas_rl.seeding import digest

_LETTERS = "abcdefghjklmnopqrst"  # Go boards have no column i
_MARKS = str.maketrans({"X": "x", "O": "o", "+": "."})
_NOTATION = Cells(words={"i pass": "pass", "pass turn": "pass"})


class Go(Game):
    """Points are named by column letter and row number from the bottom left: action board_size * (row - 1) + column.
    The last action is to pass."""

    default_cases: ClassVar = tuple(f"go(board_size={size})" for size in (9, 13))
    screening_moves: ClassVar = 500
    grade_moves: ClassVar = 20
    limits: ClassVar = {"board_size": (2, 19), "komi": (-400, 400), "max_game_length": (1, 100_000)}
    budget: ClassVar = (300, 30)
    solver_nodes: ClassVar = 1000
    playout_moves: ClassVar = 2
    margin_unit: ClassVar = 2.0
    result_share: ClassVar = 0.5

    def rules(self) -> str:
        size, komi = self._size, self.parameters["komi"]
        return (
            f"You are playing Go on a board of {size} columns (a to {_LETTERS[size - 1]} from left to "
            f"right{'; there is no i' if size > 8 else ''}) and {size} rows ({size} at the top down to 1 at the "
            "bottom). Black (x) moves first; then the players alternate, each putting one stone of their own on an "
            "empty point or passing. Stones of one colour that touch along a row or column form a group. A group's "
            "liberties are the empty points that touch it. After a move, opponent's groups without a liberty are "
            "captured: they leave the board. A move after which the own group would have no liberty, captures counted, "
            "is forbidden. Ko: where a stone put among enemy stones and edges alone captures exactly one stone, the "
            "opponent may not play on the captured stone's point in the very next move. A move other than a pass that "
            "brings back any earlier position of the whole board ends the game at once as a draw. The game ends after "
            f"two passes in a row, or after {self.parameters['max_game_length']} moves in all, passes counted. Then "
            "each player's area counts: the own stones left on the board, none being taken for dead, and the empty "
            f"points from which only own stones can be reached along empty points. White's komi is {komi:g} points, "
            "which are added to White's area. The greater sum wins; equal sums are a draw. An empty point is shown as "
            "a dot."
        )

    def role(self, player: int) -> str:
        return ("black (x)", "white (o)")[player]

    def position(self, state: State, player: int) -> str:
        history = state.history()
        names = [self._point(action) for action in self._closed(state)]
        lines = [
            drawn(self._rows(state), _LETTERS[: self._size], upwards=True),
            f"Moves so far: {len(history)} of at most {self.parameters['max_game_length']}",
        ]
        if self._passed(state):
            lines.append("The last move was a pass: if you pass too, the game ends and the areas are counted.")
        if names:
            lines.append(f"Empty points where you may not play now: {', '.join(names)}")
        if repeats := self._repeats(state, player):
            named = ", ".join(self._point(action) for action in repeats)
            lines.append(f"Moves that repeat an earlier position, so that the game ends as a draw: {named}")
        return "\n".join(lines)

    def brief(self, state: State, player: int) -> str:
        head = "xo"[player] + (" pass" if self._passed(state) else "")
        repeats = " ".join(map(str, self._repeats(state, player)))
        return "\n".join([head, *self._rows(state), *([f"draw {repeats}"] if repeats else [])])

    def action_name(self, state: State, player: int, action: int) -> str:
        return "pass" if action == self._size**2 else self._point(action)

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def margin(self, state: State, player: int) -> float:
        """Area with the komi, as if both players passed now."""
        cells = self._cells(state)
        around, seen = neighbours(self._size, self._size), [cell != "." for cell in cells]
        black = cells.count("x") - cells.count("o") - self.parameters["komi"]
        for point, done in enumerate(seen):
            if done:
                continue
            region, borders = [point], set()
            seen[point] = True
            for empty in region:  # the list grows during the loop
                for other in around[empty]:
                    if cells[other] != ".":
                        borders.add(cells[other])
                    elif not seen[other]:
                        seen[other] = True
                        region.append(other)
            if len(borders) == 1:
                black += len(region) if borders == {"x"} else -len(region)
        return -black if player else black

    def information_key(self, state: State, player: int) -> str:
        """The board with the points closed to the mover, the number of moves, and the set of earlier positions, because
        repeating one ends the game."""
        earlier, _ = self._boards.of(state)
        head = f"{'xo'[player]} {len(state.history())} {self._passed(state):d} {digest(*earlier)}"
        return "\n".join([head, self._marked(state)])

    def state_key(self, state: State) -> str:
        return self.information_key(state, state.current_player())

    def symmetry_key(self, state: State, player: int) -> str:
        """The board and the points closed to the mover. The history is left out, so that equal boards belong to one
        class."""
        return "xo"[player] + least_image(self._marked(state), self._size, self._size)

    @cached_property
    def _boards(self) -> Followed[tuple[tuple[str, ...], str]]:
        """The different boards before a state, sorted, and its own board."""
        return Followed(self.spiel, ((), ""), _with_board)

    @property
    def _size(self) -> int:
        return self.parameters["board_size"]

    def _point(self, action: int) -> str:
        return f"{_LETTERS[action % self._size]}{action // self._size + 1}"

    def _rows(self, state: State) -> list[str]:
        lines = state.observation_string(0).split("\n")[2 : 2 + self._size]
        return [line[-self._size :].translate(_MARKS) for line in lines]

    def _cells(self, state: State) -> str:
        """One sign for each point, in the order of actions."""
        return "".join(reversed(self._rows(state)))

    def _closed(self, state: State) -> list[int]:
        """The empty points where the mover may not play, because of suicide or a ko."""
        legal = set(state.legal_actions())
        return [action for action, cell in enumerate(self._cells(state)) if cell == "." and action not in legal]

    def _marked(self, state: State) -> str:
        cells = [*self._cells(state)]
        for action in self._closed(state):
            cells[action] = "#"
        return "".join(cells)

    def _passed(self, state: State) -> bool:
        return state.history()[-1:] == [self._size**2]

    def _repeats(self, state: State, player: int) -> list[int]:
        """The legal moves that repeat an earlier position. They are on points where the mover had a stone that was
        captured since."""
        played = {step.action for step in state.full_history() if step.player == player} - {self._size**2}
        found = []
        for action in sorted(played.intersection(state.legal_actions())):
            child = state.child(action)
            if child.is_terminal() and child.returns() == [0, 0]:
                found.append(action)
        return found


def _with_board(seen: tuple[tuple[str, ...], str], state: State) -> tuple[tuple[str, ...], str]:
    """`Go._boards` of a state."""
    earlier, last = seen
    if last:
        place = bisect_left(earlier, last)
        if earlier[place : place + 1] != (last,):
            earlier = (*earlier[:place], last, *earlier[place:])
    return earlier, state.observation_string(0).partition("\n")[2]  # the first line counts the moves
