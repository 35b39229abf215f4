"""Phantom tic-tac-toe. Rules checked against OpenSpiel's `games/phantom_ttt/phantom_ttt.cc`.

A player sees a mark of the opponent only after trying its cell. OpenSpiel cannot resample it, so this file enumerates
the opponent's lines of play that are consistent with a player's information, and draws one by its probability under
random play.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import accumulate
from typing import ClassVar, NamedTuple

import pyspiel

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.games.boards import symmetries
from veritas_rl.envs.openspiel.games.tic_tac_toe import cell_name, draw
from veritas_rl.envs.openspiel.notation import Cells, Notation

_LINES = (0o7, 0o70, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124)
"""The winning lines, as bit masks of cells."""
_FULL = 0o777

Known = tuple[tuple[int, bool] | None, ...]
"""A player's information: for each own try the cell and whether the mark was placed; None for a try of the opponent."""
_NOTATION = Cells()


class PhantomTicTacToe(Game):
    """Cells are named as in tic-tac-toe. A player knows their own tries with the results, in order. With the
    observation type "reveal-numturns" a player also knows how often the opponent tried in between."""

    default_cases: ClassVar = ("phantom_ttt", "phantom_ttt(obstype=reveal-numturns)")
    deal_moves: ClassVar[int] = 150
    limits: ClassVar = {"obstype": ("reveal-nothing", "reveal-numturns"), "gameversion": ("classical", "abrupt")}
    budget: ClassVar = (3000, 150)

    def rules(self) -> str:
        met = "your turn goes on: you try another cell" if self._again else "your turn is over"
        learned = (
            "how often the opponent tries, but not where and with which result" if self._counted else "nothing else"
        )
        return (
            "You are playing phantom tic-tac-toe on a board of 3 columns (a, b, c from left to right) and 3 rows (1, 2,"
            " 3 from top to bottom). x begins; then the players take turns. Nobody sees the opponent's marks. In your "
            "turn you try a cell that you do not know to be taken. If it is empty, your mark is put there and your "
            f"turn is over. If it holds a mark of the opponent, you learn that, nothing is put, and {met}. Of the "
            f"opponent's turns you learn {learned}. Whoever first has three own marks in one row, column or diagonal "
            "wins. A full board without such a line is a draw. A dot is a cell that you have not tried: it is empty or "
            "holds a mark of the opponent that you have not found."
        )

    def role(self, player: int) -> str:
        return "xo"[player]

    def position(self, state: State, player: int) -> str:
        tries = [
            "?" if step is None else f"{cell_name(step[0])} {'put' if step[1] else 'taken'}"
            for step in self._known(state, player)
        ]
        marked = " (? is a try of the opponent)" if "?" in tries else ""
        whose = "Tries" if self._counted else "Your tries"
        return f"{draw(self._view(state, player))}\n{whose} so far, in order: {', '.join(tries) or 'none'}{marked}"

    def brief(self, state: State, player: int) -> str:
        known = self._known(state, player)
        tries = "".join(["?" if step is None else cell_name(step[0]) for step in known])
        return f"{self.role(player)}\n{self._view(state, player)}\n{tries}".rstrip()

    def action_name(self, state: State, player: int, action: int) -> str:
        return cell_name(action)

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def information_key(self, state: State, player: int) -> str:
        return _key(player, self._known(state, player), range(9))

    def symmetry_key(self, state: State, player: int) -> str:
        known = self._known(state, player)
        return min(_key(player, known, image) for image in symmetries(3, 3))

    def resample(self, state: State, player: int, uniform: Callable[[], float]) -> State:
        """Draw a consistent line of play, with the opponent's failed tries and their order, by its probability if the
        opponent tries cells uniformly at random."""
        line = _Lines(self._known(state, player), self._counted, self._again, player)
        copy = self.spiel.new_initial_state()
        for action in line.draw(uniform):
            copy.apply_action(action)
        return copy

    @property
    def _counted(self) -> bool:
        return self.parameters["obstype"] == "reveal-numturns"

    @property
    def _again(self) -> bool:
        return self.parameters["gameversion"] == "classical"

    @staticmethod
    def _view(state: State, player: int) -> str:
        return "\n".join(state.observation_string(player).split("\n")[:3])

    def _known(self, state: State, player: int) -> Known:
        view = self._view(state, player).replace("\n", "")
        return tuple(
            (step.action, view[step.action] == "xo"[player]) if step.player == player else None
            for step in state.full_history()
            if self._counted or step.player == player
        )


def _key(player: int, known: Known, image: tuple[int, ...] | range) -> str:
    """The player's information, with every cell replaced by its image."""
    return str(player) + "".join(
        ["?" if step is None else f"{image[step[0]]}{'+' if step[1] else '-'}" for step in known]
    )


class _Node(NamedTuple):
    """A point in a line of play: the next entry of the player's information, the cells with the player's and the
    opponent's marks, the cells where the opponent met a mark, and whose turn it is."""

    place: int = 0
    mine: int = 0
    theirs: int = 0
    met: int = 0
    their_turn: bool = False


@lru_cache(maxsize=64)  # a search draws many lines for one decision
class _Lines:
    """The lines of play that are consistent with the information of the player to move.

    Args:
        known: The player's information.
        counted: Whether `known` contains the opponent's tries.
        again: Whether a player who met a mark tries again.
        player: The player.
    """

    def __init__(self, known: Known, counted: bool, again: bool, player: int) -> None:
        self.known = known
        self.counted = counted
        self.again = again
        self.root = _Node(their_turn=player == 1)
        self.weight = cache(self._weight)

    def draw(self, uniform: Callable[[], float]) -> list[int]:
        """The actions of one line, by the line's probability.

        Raises:
            pyspiel.SpielError: No line is consistent.
        """
        node, line = self.root, []
        while node.their_turn or node.place < len(self.known):
            steps = [step for step in self._steps(node) if self.weight(step[1])]
            if not steps:
                raise pyspiel.SpielError("phantom_ttt: no line of play fits what the player knows")
            totals = list(accumulate([self.weight(child) for _, child in steps]))
            place = bisect_right(totals, uniform() * totals[-1])
            action, node = steps[min(place, len(steps) - 1)]
            line.append(action)
        return line

    def _weight(self, node: _Node) -> float:
        """The probability that the opponent's further random tries are consistent with the player's information. The
        player's own choices are the same in every line, so they do not count."""
        if not node.their_turn and node.place == len(self.known):
            return 1.0
        fitting = sum(self.weight(child) for _, child in self._steps(node))
        return fitting / (9 - (node.theirs | node.met).bit_count()) if node.their_turn else fitting

    def _steps(self, node: _Node) -> Iterator[tuple[int, _Node]]:
        """The possible next tries, in the order of actions, and the points they lead to."""
        place, mine, theirs, met, their_turn = node
        step = self.known[place] if place < len(self.known) else None
        if not their_turn:
            if step is not None and step[1] == (not theirs >> step[0] & 1):
                if step[1]:
                    yield step[0], _Node(place + 1, mine | 1 << step[0], theirs, met, True)
                else:
                    yield step[0], _Node(place + 1, mine, theirs, met, not self.again)
            return
        if self.counted and (place == len(self.known) or step is not None):
            return
        for cell in range(9):
            bit = 1 << cell
            if bit & (theirs | met):
                continue
            if bit & mine:
                yield cell, _Node(place + self.counted, mine, theirs, met | bit, self.again)
            elif (theirs | bit | mine) != _FULL and all((theirs | bit) & line != line for line in _LINES):
                yield cell, _Node(place + self.counted, mine, theirs | bit, met, False)
