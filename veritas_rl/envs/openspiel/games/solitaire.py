"""Klondike solitaire, for one player. Rules checked against OpenSpiel's `games/solitaire/solitaire.cc`.

The waste is visible, and every third card of it can be played. OpenSpiel's state does not contain the face-down cards:
chance chooses a card when it is turned up. So nothing in the state is hidden from the player. OpenSpiel intends to
forbid moves back to an earlier position, but 2.0.2 never does.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.notation import Notation, Piles

_SUITS = str.maketrans("♠♥♣♦", "shcd")
_IMAGES = ("shcd", "chsd", "sdch", "cdsh", "hsdc", "hcds", "dshc", "dchs")
"""The renamings of suits that preserve which suits share a colour: the images of s, h, c and d."""
_POINTS = "A 100, 2 90, 3 80, 4 70, 5 60, 6 50, 7 40, 8 30, 9 20, T, J, Q and K 10 each"
_DEALT = 31
"""The number of chance steps, one per card turned up, before the first decision."""
_NOTATION = Piles()


class _Table(NamedTuple):
    """A position: the waste, the top card of each suit's foundation, and for each non-empty column the number of
    face-down cards and the face-up cards."""

    waste: list[str]
    foundations: dict[str, str]
    columns: list[tuple[int, list[str]]]


class Solitaire(Game):
    """Cards are named by rank and suit, such as "Th"; a move by its card and where the card goes."""

    default_cases: ClassVar = ("solitaire",)
    playout_moves: ClassVar = 1
    margin_unit: ClassVar = 10.0
    return_unit: ClassVar = 700.0
    written: ClassVar = (
        "A move is written as in 2d onto 3s, As to foundation, or Kd to an empty column; the last one is end."
    )
    limits: ClassVar = {"depth_limit": (_DEALT + 1, 1000)}

    def rules(self) -> str:
        return (
            "You are playing Klondike solitaire, alone, with 52 cards: ranks A 2 3 4 5 6 7 8 9 T J Q K from low to "
            "high, suits s and c (black), h and d (red). 28 cards are dealt into seven columns of 1 to 7 cards, of "
            "which only the last one lies face up; the other 24 lie face up in the waste. Four foundations, one for "
            "each suit, are built up from A to K. You may move: (1) the last card of a column, or a playable card "
            "of the waste, to the foundation of its suit, if that holds all lower ranks of the suit (an A starts "
            "it); (2) a face-up card of a column together with all cards that follow it, a playable card of the "
            "waste, or the top card of a foundation, onto the last card of another column, if that is one rank "
            "higher and of the other colour; (3) a K of the waste, or a K of a column that has cards before it "
            "together with all cards that follow it, to an empty column. Playable are the 1st, 4th, 7th, ... card "
            "of the waste, counted anew after each move; they are marked *. If a move leaves a card that lies face "
            "down as the last of its column, that card is turned up; what it is, is decided by chance then. Points: "
            f"a card that goes to its foundation scores by its rank ({_POINTS}), and loses as much if it leaves it; "
            "a card moved out of the waste scores 20; a card turned up in a column scores 20. Each move is a step, "
            "and each card turned up is one more; the game ends when no step is left, or with the move end, which "
            "is there only when no other move is possible. The result is the sum of the points."
        )

    def role(self, player: int) -> str:
        return "the only player"

    def position(self, state: State, player: int) -> str:
        table = self._table(state)
        waste = [f"{card}*" if place % 3 == 0 else card for place, card in enumerate(table.waste)]
        tops = [f"{suit}: {top or 'empty'}" for suit, top in table.foundations.items()]
        lines = [f"Waste: {' '.join(waste) or 'empty'}", f"Foundations (top card): {', '.join(tops)}"]
        lines.append("Columns ([n]: n cards face down, then the face-up cards, the last one at the end):")
        lines += self._columns(table)
        lines.append(f"Empty columns: {7 - len(table.columns)}")
        return "\n".join([*lines, f"Points so far: {self._points(state)}", f"Steps left: {self._left(state)}"])

    def brief(self, state: State, player: int) -> str:
        table = self._table(state)
        tops = [f"{suit}{top[:-1]}" for suit, top in table.foundations.items()]
        lines = [" ".join(table.waste), " ".join(tops), *self._columns(table), str(self._left(state))]
        return "\n".join(lines)

    def action_name(self, state: State, player: int, action: int) -> str:
        if action == 0:
            return "end"
        target, source = state.action_to_string(player, action).translate(_SUITS).split(" ← ")
        if target[-1] == source[-1]:
            return f"{source} to foundation"
        return f"{source} onto {target}" if target[0] in "23456789TJQK" else f"{source} to an empty column"

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def information_key(self, state: State, player: int) -> str:
        return f"{self.brief(state, player)} {self._points(state)}"

    def symmetry_key(self, state: State, player: int) -> str:
        """The position and the remaining steps, up to names of suits. The points so far do not affect decisions."""
        table = self._table(state)
        cards = "\n".join([" ".join(table.waste), *self._columns(table)])
        tops = {suit: top[:-1] for suit, top in table.foundations.items()}
        found = []
        for image in _IMAGES:
            names = dict(zip("shcd", image, strict=True))
            heights = {names[suit]: top for suit, top in tops.items()}
            found.append(f"{[heights[suit] for suit in 'shcd']}{cards.translate(str.maketrans(names))}")
        return f"{self._left(state)} {min(found)}"

    def resample(self, state: State, player: int, uniform: Callable[[], float]) -> State:
        """The state itself, because face-down cards are not drawn yet."""
        return state.clone()

    def _left(self, state: State) -> int:
        return self.parameters["depth_limit"] - len(state.history())

    @staticmethod
    def _points(state: State) -> int:
        return int(state.returns()[0])

    @staticmethod
    def _columns(table: _Table) -> Sequence[str]:
        return [f"[{hidden}] {' '.join(cards)}" for hidden, cards in table.columns]

    @staticmethod
    def _table(state: State) -> _Table:
        waste, foundations, _, *columns = (
            state.observation_string(0).translate(_SUITS).split("\nTARGETS")[0].split("\n")
        )
        tops = [name if len(name) > 1 else "" for name in foundations.split(":")[1].split()]
        piles = [column.split() for column in columns]
        return _Table(
            waste.split(":")[1].split(),
            dict(zip("shcd", tops, strict=True)),
            [(pile.count("🂠"), [card for card in pile if card != "🂠"]) for pile in piles],
        )
