"""Goofspiel. Rules checked against OpenSpiel's `games/goofspiel/goofspiel.cc`.

All players bid at once. OpenSpiel plays the last round itself, because no choice is left. With `imp_info` a player
learns the winner of a round but not the winning card.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

import pyspiel

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.notation import Notation, Numbered

_RETURNS = {
    "win_loss": "Whoever has more points at the end wins; equal points are a draw.",
    "point_difference": "Whoever has more points at the end wins, by the difference of the points; equal points are a "
    "draw.",
    "total_points": "At the end each player gets the points of the prizes won.",
}
_NOTATION = Numbered(r"(?:bid )?(?:the )?card|bid(?: the)?")


class Goofspiel(Game):
    """A card is named and numbered by its value, from 1: OpenSpiel's action is value - 1."""

    default_cases: ClassVar = ("goofspiel", *(f"goofspiel(num_cards={cards})" for cards in (8, 10, 12, 14, 16)))
    small_model_steps: ClassVar = 14
    screening_moves: ClassVar = 700
    written: ClassVar = "A card is written as its value, such as 3 or card 3."
    limits: ClassVar = {
        "num_cards": (4, 20),
        "points_order": ("random", "descending", "ascending"),
        "returns_type": tuple(_RETURNS),
        "imp_info": (False, True),
        "egocentric": (False, True),
    }
    budget: ClassVar = None
    margin_unit: ClassVar = 0.5
    result_share: ClassVar = 0.2
    # The best card is worth about 0.06 more than a random one.
    loss_unit: ClassVar = 0.05

    def rules(self) -> str:
        cards, order = self.parameters["num_cards"], self.parameters["points_order"]
        turned = {
            "random": "in random order",
            "descending": f"from {cards} down to 1",
            "ascending": f"from 1 up to {cards}",
        }[order]
        shown = (
            "Both then learn who won, but never which card the other bid."
            if self.parameters["imp_info"]
            else "Both bids are then shown."
        )
        return (
            f"You are playing Goofspiel with 2 players. Each holds the cards 1 to {cards}. There are {cards} prizes, "
            f"worth 1 to {cards} points, turned up one each round {turned}. In each round both players "
            "secretly choose a card of their hand, at the same time. The higher card wins the prize; on equal cards "
            f"nobody gets it. Bid cards are gone, whoever wins. {shown} In the last round the last cards are "
            f"played without asking. {_RETURNS[self.parameters['returns_type']]}"
        )

    def position(self, state: State, player: int) -> str:
        prizes, bids = self._rounds(state)
        other = 1 - player
        points = self._points(prizes, bids)
        lines = [f"Prize of this round: {prizes[-1]}"]
        if self.parameters["points_order"] == "random":
            lines.append(f"Prizes still to come: {self._list(self._left(prizes))}")
        lines += [
            f"Your cards: {self._list(self._left([bid[player] for bid in bids]))}",
            *([] if self.hidden else [f"Cards of player {other}: {self._list(self._left([b[other] for b in bids]))}"]),
            f"Points: player 0: {points[0]}, player 1: {points[1]}",
        ]
        if self.hidden:
            rounds = [
                f"prize {prize}, you bid {bid[player]}, {self._winner(bid)}"
                for prize, bid in zip(prizes, bids, strict=False)
            ]
            lines.append(f"Rounds so far: {'; '.join(rounds) or 'none'}")
        return "\n".join(lines)

    def brief(self, state: State, player: int) -> str:
        """Own points, the opponent's points, "=" before the prize and "+" before later prizes; with hidden bids the
        player's bid and the result of every round, otherwise "-" before the opponent's cards. The player's cards are
        the legal actions."""
        prizes, bids = self._rounds(state)
        points, other = self._points(prizes, bids), 1 - player
        lines = [f"{points[player]}:{points[other]} ={prizes[-1]}"]
        if self.parameters["points_order"] == "random":
            lines[0] += "".join([f" +{card}" for card in self._left(prizes)])
        if self.hidden:
            won = [
                f"{prize}:{bid[player]}{'-=+'[1 + (bid[player] > bid[other]) - (bid[player] < bid[other])]}"
                for prize, bid in zip(prizes, bids, strict=False)
            ]
            lines.append(" ".join(won))
        else:
            lines[0] += "".join([f" -{card}" for card in self._left([bid[other] for bid in bids])])
        return "\n".join(lines)

    @property
    def brief_cells(self) -> int:
        return self.parameters["num_cards"] + 1

    def action_name(self, state: State, player: int, action: int) -> str:
        return f"card {action + 1}"

    def number(self, action: int) -> int:
        """The value of a card, so that a bare number always means that card."""
        return action + 1

    def action(self, number: int) -> int:
        return number - 1

    def listed(self, names: Mapping[int, str]) -> Mapping[int, str]:
        return {action + 1: name for action, name in names.items()}

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def margin(self, state: State, player: int) -> float:
        """The lead in points of the prizes won, divided by the number of cards."""
        prizes, (mine, theirs), cards = *self._actions(state, player), self.parameters["num_cards"]
        lead = sum([((a > b) - (a < b)) * (prize + 1) for prize, a, b in zip(prizes, mine, theirs, strict=False)])
        if state.is_terminal() and len(mine) == cards - 1:  # the history lacks the last round: the remaining cards
            prize, a, b = [sum(range(cards)) - sum(gone[: cards - 1]) for gone in (prizes, mine, theirs)]
            lead += ((a > b) - (a < b)) * (prize + 1)
        return lead / cards

    def information_key(self, state: State, player: int) -> str:
        return f"{player}|{self.symmetry_key(state, player)}"

    def symmetry_key(self, state: State, player: int) -> str:
        """The seats are equivalent."""
        if self.parameters["imp_info"]:
            return self.brief(state, player)  # the rounds in it determine the player's cards
        mine = self._left([bid[player] for bid in self._rounds(state)[1]])
        return f"{self._list(mine)}\n{self.brief(state, player)}"

    def state_key(self, state: State) -> str:
        return str(state) if self.parameters["imp_info"] else self._open_key(state)

    def resample(self, state: State, player: int, uniform: Callable[[], float]) -> State:
        """Resample the other player's bids uniformly among those that win, lose and tie the same rounds.

        Raises:
            pyspiel.SpielError: No bids are consistent, which cannot happen by the rules.
        """
        if not self.parameters["imp_info"]:
            return state.clone()
        prizes, bids = self._rounds(state)
        results = tuple(
            (bid[player], (bid[1 - player] > bid[player]) - (bid[1 - player] < bid[player])) for bid in bids
        )
        drawn = _draw_bids(self.parameters["num_cards"], results, uniform)
        copy, prizes_left = self.spiel.new_initial_state(), iter(prizes)
        if copy.is_chance_node():
            copy.apply_action(next(prizes_left) - 1)
        for bid, other in zip(bids, drawn, strict=True):
            copy.apply_actions([bid[0] - 1, other - 1] if player == 0 else [other - 1, bid[1] - 1])
            if copy.is_chance_node():
                copy.apply_action(next(prizes_left) - 1)
        return copy

    def _open_key(self, state: State) -> str:
        if state.is_terminal():
            return str(state)
        prizes, bids = self._rounds(state)
        hands = [self._list(self._left([bid[player] for bid in bids])) for player in (0, 1)]
        asked = prizes[-1] if len(prizes) > len(bids) else 0
        return f"{hands}{self._points(prizes, bids)}{asked}{self._left(prizes)}"

    def _rounds(self, state: State) -> tuple[list[int], list[tuple[int, int]]]:
        """The prizes turned up so far, and both bids of each finished round."""
        prizes, bids = self._actions(state, 0)
        turned = [prize + 1 for prize in prizes[: len(bids[0]) + 1]]
        return turned, [(a + 1, b + 1) for a, b in zip(*bids, strict=True)]

    def _actions(self, state: State, player: int) -> tuple[Sequence[int], tuple[Sequence[int], Sequence[int]]]:
        """The prizes and the bids of a player and of the opponent, counted from 0. Prizes are those turned up so far,
        or all if their order is fixed."""
        history, order = state.history(), self.parameters["points_order"]
        if order == "random":
            return history[0::3], (history[1 + player :: 3], history[2 - player :: 3])
        upwards = range(self.parameters["num_cards"])
        return upwards if order == "ascending" else upwards[::-1], (history[player::2], history[1 - player :: 2])

    def _left(self, gone: list[int]) -> list[int]:
        return [card for card in range(1, self.parameters["num_cards"] + 1) if card not in gone]

    @staticmethod
    def _points(prizes: list[int], bids: list[tuple[int, int]]) -> tuple[int, int]:
        won = list(zip(prizes, bids, strict=False))
        return sum(p for p, (a, b) in won if a > b), sum(p for p, (a, b) in won if a < b)

    @staticmethod
    def _winner(bid: tuple[int, int]) -> str:
        return "nobody won" if bid[0] == bid[1] else f"player {int(bid[1] > bid[0])} won"

    @staticmethod
    def _list(cards: list[int]) -> str:
        return " ".join(map(str, cards))


