"""Euchre. Rules checked against OpenSpiel's `games/euchre/euchre.cc`.

The game is one deal. OpenSpiel's own resampling keeps the three cards that no player holds and the dealer's discard, so
it reveals hidden information to a search. This file resamples from the history instead: the dealer, 20 cards dealt in
turn, the upcard, and the actions of the players.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.games.cards import deal, suit_renamings
from veritas_rl.envs.openspiel.games.tricks import choose_card
from veritas_rl.envs.openspiel.notation import Cards, Notation

_RANKS = "9TJQKA"
_SUITS = "cdhs"
_SUIT_WORDS = ("clubs", "diamonds", "hearts", "spades")
_PASS, _FIRST_SUIT, _ALONE, _PARTNER = 24, 25, 29, 30
_JACK = 2
_FIRST_MOVE = 22
"""The index in a history at which the bidding begins: after the dealer, 20 cards and the upcard."""
_SEATS = range(4)
_RENAMINGS = tuple(
    table
    for table in suit_renamings()
    # The suits of one colour stay together, because the jack of the trumps' colour is a trump.
    if chr(table[ord("c")]) + chr(table[ord("s")]) in ("cs", "sc", "dh", "hd")
)
_DISCARDED = Cards({"discard": "discard"})
_PLAYED = Cards(
    {"play": "", "lead": ""},
    {
        **dict.fromkeys(("order it up", "i order it up"), "order up"),
        **dict.fromkeys(("take up", "pick it up", "pick up"), "take it up"),
        **dict.fromkeys(("go alone", "play alone", "i play alone"), "alone"),
        **dict.fromkeys(
            ("with partner", "with my partner", "play with the partner", "play with my partner"), "with the partner"
        ),
        **{suit[0]: suit for suit in _SUIT_WORDS},
    },
)


@dataclass(frozen=True)
class _Deal:
    """A deal so far, read from a history.

    Attributes:
        dealer: The dealer's seat.
        dealt: The five cards that each seat was dealt.
        upcard: The card turned up.
        bids: The seat and the action of each bid.
        trump: The trump suit, once it is named.
        discard: The card that the dealer discarded for the upcard.
        alone: The seat and the action of each answer to whether to play alone.
        tricks: Each trick as its seats and cards in order; the last one may be unfinished or empty.
        out: The seats that do not play, because their partners play alone.
    """

    dealer: int
    dealt: tuple[tuple[int, ...], ...]
    upcard: int
    bids: tuple[tuple[int, int], ...]
    trump: int | None
    discard: int | None
    alone: tuple[tuple[int, int], ...]
    tricks: tuple[tuple[tuple[int, int], ...], ...]
    out: tuple[int, ...]

    @property
    def declarer(self) -> int | None:
        return self.bids[-1][0] if self.trump is not None else None

    @property
    def ordered(self) -> bool:
        """Whether the dealer took the upcard."""
        return self.trump is not None and len(self.bids) <= 4

    def hand(self, seat: int) -> list[int]:
        cards = [*self.dealt[seat], *([self.upcard] if self.ordered and seat == self.dealer else [])]
        gone = {self.discard, *(card for trick in self.tricks for player, card in trick if player == seat)}
        return [card for card in sorted(cards) if card not in gone]


class Euchre(Game):
    """A card is named by rank and suit: "Js" is the jack of spades, action 4 * rank + suit."""

    default_cases: ClassVar = ("euchre",)
    deal_moves: ClassVar[int] = 75
    written: ClassVar = (
        "In the bidding write pass, order up (the dealer: take it up) or the name of a suit, such as hearts; when "
        "asked whether to play alone, alone or with the partner; for a card its rank and suit, such as Js; for the "
        "dealer's discard the same after the word discard, such as discard 9c."
    )
    unit: ClassVar = "points for your side"
    limits: ClassVar = {"allow_lone_defender": (False, True), "stick_the_dealer": (False, True)}
    budget: ClassVar = (1000, 100)
    margin_unit: ClassVar = 1.0
    result_share: ClassVar = 0.3

    def rules(self) -> str:
        last = (
            "the dealer must name a suit if everybody else has passed twice"
            if self.parameters["stick_the_dealer"]
            else "if all pass again, the deal is over and nobody gets points"
        )
        defender, lone = "", ""
        if self.parameters["allow_lone_defender"]:
            defender = (
                " Then the defenders are asked in turn, until one chooses to play alone against them, likewise without "
                "the partner."
            )
            lone = " (4 if a defender plays alone)"
        return (
            "You are playing one deal of Euchre with 4 players, counted from 0; turns go round from a player to the "
            "next. Players 0 and 2 are partners, and players 1 and 3. A card is written as rank and suit: ranks 9 T J "
            "Q K A from low to high (T is ten), suits c, d, h, s. There are 24 cards: each player is dealt five, the "
            "next one is turned up, three are left over unseen. Bidding begins with the player after the dealer. In "
            "the first round each player may pass or order up: the suit of the upcard becomes trump, and the dealer "
            "takes the upcard and discards another card face down. If all pass, there is a second round: each may "
            f"pass or name one of the other three suits as trump; {last}. Whoever names trump is the declarer, and "
            "chooses to play with the partner or alone, in which case the partner's cards stay out of play."
            f"{defender} The jack of trumps is the highest trump; the other jack of the same colour (clubs and spades, "
            "diamonds and hearts) counts as a trump too, the second highest; then A K Q T 9 of trumps. The player "
            "after the dealer leads, or the next one who plays. Everybody in turn must follow the suit led if "
            "possible. The highest trump takes the trick, or without a trump the highest card of the suit led; the "
            "winner leads. If the declarer's side takes three or four of the five tricks, it gets 1 point; all five, 2 "
            f"points, or 4 if the declarer plays alone. With fewer than three, it loses 2 points{lone}. The other side "
            "gets the negative of it."
        )

    def position(self, state: State, player: int) -> str:
        seen = _read(tuple(state.history()))
        lines = [
            f"Your partner: player {(player + 2) % 4}. Dealer: player {seen.dealer}",
            f"Card turned up: {_name(seen.upcard)}",
            f"Your hand: {_names(seen.hand(player))}",
        ]
        bids = [f"player {seat}: {self._bid(seen, turn, action)}" for turn, (seat, action) in enumerate(seen.bids)]
        lines.append(f"Bids: {', '.join(bids) or 'none'}")
        if seen.trump is not None:
            lines.append(f"Trump: {_SUIT_WORDS[seen.trump]}. Declarer: player {seen.declarer}")
        if seen.ordered and seen.discard is None:
            lines.append("You take the card turned up. Choose your discard among the others.")
        elif seen.ordered:
            own = f"; you discarded {_name(seen.discard or 0)}" if player == seen.dealer else ""
            lines.append(f"The dealer took the card turned up{own}.")
        elif len(seen.bids) >= 4:
            lines.append("The card turned up was not taken.")
        for seat, action in seen.alone:
            lines.append(f"Player {seat} plays {'alone' if action == _ALONE else 'with the partner'}.")
        if not seen.tricks or _ALONE in state.legal_actions():  # a defender may still be asked to play alone
            return "\n".join(lines)
        won = [0, 0]
        for number, trick in enumerate(seen.tricks, 1):
            played = ", ".join(f"player {seat} {_name(card)}" for seat, card in trick)
            if len(trick) == 4 - len(seen.out):
                winner = _winner(trick, seen.trump)
                won[winner % 2] += 1
                lines.append(f"Trick {number}: {played}; taken by player {winner}")
            else:
                lines.append(f"This trick: {played or 'you lead'}")
        lines.append(f"Tricks: your side {won[player % 2]}, the other side {won[1 - player % 2]}")
        return "\n".join(lines)

    def brief(self, state: State, player: int) -> str:
        """Seat, dealer, upcard; hand; trump, bids and who plays alone; this trick; earlier tricks."""
        seen = _read(tuple(state.history()))
        trump = "-" if seen.trump is None else _SUITS[seen.trump]
        asked_alone = _ALONE in state.legal_actions()
        tricks = [
            f"{trick[0][0] if trick else player} {_names([c for _, c in trick])}".rstrip()
            for trick in seen.tricks
            if not asked_alone
        ]
        parts = [
            f"{player} {seen.dealer} {_name(seen.upcard)}",
            _names(seen.hand(player)),
            f"{trump} {''.join(map(_letter, seen.bids))} {''.join(map(_letter, seen.alone))}".rstrip(),
            *tricks[-1:],
            *tricks[:-1],
        ]
        if player == seen.dealer and seen.discard is not None:
            parts.append(f"/{_name(seen.discard)}")
        return "\n".join(parts)

    def action_name(self, state: State, player: int, action: int) -> str:
        if action >= _ALONE:
            return "alone" if action == _ALONE else "with the partner"
        seen = _read(tuple(state.history()))
        if action >= _PASS:
            return self._bid(seen, len(seen.bids), action)
        return f"discard {_name(action)}" if seen.ordered and seen.discard is None else _name(action)

    def notation(self, state: State, player: int) -> Notation:
        seen = _read(tuple(state.history()))
        return _DISCARDED if seen.ordered and seen.discard is None else _PLAYED

    def sensible_action(self, state: State, random: Random) -> int:
        """A bid with three trumps in hand, the weakest card as discard, rarely playing alone, and cards that win
        tricks."""
        seen, legal, player = _read(tuple(state.history())), state.legal_actions(), state.current_player()
        if _ALONE in legal:
            return _ALONE if random.random() < 0.15 else _PARTNER
        if seen.trump is None:
            trumps = {action: self._trumps(seen, player, action - _FIRST_SUIT) for action in legal if action != _PASS}
            best = max(trumps, key=lambda action: (trumps[action], random.random()))
            enough = trumps[best] >= random.choice((2, 3, 3))
            return best if enough or _PASS not in legal else _PASS
        if seen.ordered and seen.discard is None:
            return min(legal, key=lambda card: _strength(card, seen.trump, None))
        trick = seen.tricks[-1]
        led = _suit(trick[0][1], seen.trump) if trick else None
        winner, best_card = next((play for play in trick if play[0] == _winner(trick, seen.trump)), (player, None))
        return choose_card(
            legal,
            lambda card: _strength(card, seen.trump, led),
            best_card,
            partner_wins=(winner - player) % 4 == 2,
            last=len(trick) == 3 - len(seen.out),
            random=random,
        )

    @staticmethod
    def _trumps(seen: _Deal, player: int, suit: int) -> int:
        """The number of trumps a player would have in a suit; in the first round the upcard counts for the dealer."""
        cards = [*seen.dealt[player], *([seen.upcard] if player == seen.dealer and len(seen.bids) < 4 else [])]
        return sum(_suit(card, suit) == suit for card in cards)

    def margin(self, state: State, player: int) -> float:
        """The lead in tricks."""
        if state.is_chance_node():  # the cards are not dealt yet
            return 0
        seen = _read(tuple(state.history()))
        won = [_winner(trick, seen.trump) for trick in seen.tricks if len(trick) == 4 - len(seen.out)]
        return sum(1 if (seat - player) % 2 == 0 else -1 for seat in won)

    def information_key(self, state: State, player: int) -> str:
        return f"{player} {self._key(state, player)}"

    def symmetry_key(self, state: State, player: int) -> str:
        """All seats are equivalent, so the dealer is named by the distance from the player. Suits may be renamed if
        each colour's two suits stay together."""
        key = self._key(state, player)
        hand, rest = key.split("|")
        renamed = ((hand.translate(table).split(), rest.translate(table)) for table in _RENAMINGS)
        return min(f"{' '.join(sorted(cards))}|{others}" for cards, others in renamed)

    def resample(self, state: State, player: int, uniform: Callable[[], float]) -> State:
        """Resample the unseen cards uniformly over the deals in which every play was legal: the other hands, the
        dealer's discard and the three undealt cards."""
        seen = _read(tuple(state.history()))
        others = [seat for seat in _SEATS if seat != player]
        played = {seat: [card for trick in seen.tricks for who, card in trick if who == seat] for seat in _SEATS}
        taken = seen.ordered and seen.upcard not in played[seen.dealer]
        known = {*seen.dealt[player], seen.upcard, *(card for cards in played.values() for card in cards)}
        room = {}
        for seat in others:
            held = seen.hand(seat)
            room[str(seat)] = len(held) - (taken and seat == seen.dealer)
        room["discard"] = int(seen.discard is not None and seen.dealer != player)
        room["left"] = 3
        missing = [_missing(seen, seat) for seat in _SEATS]
        hands = deal(
            [card for card in range(24) if card not in known],
            room,
            lambda holder, card: not holder.isdigit() or _suit(card, seen.trump) not in missing[int(holder)],
            uniform,
        )
        dealt = {player: list(seen.dealt[player])}
        discard = seen.discard if seen.dealer == player else next(iter(hands["discard"]), None)
        for seat in others:
            dealt[seat] = [card for card in played[seat] if card != seen.upcard] + hands[str(seat)]
        if seen.dealer != player:
            dealt[seen.dealer] += hands["discard"]
        copy = self.spiel.new_initial_state()
        copy.apply_action(seen.dealer)
        for turn in range(20):
            copy.apply_action(dealt[(seen.dealer + turn) % 4][turn // 4])
        copy.apply_action(seen.upcard)
        for _, action in seen.bids:
            copy.apply_action(action)
        if discard is not None:
            copy.apply_action(discard)
        for _, action in (*seen.alone, *(play for trick in seen.tricks for play in trick)):
            copy.apply_action(action)
        return copy

    def _key(self, state: State, player: int) -> str:
        """The player's information, with the others named by their distance from the player."""
        seen = _read(tuple(state.history()))
        own = _name(seen.discard) if player == seen.dealer and seen.discard is not None else ""
        plays = [card for trick in seen.tricks for _, card in trick]
        parts = [
            str((seen.dealer - player) % 4),
            _name(seen.upcard),
            "".join(map(_letter, seen.bids)),
            own,
            "".join(map(_letter, seen.alone)),
            _names(plays),
        ]
        return f"{_names(sorted(seen.dealt[player]))}|{'/'.join(parts)}"

    @staticmethod
    def _bid(seen: _Deal, turn: int, action: int) -> str:
        if action == _PASS:
            return "pass"
        if turn >= 4:
            return _SUIT_WORDS[action - _FIRST_SUIT]
        return "take it up" if turn == 3 else "order up"


@lru_cache(maxsize=64)
def _read(history: tuple[int, ...]) -> _Deal:
    dealer, cards, upcard = history[0], history[1:21], history[21]
    dealt = tuple(cards[(seat - dealer) % 4 :: 4] for seat in _SEATS)
    moves = list(history[_FIRST_MOVE:])
    bids: list[tuple[int, int]] = []
    while moves and _PASS <= moves[0] < _ALONE and (not bids or bids[-1][1] == _PASS):
        bids.append(((dealer + 1 + len(bids)) % 4, moves.pop(0)))
    trump = bids[-1][1] - _FIRST_SUIT if bids and bids[-1][1] != _PASS else None
    discard = moves.pop(0) if moves and trump is not None and len(bids) <= 4 else None
    declarer = bids[-1][0] if bids else 0
    asked = [declarer, *(seat for seat in ((dealer + turn) % 4 for turn in range(1, 5)) if (seat - declarer) % 2)]
    alone: list[tuple[int, int]] = []
    while moves and moves[0] >= _ALONE:
        alone.append((asked[len(alone)], moves.pop(0)))
    out = tuple((seat + 2) % 4 for seat, action in alone if action == _ALONE)
    tricks: list[tuple[tuple[int, int], ...]] = []
    if alone:
        seat = _next(dealer, out)
        while True:
            trick = []
            while moves and len(trick) < 4 - len(out):
                trick.append((seat, moves.pop(0)))
                seat = _next(seat, out)
            tricks.append(tuple(trick))
            if len(trick) < 4 - len(out):
                break
            seat = _winner(tuple(trick), trump)
    return _Deal(dealer, dealt, upcard, tuple(bids), trump, discard, tuple(alone), tuple(tricks), out)


def _next(seat: int, out: tuple[int, ...]) -> int:
    seat = (seat + 1) % 4
    return _next(seat, out) if seat in out else seat


def _suit(card: int, trump: int | None) -> int:
    """The effective suit of a card: the jack of the trumps' colour is a trump."""
    suit = card % 4
    return 3 - suit if card // 4 == _JACK and 3 - suit == trump else suit


def _winner(trick: tuple[tuple[int, int], ...], trump: int | None) -> int:
    led = _suit(trick[0][1], trump)
    return max(trick, key=lambda play: _strength(play[1], trump, led))[0]


def _strength(card: int, trump: int | None, led: int | None) -> tuple[bool, bool, int]:
    """The rank of a card in a trick in which a suit was led; the highest takes it."""
    suit, rank = _suit(card, trump), card // 4
    if suit == trump and rank == _JACK:
        rank = 7 if card % 4 == trump else 6
    return suit == trump, suit == led, rank


def _missing(seen: _Deal, seat: int) -> set[int]:
    """The suits of which a seat has no card, as its plays show."""
    found = set()
    for trick in seen.tricks:
        for who, card in trick[1:]:
            led = _suit(trick[0][1], seen.trump)
            if who == seat and _suit(card, seen.trump) != led:
                found.add(led)
    return found


def _letter(move: tuple[int, int]) -> str:
    """A bid or an answer in one sign: a suit by its letter."""
    action = move[1]
    if action == _PASS:
        return "P"
    return ("A" if action == _ALONE else "W") if action >= _ALONE else _SUITS[action - _FIRST_SUIT]


def _name(card: int) -> str:
    return _RANKS[card // 4] + _SUITS[card % 4]


def _names(cards: list[int]) -> str:
    return " ".join(map(_name, cards))
