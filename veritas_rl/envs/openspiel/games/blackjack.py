"""Blackjack. Rules checked against OpenSpiel's `games/blackjack/blackjack.cc`.

One player against a dealer who follows fixed rules: one deck, no bets, no splitting or doubling, and 21 with two cards
is worth no more than any other 21. A hand of 21 may still hit.
"""

from collections.abc import Callable
from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.games.cards import shuffle
from veritas_rl.envs.openspiel.notation import Notation, Words

_MOVES = ("hit", "stand")
_RANKS = "A23456789TJQK"
_HIDDEN = 2
"""The index of the dealer's face-down card in the deal, after two cards of the player and before the open card."""
_NOTATION = Words(
    {
        **dict.fromkeys(("hit me", "take a card", "draw a card", "take one more card", "another card"), "hit"),
        **dict.fromkeys(("stay", "stick", "stand pat"), "stand"),
    }
)


class Blackjack(Game):
    """The player sees their own cards and the dealer's second card."""

    default_cases: ClassVar = ("blackjack",)
    deal_moves: ClassVar[int] = 5

    def rules(self) -> str:
        return (
            "You are playing blackjack, alone against the dealer, with one deck of 52 cards. A card is written as rank "
            "and suit: ranks A 2 3 4 5 6 7 8 9 T J Q K (T is ten), suits c, d, h, s. T, J, Q and K count 10, an ace 1 "
            "or 11, whichever makes the better total, others their number. You and the dealer have two cards each; "
            "one of the dealer's is face down. Hit takes one more card, stand ends your turn. With more than 21 you "
            "are bust and have lost at once. After you stand, the dealer takes cards while the dealer's total is 16 or "
            "less. You win if the dealer is bust or your total is higher, lose if it is lower; equal totals are a "
            "draw. Nothing but the totals counts: a total of 21 with two cards is worth no more than any other."
        )

    def position(self, state: State, player: int) -> str:
        mine, open_card = self._cards(state)
        total, soft = _total(mine)
        counted = f"{total}, with an ace as 11" if soft else str(total)
        shown = " ".join(map(_name, mine))
        return f"Your cards: {shown} (total {counted})\nDealer's cards: {_name(open_card)} and one face down"

    def brief(self, state: State, player: int) -> str:
        """Own cards and the dealer's open card, by rank, because suits have no effect."""
        mine, open_card = self._cards(state)
        return "".join(_RANKS[card % 13] for card in mine) + f" {_RANKS[open_card % 13]}"

    def action_name(self, state: State, player: int, action: int) -> str:
        return _MOVES[action]

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def information_key(self, state: State, player: int) -> str:
        mine, open_card = self._cards(state)
        return f"{' '.join(map(_name, mine))} {_name(open_card)}"

    def symmetry_key(self, state: State, player: int) -> str:
        """The values of the cards, in any order. Suits have no effect, and T, J, Q and K are equal."""
        mine, open_card = self._cards(state)
        return "".join(sorted(_RANKS[min(9, card % 13)] for card in mine)) + f" {_RANKS[min(9, open_card % 13)]}"

    def resample(self, state: State, player: int, uniform: Callable[[], float]) -> State:
        """The dealer's face-down card drawn uniformly from the cards that the player has not seen."""
        history = state.history()
        mine, open_card = self._cards(state)
        unseen = [card for card in range(52) if card not in mine and card != open_card]
        copy = self.spiel.new_initial_state()
        for step, action in enumerate(history):
            copy.apply_action(shuffle(unseen, uniform)[0] if step == _HIDDEN else action)
        return copy

    @staticmethod
    def _cards(state: State) -> tuple[list[int], int]:
        """The player's cards, in the order dealt, and the dealer's open card."""
        history = state.history()
        return [*history[:2], *history[5::2]], history[3]


def _name(card: int) -> str:
    return _RANKS[card % 13] + "cdhs"[card // 13]


def _total(cards: list[int]) -> tuple[int, bool]:
    """The best total, and whether an ace counts 11 in it."""
    total = sum(min(10, card % 13 + 1) for card in cards)
    soft = any(card % 13 == 0 for card in cards) and total <= 11
    return total + 10 * soft, soft
