"""Kuhn poker. Rules checked against OpenSpiel's `games/kuhn_poker/kuhn_poker.cc`."""

from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State, card_rank
from veritas_rl.envs.openspiel.notation import Notation, Words

_MOVES = ("pass", "bet")
_CHIP = (" 1", " 1 chip", " one chip")
_UNOPENED = Words({"check": "pass", **{f"bet{chip}": "bet" for chip in _CHIP}})
_CALLED = Words(
    {"fold": "pass", "call": "bet", **{f"{word}{chip}": "bet" for word in ("bet", "call") for chip in _CHIP}}
)
"""The usual words for passing and betting, before and after the first bet."""


class KuhnPoker(Game):
    """A player sees their own card and the betting so far."""

    default_cases: ClassVar = ("kuhn_poker",)
    unit: ClassVar = "chips"
    limits: ClassVar = {"players": (2, 10)}

    @property
    def stakes(self) -> bool:
        """True, because the game is played for chips: losing one by folding is better than losing two."""
        return True

    def rules(self) -> str:
        cards = [card_rank(rank, self.players + 1) for rank in range(self.players + 1)]
        return (
            f"You are playing Kuhn poker with {self.players} players, counted from 0. The deck holds one card of "
            f"each rank, from low to high: {', '.join(cards)}. Each player antes 1 chip and gets one card that the "
            "others do not see. Player 0 begins; then the turn goes round. Until somebody bets, a player may pass "
            "(stay in for nothing) or bet 1 chip. After the first bet every other player acts exactly once more: "
            "bet, which here means to call by paying 1 chip, or pass, which here means to fold. If nobody bets, "
            "everybody stays in. The highest card among the players still in wins the pot."
        )

    def position(self, state: State, player: int) -> str:
        card, actions = self._seen(state, player)
        betting = ", ".join([f"player {step % self.players}: {_MOVES[a]}" for step, a in enumerate(actions)])
        return f"Your card: {card}\nBetting so far: {betting or 'none'}"

    def brief(self, state: State, player: int) -> str:
        card, actions = self._seen(state, player)
        return f"{player}{card}{''.join([_MOVES[a][0] for a in actions])}"

    def action_name(self, state: State, player: int, action: int) -> str:
        return _MOVES[action]

    def action_names(self, state: State, player: int) -> dict[int, str]:
        return {action: _MOVES[action] for action in state.legal_actions(player)}

    def notation(self, state: State, player: int) -> Notation:
        return _CALLED if 1 in self._seen(state, player)[1] else _UNOPENED

    def information_key(self, state: State, player: int) -> str:
        return self.brief(state, player)

    def _seen(self, state: State, player: int) -> tuple[str, list[int]]:
        """The player's card, and the actions of all players."""
        history = state.history()
        return card_rank(history[player], self.players + 1), history[self.players :]
