"""Leduc poker. Rules checked against OpenSpiel's `games/leduc_poker/leduc_poker.cc`.

The game is Southey et al., "Bayes' Bluff: Opponent Modelling in Poker" (UAI 2005). Only ranks are compared, so renaming
the two suits of a rank does not change a player's problem.
"""

from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State, card_rank
from veritas_rl.envs.openspiel.notation import Notation, Words

_MOVES = ("fold", "call", "raise")
_FOLD = 0
_NOTHING_TO_MATCH = Words({"check": "call", "bet": "raise"})
_TO_MATCH = Words({"reraise": "raise", "re raise": "raise"})
"""The usual words for calling and raising, without and with a stake to match."""


class LeducPoker(Game):
    """A player sees their own card, the public card once it is dealt, the betting and all players' chips."""

    default_cases: ClassVar = ("leduc_poker",)
    budget: ClassVar = (3000, 200)
    unit: ClassVar = "chips"
    # One chip: returns range over 26 chips, but in half of the decisions moves differ by less than three chips.
    loss_unit: ClassVar = 1 / 26
    limits: ClassVar = {"players": (2, 10)}

    @property
    def stakes(self) -> bool:
        """True, because the game is played for chips: losing one by folding is better than losing two."""
        return True

    def rules(self) -> str:
        ranks = [card_rank(rank, self.players + 1) for rank in range(self.players + 1)]
        return (
            f"You are playing Leduc poker with {self.players} players, counted from 0. The deck holds two cards of "
            f"each rank, from low to high: {', '.join(ranks)}; the suits, h and s, decide nothing. Each player has "
            "100 chips, antes 1 and gets one card that the others do not see. There are two rounds of betting; "
            "between them one public card is turned up. Player 0 begins each round, or the next player who has "
            "not folded. Call means to match the highest stake, which costs nothing if there is nothing to match. "
            "Raise means to match it and put in 2 chips more in round 1, or 4 chips more in round 2; a round has "
            "at most two raises, all players together. Fold, possible only when there is something to match, "
            "means to give up the hand. A round ends when everybody still in has matched the highest stake. The "
            "last player left wins the pot. Otherwise a card of the public card's rank wins; if nobody has one, "
            "the highest rank wins; equal hands split the pot."
        )

    def position(self, state: State, player: int) -> str:
        first, second = self._rounds(state)
        public = self._card(state.public_card()) if second is not None else "not yet dealt"
        lines = [
            f"Your card: {self._card(state.private_card(player))}",
            f"Public card: {public}",
            f"Betting in round 1: {self._betting(first)}",
        ]
        if second is not None:
            lines.append(f"Betting in round 2: {self._betting(second)}")
        if state.is_terminal():  # the pot is paid out
            gains = ", ".join(f"player {seat}: {gain:+g}" for seat, gain in enumerate(state.returns()))
            return "\n".join([*lines, f"Chips won or lost: {gains}"])
        stakes = ", ".join(f"player {seat}: {100 - int(left)}" for seat, left in enumerate(state.money()))
        return "\n".join([*lines, f"Chips put in so far: {stakes}"])

    def brief(self, state: State, player: int) -> str:
        return self._key(state, player, suits=True)

    def action_name(self, state: State, player: int, action: int) -> str:
        return _MOVES[action]

    def notation(self, state: State, player: int) -> Notation:
        return _TO_MATCH if _FOLD in state.legal_actions(player) else _NOTHING_TO_MATCH

    def information_key(self, state: State, player: int) -> str:
        return self._key(state, player, suits=True)

    def symmetry_key(self, state: State, player: int) -> str:
        return self._key(state, player, suits=False)

    def _key(self, state: State, player: int, *, suits: bool) -> str:
        first, second = self._rounds(state)
        length = None if suits else -1
        parts = [str(player), self._card(state.private_card(player))[:length], _letters(first)]
        if second is not None:
            parts += [self._card(state.public_card())[:length], _letters(second)]
        return " ".join(parts).rstrip()

    def _card(self, card: int) -> str:
        return card_rank(card // 2, self.players + 1) + "hs"[card % 2]

    def _rounds(self, state: State) -> tuple[list[tuple[int, int]], list[tuple[int, int]] | None]:
        """(player, action) of each move in round 1 and, once the public card is dealt, in round 2."""
        rounds: list[list[tuple[int, int]]] = [[]]
        for step in state.full_history()[self.players :]:
            if step.player < 0:
                rounds.append([])
            else:
                rounds[-1].append((step.player, step.action))
        return rounds[0], rounds[1] if len(rounds) > 1 else None

    @staticmethod
    def _betting(moves: list[tuple[int, int]]) -> str:
        return ", ".join(f"player {player}: {_MOVES[action]}" for player, action in moves) or "none"


def _letters(moves: list[tuple[int, int]]) -> str:
    return "".join(_MOVES[action][0] for _, action in moves)
