"""Liar's dice. Rules checked against OpenSpiel's `games/liars_dice/liars_dice.cc`.

The game is a single round for two players. No dice are lost, and the highest face is wild, also in bids of that face.
"""

from collections.abc import Callable
from random import Random
from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.notation import DiceBids, Notation

_NOTATION = DiceBids()


class LiarsDice(Game):
    """A player sees their own dice and all bids. A bid is named by quantity and face: "3x5" is three fives."""

    default_cases: ClassVar = ("liars_dice", "liars_dice(numdice=5)")
    limits: ClassVar = {"numdice": (1, 20), "dice_sides": (2, 20), "bidding_rule": ("reset-face", "reset-quantity")}
    budget: ClassVar = (3000, 200)

    def rules(self) -> str:
        dice, sides = self.parameters["numdice"], self.parameters["dice_sides"]
        each = "1 die" if dice == 1 else f"{dice} dice"
        if self.parameters["bidding_rule"] == "reset-face":
            higher = "have a higher quantity (of any face), or the same quantity and a higher face"
        else:
            higher = "have a higher face (in any quantity), or the same face and a higher quantity"
        return (
            f"You are playing liar's dice with 2 players. Each rolls {each} with faces 1 to {sides}, which the other "
            f"does not see. Player 0 bids first; then the players alternate. A bid QxF, such as 1x2, claims that among "
            f"all {2 * dice} dice of both players at least Q show face F. Face {sides} is wild: a die that shows "
            f"{sides} counts for every bid. Instead of bidding, a player may say liar to the last bid, which ends the "
            f"game: if at least Q dice count for that bid, the bidder wins, otherwise the player who said liar wins. A "
            f"bid must {higher}, compared with the last bid. Q is at most {2 * dice}; after the highest bid, "
            f"{2 * dice}x{sides}, only liar is left. Dice are rolled only once."
        )

    def position(self, state: State, player: int) -> str:
        bids = [f"player {turn % 2}: {bid}" for turn, bid in enumerate(self._bids(state))]
        dice = " ".join(map(str, self._dice(state, player)))
        return f"Your dice: {dice}\nBids so far: {', '.join(bids) or 'none'}"

    def brief(self, state: State, player: int) -> str:
        dice = ("" if self.parameters["dice_sides"] < 10 else ",").join(map(str, self._dice(state, player)))
        return " ".join([dice, *self._bids(state)])  # the bids show whose turn it is

    @property
    def words(self) -> tuple[str, ...]:
        """The words of all games, and the bids."""
        bids = range(self.spiel.num_distinct_actions())
        return (*super().words, *[f" {self._name(action)}" for action in bids])

    def action_name(self, state: State, player: int, action: int) -> str:
        return self._name(action)

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def information_key(self, state: State, player: int) -> str:
        return f"{player} {self.brief(state, player)}"

    def sensible_action(self, state: State, random: Random) -> int:
        """ "liar" if the player's dice make the bid unlikely, else a slightly higher bid, usually of a face in hand."""
        legal, dice = state.legal_actions(), self._dice(state, state.current_player())
        sides, liar = self.parameters["dice_sides"], self.parameters["numdice"] * 2 * self.parameters["dice_sides"]

        def missing(action: int) -> int:
            """The number of the other player's dice that a bid needs."""
            quantity, face = map(int, self._name(action).split("x"))
            return quantity - sum(die in (face, sides) for die in dice)

        bids = [action for action in legal if action != liar]
        likely = [action for action in bids if missing(action) <= len(dice) * 2 / sides + random.random()]
        if likely:
            return min(random.sample(likely, min(3, len(likely))))
        return liar if liar in legal else min(bids)

    def resample(self, state: State, player: int, uniform: Callable[[], float]) -> State:
        """Resample the other player's dice uniformly. Bids may be lies, so they exclude no roll."""
        dice, sides = self.parameters["numdice"], self.parameters["dice_sides"]
        copy = self.spiel.new_initial_state()
        for step, action in enumerate(state.history()):
            hidden = step < 2 * dice and step // dice != player
            copy.apply_action(int(uniform() * sides) if hidden else action)
        return copy

    def _dice(self, state: State, player: int) -> list[int]:
        dice = self.parameters["numdice"]
        return sorted(face + 1 for face in state.history()[player * dice : (player + 1) * dice])

    def _bids(self, state: State) -> list[str]:
        return [self._name(action) for action in state.history()[2 * self.parameters["numdice"] :]]

    def _name(self, action: int) -> str:
        dice, sides = 2 * self.parameters["numdice"], self.parameters["dice_sides"]
        if action == dice * sides:
            return "liar"
        if self.parameters["bidding_rule"] == "reset-face":
            quantity, face = divmod(action, sides)
        else:
            face, quantity = divmod(action, dice)
        return f"{quantity + 1}x{face + 1}"
