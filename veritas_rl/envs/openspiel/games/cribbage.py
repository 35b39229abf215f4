"""Cribbage for two. Rules checked against OpenSpiel's `games/cribbage/cribbage.cc`.

Two things differ from the usual rules. All points at the end of a deal are counted before a player can win, and if both
players then have 121 points, player 0 wins. A flush of four cards counts in the crib as it does in a hand. OpenSpiel
cannot resample a state, so this file resamples from the history: 12 cards dealt, two put into the crib by each player,
the starter, and the play. Earlier deals stay unchanged, because only their scores still matter.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.games.cards import deal, suit_renamings
from veritas_rl.envs.openspiel.notation import Cards, Notation

_RANKS = "A23456789TJQK"
_SUITS = "cdhs"
_PAIRS, _PASS = 52, 2756
"""The first action that puts two cards into the crib, 52 + 52 * card + card; and the action to pass."""
_DEAL_MOVES = 12
"""The number of moves after which a deal is nearly always over, counted from the choice for the crib."""
_RENAMINGS = suit_renamings()
_NOTATION = Cards({"play": "", "crib": "", "discard": "", "to the crib": ""}, {"go": "pass"})


@dataclass(frozen=True)
class _Deal:
    """The deal that is being played, read from a history.

    Attributes:
        number: The number of the deal, from 1.
        start: The index in the history at which the deal begins.
        dealer: The dealer's seat.
        dealt: The six cards of each seat.
        crib: The two cards that each seat has put into the crib; () before.
        starter: The starter; None before it is turned up.
        plays: The seat and the action, a card or a pass, of each play.
        counted: The number of plays that belong to finished counts.
    """

    number: int
    start: int
    dealer: int
    dealt: tuple[tuple[int, ...], ...]
    crib: tuple[tuple[int, ...], ...]
    starter: int | None
    plays: tuple[tuple[int, int], ...]
    counted: int

    def played(self, seat: int) -> list[int]:
        return [card for player, card in self.plays if player == seat and card != _PASS]

    def hand(self, seat: int) -> list[int]:
        gone = {*self.crib[seat], *self.played(seat)}
        return sorted((card for card in self.dealt[seat] if card not in gone), key=_order)

    @property
    def count(self) -> list[int]:
        """The cards of the current count."""
        return [card for _, card in self.plays[self.counted :] if card != _PASS]


class Cribbage(Game):
    """A card is named by rank and suit: "Qs" is the queen of spades, action 13 * suit + rank."""

    default_cases: ClassVar = ("cribbage",)
    deal_moves: ClassVar[int] = 75
    most_moves: ClassVar = 400
    playout_moves: ClassVar = 6
    margin_unit: ClassVar = 1.0
    written: ClassVar = (
        "Two cards for the crib are written as in 5h Qc, a card that is played as in 5h; a player who can play none "
        "writes pass."
    )
    limits: ClassVar = {"winner_bonus_reward": (0.0, 1_000_000.0)}

    def rules(self) -> str:
        return (
            "You are playing cribbage with 2 players, up to 121 points. A card is written as rank and suit: ranks A 2 "
            "3 4 5 6 7 8 9 T J Q K from low to high (T is ten), suits c, d, h, s. An ace counts 1, T, J, Q and K count "
            "10, others their number. The players deal in turn, player 0 first. Each gets six cards of a new deck and "
            "puts two of them face down into the crib, which is the dealer's. Then a card is turned up, the starter; "
            "if it is a jack, the dealer scores 2. In the play, beginning with the player who does not deal, the "
            "players in turn put down one of their four cards and add its value to the count, which may not exceed 31; "
            "a player who can play no card must pass. When the count is 31, or both have passed, the player of the "
            "last card scores 2 for 31, otherwise 1, and the other player begins a new count at 0. A card put down "
            "scores: 2 if the count is then 15; 2, 6 or 12 if it and the cards just before it in this count are two, "
            "three or four of one rank; and the number of cards if the last three or more cards of this count are a "
            "run, that is consecutive ranks in any order (at most 7). When all cards are played, both hands of four "
            "and the crib, each together with the starter, are counted for their owners: 2 for each group of cards "
            "with the value 15, 2 for each pair of one rank, its length for each longest run of three or more (each "
            "choice among equal ranks is a run of its own), 4 if the four cards are of one suit, 5 if the starter is "
            "too, and 1 for a jack of the starter's suit among the four. Whoever has 121 points has won; if "
            "both have reached that in the counting after a deal, player 0 has won. After 100 deals the game ends too, "
            "and the player with more points is better."
        )

    def position(self, state: State, player: int) -> str:
        seen, other = _read(tuple(state.history())), 1 - player
        scores = self._scores(state)
        lines = [
            f"Deal {seen.number}, dealer: {'you' if seen.dealer == player else f'player {other}'}",
            f"Points: player 0: {scores[0]}, player 1: {scores[1]}",
            f"Your hand: {_names(seen.hand(player))}",
        ]
        if seen.starter is None:
            owner = "yours" if seen.dealer == player else f"that of player {other}"
            lines.append(f"Choose two cards for the crib, which is {owner}.")
            return "\n".join(lines)
        count = seen.count
        before = [f"player {seat} {_call(card)}" for seat, card in seen.plays[: seen.counted]]
        now = [f"player {seat} {_call(card)}" for seat, card in seen.plays[seen.counted :]]
        return "\n".join(
            [
                *lines,
                f"You put into the crib: {_names(sorted(seen.crib[player], key=_order))}",
                f"Starter: {_name(seen.starter)}",
                f"Played in earlier counts: {', '.join(before) or 'nothing'}",
                f"Played in this count: {', '.join(now) or 'nothing'}",
                f"Count: {sum(map(_value, count))}",
                f"Cards left in the hand of player {other}: {4 - len(seen.played(other))}",
            ]
        )

    def brief(self, state: State, player: int) -> str:
        """Own points, the opponent's points, d for the dealer or n; hand; own crib cards and starter; this count;
        earlier counts. The opponent's plays begin with a dash."""
        seen, scores = _read(tuple(state.history())), self._scores(state)
        lines = [
            f"{scores[player]} {scores[1 - player]} {'nd'[seen.dealer == player]}",
            _names(seen.hand(player)),
        ]
        if seen.starter is not None:
            plays = [("" if seat == player else "-") + _call(card) for seat, card in seen.plays]
            lines += [
                f"{_names(sorted(seen.crib[player], key=_order))} {_name(seen.starter)}",
                " ".join([str(sum(map(_value, seen.count))), *plays[seen.counted :]]),
                " ".join(plays[: seen.counted]),
            ]
        return "\n".join(lines)

    def action_name(self, state: State, player: int, action: int) -> str:
        if action == _PASS or action < _PAIRS:
            return _call(action)
        return _names(list(divmod(action - _PAIRS, 52)))

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    def playout_limit(self, state: State) -> int | None:
        """A choice for the crib is valued after the hands are counted, that is, after 8 cards and some passes."""
        return self.playout_moves if _read(tuple(state.history())).starter is not None else _DEAL_MOVES

    def margin(self, state: State, player: int) -> float:
        """The lead in points."""
        scores = self._scores(state)
        return scores[player] - scores[1 - player]

    def information_key(self, state: State, player: int) -> str:
        hand, rest = self._key(state, player)
        return f"{_read(tuple(state.history())).number}/{hand}/{rest}"

    def symmetry_key(self, state: State, player: int) -> str:
        """Suits may be renamed. The seats are not equivalent, because player 0 wins if both have 121 points. The number
        of the deal is left out, because hardly any game approaches 100 deals."""
        hand, rest = self._key(state, player)
        renamed = []
        for table in _RENAMINGS:
            cards, crib = ((" ".join(sorted(part.translate(table).split()))) for part in hand.split("/"))
            renamed.append(f"{cards}/{crib}/{rest.translate(table)}")
        return min(renamed)

    def resample(self, state: State, player: int, uniform: Callable[[], float]) -> State:
        """Resample the opponent's hand and crib cards uniformly over the consistent deals, in which the opponent's hand
        contains no card that could have been played instead of a pass."""
        seen, other = _read(tuple(state.history())), 1 - player
        played = seen.played(other)
        known = {*seen.dealt[player], *played, *([] if seen.starter is None else [seen.starter])}
        unseen = [card for card in range(52) if card not in known]
        crib = len(seen.crib[other])
        room = {"hand": 6 - crib - len(played), "crib": crib}
        room["deck"] = len(unseen) - sum(room.values())
        most = self._barred(seen, other)
        hands = deal(unseen, room, lambda holder, card: holder != "hand" or _value(card) > most, uniform)
        dealt = {player: list(seen.dealt[player]), other: [*played, *hands["hand"], *hands["crib"]]}
        copy = self.spiel.new_initial_state()
        for action in (*state.history()[: seen.start], *dealt[0], *dealt[1]):
            copy.apply_action(action)
        for seat in (0, 1):
            cards = seen.crib[player] if seat == player else tuple(sorted(hands["crib"], key=_order))
            if cards:
                copy.apply_action(_PAIRS + 52 * cards[0] + cards[1])
        for action in [] if seen.starter is None else [seen.starter, *(action for _, action in seen.plays)]:
            copy.apply_action(action)
        return copy

    @staticmethod
    def _barred(seen: _Deal, seat: int) -> int:
        """The value that all cards in a seat's hand exceed, because the seat has passed; 0 if it has not."""
        most, count = 0, 0
        for turn, (player, card) in enumerate(seen.plays):
            if turn == seen.counted:
                count = 0
            if card != _PASS:
                count = _value(card) if count == 0 else count + _value(card)
            elif player == seat:
                most = max(most, 31 - count)
            if count == 31 or (card == _PASS and seen.plays[turn - 1][1] == _PASS):
                count = 0
        return most

    def _key(self, state: State, player: int) -> tuple[str, str]:
        seen = _read(tuple(state.history()))
        hand = f"{_names(sorted(seen.dealt[player], key=_order))}/{_names(sorted(seen.crib[player], key=_order))}"
        starter = "-" if seen.starter is None else _name(seen.starter)
        plays = " ".join("P" if card == _PASS else _name(card) for _, card in seen.plays)
        return hand, f"{player} {seen.dealer} {self._scores(state)} {starter} {plays}"

    @staticmethod
    def _scores(state: State) -> tuple[int, int]:
        line = next(line for line in state.observation_string(0).split("\n") if line.startswith("Scores: "))
        one, two = line.removeprefix("Scores: ").split()
        return int(float(one)), int(float(two))