Results = tuple[tuple[int, int], ...]
"""For each round the player's bid, and 1 if the opponent's bid was higher, 0 if it was equal, -1 if it was lower."""


def _draw_bids(cards: int, results: Results, uniform: Callable[[], float]) -> list[int]:
    """Draw the opponent's bid of each round, uniformly among all consistent bids.

    Cards are assigned in ascending order from 1. `pool` contains the cards without a round, and `above` the rounds that
    need a card higher than the player's bid. A round that needs a lower card takes it from the pool when the value of
    the player's bid is reached. Each choice is weighted by the number of completions that remain.

    Raises:
        pyspiel.SpielError: No bids are consistent.
    """
    rounds = {bid: (index, result) for index, (bid, result) in enumerate(results)}
    signs = tuple(rounds[card][1] if card in rounds else None for card in range(1, cards + 1))
    if not _completions(signs, 1, 0, 0):
        raise pyspiel.SpielError("no bids fit the results of the rounds")
    drawn = [0] * len(results)
    pool: list[int] = []
    above: list[int] = []
    for card in range(1, cards + 1):
        index, result = rounds.get(card, (-1, None))
        if result == -1:
            drawn[index] = pool.pop(int(uniform() * len(pool)))
        if result == 0:
            drawn[index] = card
        else:
            kept = _completions(signs, card + 1, len(pool) + 1, len(above) + (result == 1))
            given = _completions(signs, card + 1, len(pool), len(above) - 1 + (result == 1)) if above else 0
            if uniform() * (kept + given * len(above)) < kept:
                pool.append(card)
            else:
                drawn[above.pop(int(uniform() * len(above)))] = card
        if result == 1:
            above.append(index)
    return drawn


@lru_cache(maxsize=100_000)
def _completions(signs: tuple[int | None, ...], card: int, pool: int, above: int) -> int:
    """The number of ways to assign the cards from `card` on."""
    if card > len(signs):
        return int(above == 0)
    sign = signs[card - 1]
    if sign == 0:
        return _completions(signs, card + 1, pool, above)
    ways = 1
    if sign == -1:
        if not pool:
            return 0
        ways, pool = pool, pool - 1
    kept = _completions(signs, card + 1, pool + 1, above + (sign == 1))
    given = _completions(signs, card + 1, pool, above - 1 + (sign == 1)) if above else 0
    return ways * (kept + above * given)
