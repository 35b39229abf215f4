"""Contract bridge, one deal. Rules checked against OpenSpiel's `games/bridge/bridge.cc` and `bridge_scoring.cc`.

By OpenSpiel's default there is no card play: the declarer gets the tricks of perfect play with all cards visible.
Computing them takes a third of a second for each deal and each replayed state, so the default case has card play.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import exp
from random import Random
from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.games.bridge_bidding import DOUBLE, FIRST_BID, PASS, sensible_call
from veritas_rl.envs.openspiel.games.cards import deal
from veritas_rl.envs.openspiel.games.tricks import choose_card
from veritas_rl.envs.openspiel.notation import Bids, Cards, Notation

_RANKS = "23456789TJQKA"
_SUITS = "cdhs"
_DENOMINATIONS = ("C", "D", "H", "S", "NT")
_NO_TRUMP = 4
_SEAT_NAMES = ("North", "East", "South", "West")
_SEATS = range(4)
_NO_TRUMP_TRICKS = 6.5
_TRICKS_DEVIATION = 1.2
"""The standard deviation of the tricks around the expectation."""
_BIDS, _CARDS = Bids(), Cards({"play": "", "lead": ""})


@dataclass(frozen=True)
class _Deal:
    """A deal so far, read from a history.

    Attributes:
        dealt: The 13 cards of each seat.
        calls: The seat and the action of each call.
        contract: Level, denomination (0 to 4), 1, 2 or 4 for undoubled, doubled or redoubled, and declarer after the
            calls so far; None before the first bid.
        tricks: Each trick as its leader and its cards; the last one may be unfinished or empty. () before the play.
    """

    dealt: tuple[tuple[int, ...], ...]
    calls: tuple[tuple[int, int], ...]
    contract: tuple[int, int, int, int] | None
    tricks: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def dummy(self) -> int | None:
        """The declarer's partner, whose hand is visible after the opening lead; None before it."""
        lead = self.tricks and self.tricks[0][1]
        return (self.contract[3] + 2) % 4 if self.contract and lead else None

    @property
    def turn(self) -> int:
        """The seat whose card is played next."""
        leader, cards = self.tricks[-1]
        return (leader + len(cards)) % 4

    def plays(self) -> list[tuple[int, int]]:
        """The seat and the card of each play."""
        return [((leader + turn) % 4, card) for leader, cards in self.tricks for turn, card in enumerate(cards)]

    def hand(self, seat: int) -> list[int]:
        gone = {card for player, card in self.plays() if player == seat}
        return [card for card in self.dealt[seat] if card not in gone]