@lru_cache(maxsize=64)
def _read(history: tuple[int, ...]) -> _Deal:
    start, number = 0, 1
    while True:
        found, end = _read_deal(history, start, number)
        if end is None:
            return found
        start, number = end, number + 1


def _read_deal(history: tuple[int, ...], start: int, number: int) -> tuple[_Deal, int | None]:
    """The deal that begins at an index of the history, and the index of the next deal if this one is over."""
    dealer = (number - 1) % 2
    dealt = (history[start : start + 6], history[start + 6 : start + 12])
    crib = tuple(divmod(action - _PAIRS, 52) for action in history[start + 12 : start + 14])
    starter = history[start + 14] if len(history) > start + 14 else None
    seat, last, count, counted = 1 - dealer, 0, 0, 0
    passed: set[int] = set()
    plays: list[tuple[int, int]] = []
    for place in range(start + 15, len(history)):
        action = history[place]
        plays.append((seat, action))
        if action == _PASS:
            passed.add(seat)
        else:
            count, last = count + _value(action), seat
        seat = 1 - seat
        if count == 31 or len(passed) == 2:
            passed.clear()
            seat, count, counted = 1 - last, 0, len(plays)
            if sum(card != _PASS for _, card in plays) == 8:
                return _Deal(number, start, dealer, dealt, crib, starter, tuple(plays), counted), place + 1
    padded = (*crib, *((),) * (2 - len(crib)))
    return _Deal(number, start, dealer, dealt, padded, starter, tuple(plays), counted), None


def _value(card: int) -> int:
    return min(10, card % 13 + 1)


def _order(card: int) -> tuple[int, int]:
    """OpenSpiel's order of a hand: by rank, then by suit."""
    return card % 13, card // 13


def _call(action: int) -> str:
    return "pass" if action == _PASS else _name(action)


def _name(card: int) -> str:
    return _RANKS[card % 13] + _SUITS[card // 13]


def _names(cards: list[int] | tuple[int, ...]) -> str:
    return " ".join(map(_name, cards))