class Bridge(Game):
    """A card is named by rank and suit ("Qs", action 4 * rank + suit), a bid by level and denomination ("1NT")."""

    default_cases: ClassVar = ("bridge(use_double_dummy_result=False)",)
    deal_moves: ClassVar[int] = 75
    budget: ClassVar = (200, 20)
    unit: ClassVar = "points for your side"
    walk_skills: ClassVar = (1.0,)
    margin_unit: ClassVar = 300.0
    result_share: ClassVar = 1.0
    return_unit: ClassVar = 300.0
    limits: ClassVar = {
        "dealer": (0, 3),
        "dealer_vul": (False, True),
        "non_dealer_vul": (False, True),
        "use_double_dummy_result": (False, True),
    }

    def rules(self) -> str:
        dummy = (
            "There is no card play: the declarer takes as many tricks as under perfect play of all four hands with all "
            "cards seen, the player on the declarer's left leading."
            if self.parameters.get("use_double_dummy_result", True)
            else "The player on the declarer's left leads to the first trick; then the hand of the declarer's partner, "
            "the dummy, is laid open, and the declarer plays its cards too. Everybody in turn must follow the suit led "
            "if possible. The highest trump takes the trick, or without a trump the highest card of the suit led; the "
            "winner leads."
        )
        return (
            "You are playing one deal of contract bridge: North and South against East and West; turns go from North "
            "to East, South, West. A card is written as rank and suit: ranks 2 3 4 5 6 7 8 9 T J Q K A from low to "
            "high (T is ten), suits c, d, h, s. Each player is dealt 13 cards. "
            f"{_SEAT_NAMES[self.parameters.get('dealer', 0)]} is the dealer and calls first. A bid, such as 1NT or 4S, "
            "is an offer to take six tricks more than its number with that suit as trump (C, D, H, S from low to high, "
            "then NT: no trump). Each bid must be higher than the one before: a higher number, or the same number with "
            "a higher suit. Double is allowed on the other side's last bid, redouble on the other side's double, both "
            "until the next bid. Three passes in a row after a bid end the auction; four passes at once end the deal "
            "with 0 points. The last bid is the contract. Its declarer is whoever of that side first bid its suit (or "
            f"NT). {dummy} Score of a contract that is made, for the declarer's side: for each trick bid 20 in C or "
            "D, 30 in H or S, in NT 30 and 10 more once; twice that if doubled, four times if redoubled; with 100 or "
            "more of these points 300 extra (vulnerable 500), with less 50; 500 more for a bid of 6 (vulnerable 750), "
            "1000 more for a bid of 7 (vulnerable 1500); for each further trick as for one bid, but if doubled 100 "
            "(vulnerable 200), and redoubled twice that; 50 for making a doubled, 100 for making a redoubled contract. "
            "A contract that fails costs for each missing trick 50 (vulnerable 100); if doubled 100 for the first, 200 "
            "for the second and the third, 300 for each further one (vulnerable 200 for the first, 300 for each "
            "further one), redoubled twice that. The other side gets the negative of the score."
        )

    def role(self, player: int) -> str:
        return _SEAT_NAMES[player]

    def position(self, state: State, player: int) -> str:
        seen = _read(tuple(state.history()), self.parameters.get("dealer", 0))
        lines = [
            f"Vulnerable: {self._vulnerable()}",
            f"Your hand: {_by_suit(seen.hand(player))}",
        ]
        calls = [f"{_SEAT_NAMES[seat]} {_call(action)}" for seat, action in seen.calls]
        lines.append(f"Calls: {', '.join(calls) or 'none'}")
        if not seen.tricks or not seen.contract:
            return "\n".join(lines)
        level, denomination, doubled, declarer = seen.contract
        doubled_how = {1: "", 2: ", doubled", 4: ", redoubled"}[doubled]
        lines.append(f"Contract: {level}{_DENOMINATIONS[denomination]}{doubled_how}, declarer {_SEAT_NAMES[declarer]}")
        if seen.dummy is not None:
            shown = "your own" if seen.dummy == player else _by_suit(seen.hand(seen.dummy))
            lines.append(f"Dummy: {_SEAT_NAMES[seen.dummy]}, {shown}")
        won = [0, 0]
        for number, (leader, cards) in enumerate(seen.tricks, 1):
            plays = [f"{_SEAT_NAMES[(leader + turn) % 4]} {_name(card)}" for turn, card in enumerate(cards)]
            if len(cards) == 4:
                winner = _winner(leader, cards, denomination)
                won[winner % 2] += 1
                lines.append(f"Trick {number}: {', '.join(plays)}; taken by {_SEAT_NAMES[winner]}")
            else:
                lines.append(f"This trick: {', '.join(plays) or 'nothing is led yet'}")
        lines.append(f"Tricks: North and South {won[0]}, East and West {won[1]}")
        if seen.turn != player:
            lines.append(f"It is the dummy's turn: choose the card that {_SEAT_NAMES[seen.turn]} plays.")
        return "\n".join(lines)

    def brief(self, state: State, player: int) -> str:
        """Seat; own hand; calls; in the play also whose turn it is, the dummy's hand, this trick and earlier tricks."""
        seen = _read(tuple(state.history()), self.parameters.get("dealer", 0))
        parts = [
            _SEAT_NAMES[player][0],
            _names(seen.hand(player)),
            " ".join(_call(action) for _, action in seen.calls),
        ]
        if seen.tricks:
            tricks = [f"{_SEAT_NAMES[leader][0]} {_names(cards)}".rstrip() for leader, cards in seen.tricks]
            dummy = "" if seen.dummy in (None, player) else _names(seen.hand(seen.dummy or 0))
            parts += [f"{_SEAT_NAMES[seen.turn][0]} {dummy}".rstrip(), tricks[-1], *tricks[:-1]]
        return "\n".join(parts)

    def action_name(self, state: State, player: int, action: int) -> str:
        return _name(action) if action < PASS else _call(action)

    def notation(self, state: State, player: int) -> Notation:
        return _BIDS if state.legal_actions(player)[0] >= PASS else _CARDS

    def sensible_action(self, state: State, random: Random) -> int:
        """A call by simple natural bidding, or a card that wins tricks."""
        seen = _read(tuple(state.history()), self.parameters.get("dealer", 0))
        legal = state.legal_actions()
        if not seen.tricks or not seen.contract:
            call = sensible_call(seen.dealt[state.current_player()], seen.calls, state.current_player(), random)
            return call if call in legal else PASS
        leader, cards = seen.tricks[-1]
        trump = seen.contract[1]
        led = cards[0] % 4 if cards else -1
        winner = _winner(leader, cards, trump) if cards else seen.turn
        return choose_card(
            legal,
            lambda card: (card % 4 == trump, card % 4 == led, card),
            cards[(winner - leader) % 4] if cards else None,
            partner_wins=(winner - seen.turn) % 4 == 2,
            last=len(cards) == 3,
            random=random,
        )

    @property
    def stakes(self) -> bool:
        """True, because a deal is played for points."""
        return True

    def playout_limit(self, state: State) -> int | None:
        """0 for a call, which is valued by its contract because random calls end at 7NT; None for a card."""
        return 0 if state.legal_actions()[0] >= PASS else None

    def margin(self, state: State, player: int) -> float:
        """The expected points of the contract, if nothing more is bid.

        The declarer's side is expected to take as many tricks as it has trumps ("law of total tricks", Vernes 1969; 6.5
        without trumps), and one more for each 3 high-card points (A 4, K 3, Q 2, J 1) above half of them. In the play,
        this estimate covers the remaining tricks.
        """
        seen = _read(tuple(state.history()), self.parameters.get("dealer", 0))
        if not seen.contract:
            return 0.0
        level, denomination, doubled, declarer = seen.contract
        cards = [card for seat in (declarer, (declarer + 2) % 4) for card in seen.dealt[seat]]
        trumps = _NO_TRUMP_TRICKS if denomination == _NO_TRUMP else sum(card % 4 == denomination for card in cards)
        expected = trumps + (sum(max(0, card // 4 - 8) for card in cards) - 20) / 3
        finished = [trick for trick in seen.tricks if len(trick[1]) == 4]
        won = sum((_winner(leader, trick, denomination) - declarer) % 2 == 0 for leader, trick in finished)
        left = 13 - len(finished)
        possible = range(won, won + left + 1)
        expected = won + expected * left / 13
        weights = [exp(-((tricks - expected) ** 2) / (2 * _TRICKS_DEVIATION**2)) for tricks in possible]
        vulnerable = self.is_vulnerable(declarer)
        scores = [_score(level, denomination, doubled, tricks, vulnerable=vulnerable) for tricks in possible]
        points = sum(weight * score for weight, score in zip(weights, scores, strict=True)) / sum(weights)
        return points if (declarer - player) % 2 == 0 else -points

    def gained(self, start: State, end: State, player: int) -> float:
        """The margin at the end alone, because the margin at the start depends on hidden cards."""
        return self.margin(end, player)

    def information_key(self, state: State, player: int) -> str:
        seen = _read(tuple(state.history()), self.parameters.get("dealer", 0))
        dummy = "" if seen.dummy is None else _names(seen.dealt[seen.dummy])
        parts = [
            str(player),
            _names(seen.dealt[player]),
            " ".join(_call(action) for _, action in seen.calls),
            dummy,
            _names([card for _, card in seen.plays()]),
        ]
        return "/".join(parts)

    def resample(self, state: State, player: int, uniform: Callable[[], float]) -> State:
        """Resample the hands that the player does not see, uniformly over the deals in which every play was legal.
        Calls are not interpreted."""
        seen = _read(tuple(state.history()), self.parameters.get("dealer", 0))
        known = {player, *([] if seen.dummy is None else [seen.dummy])}
        hidden = [seat for seat in _SEATS if seat not in known]
        played = {seat: [card for who, card in seen.plays() if who == seat] for seat in _SEATS}
        gone = {card for seat in known for card in seen.dealt[seat]} | {card for _, card in seen.plays()}
        missing: list[set[int]] = [set() for _ in _SEATS]
        for leader, cards in seen.tricks:
            for turn, card in enumerate(cards):
                if card % 4 != cards[0] % 4:
                    missing[(leader + turn) % 4].add(cards[0] % 4)
        hands = deal(
            [card for card in range(52) if card not in gone],
            {str(seat): 13 - len(played[seat]) for seat in hidden},
            lambda seat, card: card % 4 not in missing[int(seat)],
            uniform,
        )
        dealt = {seat: [*played[seat], *hands[str(seat)]] for seat in hidden}
        dealt |= {seat: list(seen.dealt[seat]) for seat in known}
        copy = self.spiel.new_initial_state()
        for turn in range(52):
            copy.apply_action(dealt[turn % 4][turn // 4])
        for _, action in (*seen.calls, *seen.plays()):
            copy.apply_action(action)
        return copy

    def deal_of(self, state: State, *actions: int) -> _Deal:
        """The deal after a state's history and these further actions."""
        return _read((*state.history(), *actions), self.parameters.get("dealer", 0))

    def is_vulnerable(self, seat: int) -> bool:
        """Whether a seat's side is vulnerable."""
        same = seat % 2 == self.parameters.get("dealer", 0) % 2
        return self.parameters.get("dealer_vul" if same else "non_dealer_vul", False)

    def _vulnerable(self) -> str:
        sides = ("North and South", "East and West")
        return " and ".join(sides[side] for side in (0, 1) if self.is_vulnerable(side)) or "nobody"


@lru_cache(maxsize=64)
def _read(history: tuple[int, ...], dealer: int) -> _Deal:
    dealt = tuple(tuple(sorted(history[seat:52:4])) for seat in _SEATS)
    calls = tuple(((dealer + turn) % 4, call) for turn, call in enumerate(history[52:]) if call >= PASS)
    contract: tuple[int, int, int, int] | None = None
    first: dict[tuple[int, int], int] = {}
    for seat, call in calls:
        if call >= FIRST_BID:
            level, denomination = divmod(call - FIRST_BID, 5)
            declarer = first.setdefault((seat % 2, denomination), seat)
            contract = (level + 1, denomination, 1, declarer)
        elif call != PASS and contract:
            contract = (contract[0], contract[1], 2 if call == DOUBLE else 4, contract[3])
    ended = len(calls) > 3 and all(call == PASS for _, call in calls[-3:])
    if not contract or not ended:
        return _Deal(dealt, calls, contract, ())
    leader, tricks = (contract[3] + 1) % 4, []
    for start in range(52 + len(calls), len(history) + 1, 4):
        cards = history[start : start + 4]
        tricks.append((leader, cards))
        if len(cards) == 4:
            leader = _winner(leader, cards, contract[1])
    return _Deal(dealt, calls, contract, tuple(tricks))


def _score(level: int, denomination: int, doubled: int, tricks: int, *, vulnerable: bool) -> int:
    """The points of the declarer's side for a contract and its number of tricks."""
    over = tricks - 6 - level
    if over < 0:
        if doubled == 1:
            return (100 if vulnerable else 50) * over
        first = -300 * over - 100 if vulnerable else {-1: 100, -2: 300}.get(over, -300 * over - 400)
        return -first * doubled // 2
    each = 30 if denomination > 1 else 20
    bid = (level * each + (10 if denomination == _NO_TRUMP else 0)) * doubled
    game = (500 if vulnerable else 300) if bid >= 100 else 50
    slam = {6: 500, 7: 1000}.get(level, 0) * (3 if vulnerable else 2) // 2
    further = over * (each if doubled == 1 else (100 if vulnerable else 50) * doubled)
    return bid + game + slam + further + {1: 0, 2: 50, 4: 100}[doubled]


def _winner(leader: int, cards: tuple[int, ...], trump: int) -> int:
    """The seat that wins a trick, or leads an unfinished one; `trump` is a suit, or 4 for no trump."""
    led = cards[0] % 4
    best = max(cards, key=lambda card: (card % 4 == trump, card % 4 == led, card))
    return (leader + cards.index(best)) % 4


def _call(action: int) -> str:
    if action < FIRST_BID:
        return ("pass", "double", "redouble")[action - PASS]
    level, denomination = divmod(action - FIRST_BID, 5)
    return f"{level + 1}{_DENOMINATIONS[denomination]}"


def _by_suit(cards: list[int]) -> str:
    """A hand from spades to clubs, high cards first."""
    suits = [[_name(card) for card in sorted(cards, reverse=True) if card % 4 == suit] for suit in (3, 2, 1, 0)]
    return ", ".join(" ".join(suit) for suit in suits if suit) or "none"


def _name(card: int) -> str:
    return _RANKS[card // 4] + _SUITS[card % 4]


def _names(cards: tuple[int, ...] | list[int]) -> str:
    return " ".join(map(_name, cards))
