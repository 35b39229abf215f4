"""Hearts. Rules checked against OpenSpiel's `games/hearts/hearts.cc`.

The game is one deal. With `pass_cards=False` OpenSpiel still draws one of all four directions, and cards are passed,
because its chance outcomes ignore that parameter. OpenSpiel's observation struct shows a player the received cards
before the player has passed, and its resampling ignores which suits players lack. So this file computes both from the
history: pass direction, 52 cards dealt in turn, three cards passed by each player, and the play.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import ClassVar

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.games.cards import deal, shuffle
from veritas_rl.envs.openspiel.notation import Cards, Notation

_RANKS = "23456789TJQKA"
_SUITS = "cdhs"
_CLUBS, _HEARTS, _SPADES = 0, 2, 3
_TWO_OF_CLUBS, _JACK_OF_DIAMONDS, _QUEEN_OF_SPADES = 0, 37, 43
_DIRECTIONS = ("nobody", "the left", "the other side", "the right")
_SEATS = range(4)
_PASSED = Cards({"pass": "", "pass on": ""})
_PLAYED = Cards({"play": "", "lead": ""})


@dataclass(frozen=True)
class _Deal:
    """A deal so far, read from a history.

    Attributes:
        direction: The number of seats by which cards are passed on; 0 for no passing.
        dealt: The cards that each seat was dealt.
        passed: The cards that each seat has passed on so far.
        tricks: Each trick as its leader and its cards in order; the last one may be unfinished or empty.
    """

    direction: int
    dealt: tuple[tuple[int, ...], ...]
    passed: tuple[tuple[int, ...], ...]
    tricks: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def playing(self) -> bool:
        return not self.direction or all(len(cards) == 3 for cards in self.passed)

    def received(self, seat: int) -> tuple[int, ...]:
        """The cards that a seat receives, once all have passed."""
        return self.passed[(seat - self.direction) % 4] if self.direction and self.playing else ()

    def plays(self) -> list[tuple[int, int]]:
        """The seat and the card of each play."""
        return [((leader + turn) % 4, card) for leader, cards in self.tricks for turn, card in enumerate(cards)]

    def hand(self, seat: int) -> list[int]:
        gone = {*self.passed[seat], *(card for player, card in self.plays() if player == seat)}
        return [card for card in sorted({*self.dealt[seat], *self.received(seat)}) if card not in gone]


class Hearts(Game):
    """A card is named by rank and suit: "Qs" is the queen of spades, action 4 * rank + suit."""

    default_cases: ClassVar = ("hearts",)
    deal_moves: ClassVar[int] = 115
    limits: ClassVar = dict.fromkeys(
        (
            "pass_cards",
            "no_pts_on_first_trick",
            "can_lead_any_club",
            "jd_bonus",
            "avoid_all_tricks_bonus",
            "must_break_hearts",
            "qs_breaks_hearts",
            "can_lead_hearts_instead_of_qs",
        ),
        (False, True),
    )
    budget: ClassVar = (500, 50)
    margin_unit: ClassVar = 3.0
    result_share: ClassVar = 0.3

    def rules(self) -> str:
        on = self.parameters
        lines = [
            "You are playing one deal of Hearts with 4 players, counted from 0; the next player is on a player's left. "
            "A card is written as rank and suit: ranks 2 3 4 5 6 7 8 9 T J Q K A from low to high (T is ten), suits c, "
            "d, h, s. Each player is dealt 13 cards."
        ]
        lines.append(
            "By chance either nothing is passed, or every player passes three cards to the player on the left, across "
            "or on the right. Nobody sees what is passed to them before all have passed."
        )
        club = "any club" if on["can_lead_any_club"] else "the 2c"
        lines.append(
            f"Whoever holds the 2c leads {club} to the first trick. Everybody in turn plays one card and must follow "
            "the suit led if possible. The highest card of the suit led takes the trick and leads the next one."
        )
        if on["no_pts_on_first_trick"]:
            lines.append(
                "In the first trick nobody may play a heart or the Qs, except with nothing else in hand and no club."
            )
        if on["must_break_hearts"]:
            breaks = "a heart or the Qs" if on["qs_breaks_hearts"] else "a heart"
            unless = "hearts" if not on["can_lead_hearts_instead_of_qs"] else "hearts, or only hearts and the Qs,"
            lines.append(
                f"Nobody may lead a heart before {breaks} has been played, except a player with only {unless} in hand."
            )
        jack = ", and the Jd takes 10 points off" if on["jd_bonus"] else ""
        lines.append(
            f"Each heart taken counts 1 point and the Qs 13{jack}. A player who takes all hearts and the Qs has 26 "
            "points fewer in the end, and each other player 26 more."
        )
        if on["avoid_all_tricks_bonus"]:
            lines.append("Otherwise a player who takes no trick has 5 points fewer.")
        lines.append("The fewest points are the best result, and players are ranked by them.")
        return " ".join(lines)

    def position(self, state: State, player: int) -> str:
        seen = _read(tuple(state.history()))
        to = "nothing is passed" if not seen.direction else f"three cards to player {(player + seen.direction) % 4}"
        lines = [f"Passing: {to}" + (f" ({_DIRECTIONS[seen.direction]})" if seen.direction else "")]
        lines.append(f"Your hand: {_names(seen.hand(player))}")
        if seen.passed[player]:
            lines.append(f"You passed: {_names(sorted(seen.passed[player]))}")
        if seen.received(player):
            giver = (player - seen.direction) % 4
            lines.append(f"You received from player {giver}: {_names(sorted(seen.received(player)))}")
        if not seen.playing:
            lines.append("Choose a card to pass.")
            return "\n".join(lines)
        points, taken = [0] * 4, [0] * 4
        for number, (leader, cards) in enumerate(seen.tricks, 1):
            played = ", ".join(f"player {(leader + turn) % 4} {_name(card)}" for turn, card in enumerate(cards))
            if len(cards) == 4:
                winner = _winner(leader, cards)
                points[winner] += self._points(cards)
                taken[winner] += 1
                lines.append(f"Trick {number}: {played}; taken by player {winner}")
            else:
                lines.append(f"This trick: {played or 'you lead'}")
        lines.append("Points taken: " + ", ".join(f"player {seat}: {points[seat]}" for seat in _SEATS))
        lines.append(f"Hearts may be led: {'yes' if state.hearts_broken() else 'not yet'}")
        return "\n".join(lines)

    def brief(self, state: State, player: int) -> str:
        """Seat and pass; hand; this trick; earlier tricks with their leaders; passed and received cards."""
        seen = _read(tuple(state.history()))
        *before, last = [f"{leader} {_names(cards)}".rstrip() for leader, cards in seen.tricks] or [""]
        parts = [
            f"{player} {seen.direction}",
            _names(seen.hand(player)),
            last,
            *before,
            f"{_names(sorted(seen.passed[player]))}/{_names(sorted(seen.received(player)))}",
        ]
        return "\n".join(parts)

    def action_name(self, state: State, player: int, action: int) -> str:
        return _name(action)

    def notation(self, state: State, player: int) -> Notation:
        return _PLAYED if _read(tuple(state.history())).playing else _PASSED

    def sensible_action(self, state: State, random: Random) -> int:
        """High cards to pass; in tricks, cards that lose, and cards that cost points if another suit was led."""
        seen, legal = _read(tuple(state.history())), state.legal_actions()
        if random.random() < 0.1:  # players judge cards differently
            return random.choice(legal)
        if not seen.playing:
            return max(legal, key=_danger)
        cards = seen.tricks[-1][1]
        if not cards:
            return min(legal, key=lambda card: (card // 4, random.random()))
        following = [card for card in legal if card % 4 == cards[0] % 4]
        if not following:
            return max(legal, key=_danger)
        highest = max(card for card in cards if card % 4 == cards[0] % 4)
        below = [card for card in following if card < highest]
        if below:
            return max(below)
        safe = [card for card in following if card != _QUEEN_OF_SPADES] or following
        return max(safe) if len(cards) == 3 else min(safe)

    def margin(self, state: State, player: int) -> float:
        """The mean points of the others minus the player's points."""
        over, returns = state.is_terminal(), state.returns()
        points = [-returns[seat] if over else state.points(seat) for seat in _SEATS]
        return (sum(points) - 4 * points[player]) / 3

    def information_key(self, state: State, player: int) -> str:
        return f"{player} {self.symmetry_key(state, player)}"

    def symmetry_key(self, state: State, player: int) -> str:
        """All seats are equivalent, so players are named by their distance to the left."""
        seen = _read(tuple(state.history()))
        first = (seen.tricks[0][0] - player) % 4 if seen.tricks else "-"
        parts = [
            f"{seen.direction} {first}",
            _names(sorted(seen.dealt[player])),
            _names(sorted(seen.passed[player])),
            _names(sorted(seen.received(player))),
            _names([card for _, card in seen.plays()]),
        ]
        return "/".join(parts)

    def resample(self, state: State, player: int, uniform: Callable[[], float]) -> State:
        """Resample the hidden cards: uniformly over the hands that are consistent with the play, and over the cards
        that the other players passed.

        A hand is consistent if each of its plays was legal: it has no card of a suit that was not followed, and no card
        that would have forbidden leading a heart early or playing points in the first trick.
        """
        seen = _read(tuple(state.history()))
        others = [seat for seat in _SEATS if seat != player]
        own = {*seen.dealt[player], *seen.received(player)}
        if seen.playing:
            dealt, passed = self._redeal(seen, player, uniform)
        else:
            unseen = [card for card in range(52) if card not in own]
            hands = deal(unseen, {str(seat): 13 for seat in others}, lambda _, __: True, uniform)
            dealt = {player: list(seen.dealt[player]), **{seat: hands[str(seat)] for seat in others}}
            passed = {seat: shuffle(dealt[seat], uniform)[: len(seen.passed[seat])] for seat in others}
            passed[player] = list(seen.passed[player])
        copy = self.spiel.new_initial_state()
        copy.apply_action(seen.direction)
        for turn in range(13):
            for seat in _SEATS:
                copy.apply_action(dealt[seat][turn])
        for seat in _SEATS:
            for card in passed[seat]:
                copy.apply_action(card)
        for _, card in seen.plays():
            copy.apply_action(card)
        return copy

    def _redeal(
        self, seen: _Deal, player: int, uniform: Callable[[], float]
    ) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """The cards dealt to each seat and passed by it, drawn consistent with the play."""
        others = [seat for seat in _SEATS if seat != player]
        played = {seat: [card for who, card in seen.plays() if who == seat] for seat in _SEATS}
        own = {*seen.dealt[player], *seen.received(player)}
        target = (player + seen.direction) % 4
        given = [card for card in seen.passed[player] if card not in played[target]]
        gone = {card for cards in played.values() for card in cards}
        unseen = [card for card in range(52) if card not in own and card not in gone]
        barred = self._barred(seen)
        room = {str(seat): 13 - len(played[seat]) - (len(given) if seat == target else 0) for seat in others}
        hands = deal(unseen, room, lambda seat, card: card not in barred[int(seat)], uniform)
        held = {seat: [*played[seat], *hands[str(seat)], *(given if seat == target else [])] for seat in others}
        if not seen.direction:
            return {player: list(seen.dealt[player]), **held}, {seat: [] for seat in _SEATS}
        passed = {player: list(seen.passed[player])}
        for seat in others:
            to = (seat + seen.direction) % 4
            passed[seat] = list(seen.passed[seat]) if to == player else shuffle(held[to], uniform)[:3]
        dealt = {player: list(seen.dealt[player])}
        for seat in others:
            got = passed[(seat - seen.direction) % 4]
            dealt[seat] = [card for card in held[seat] if card not in got] + passed[seat]
        return dealt, passed

    def _barred(self, seen: _Deal) -> list[set[int]]:
        """The cards that each seat cannot have, because one of its plays would have been illegal."""
        barred: list[set[int]] = [set() for _ in _SEATS]
        on = self.parameters
        points = {card for card in range(52) if card % 4 == _HEARTS} | {_QUEEN_OF_SPADES}
        broken = not on["must_break_hearts"]
        for number, (leader, cards) in enumerate(seen.tricks):
            for turn, card in enumerate(cards):
                seat = (leader + turn) % 4
                if turn and card % 4 != cards[0] % 4:
                    barred[seat] |= {other for other in range(52) if other % 4 == cards[0] % 4}
                    if number == 0 and on["no_pts_on_first_trick"] and card in points:
                        barred[seat] |= set(range(52)) - points
                if not turn and card % 4 == _HEARTS and not broken:
                    barred[seat] |= {other for other in range(52) if other % 4 != _HEARTS}
                    if on["can_lead_hearts_instead_of_qs"]:
                        barred[seat].discard(_QUEEN_OF_SPADES)
                broken |= card % 4 == _HEARTS or (card == _QUEEN_OF_SPADES and on["qs_breaks_hearts"])
        return barred

    def _points(self, cards: tuple[int, ...]) -> int:
        jack = -10 if self.parameters["jd_bonus"] else 0
        return sum(
            (card % 4 == _HEARTS) + 13 * (card == _QUEEN_OF_SPADES) + jack * (card == _JACK_OF_DIAMONDS)
            for card in cards
        )


@lru_cache(maxsize=64)
def _read(history: tuple[int, ...]) -> _Deal:
    direction, cards = history[0], history[1:53]
    dealt = tuple(cards[seat::4] for seat in _SEATS)
    start = 65 if direction else 53
    passes = history[53:65] if direction else ()
    passed = tuple(passes[3 * seat : 3 * seat + 3] for seat in _SEATS)
    if len(history) < start:
        return _Deal(direction, dealt, passed, ())
    leader = next(seat for seat in _SEATS if _TWO_OF_CLUBS in dealt[seat])
    if _TWO_OF_CLUBS in passed[leader]:
        leader = (leader + direction) % 4
    tricks = []
    for first in range(start, len(history) + 1, 4):
        trick = history[first : first + 4]
        tricks.append((leader, trick))
        if len(trick) == 4:
            leader = _winner(leader, trick)
    return _Deal(direction, dealt, passed, tuple(tricks))


def _winner(leader: int, cards: tuple[int, ...]) -> int:
    following = [(card, turn) for turn, card in enumerate(cards) if card % 4 == cards[0] % 4]
    return (leader + max(following)[1]) % 4


def _danger(card: int) -> tuple[int, int]:
    """How dangerous a card is to keep, as a sort key."""
    if card == _QUEEN_OF_SPADES:
        return 3, 0
    return (2 if card % 4 == _SPADES and card > _QUEEN_OF_SPADES else 1 if card % 4 == _HEARTS else 0), card // 4


def _name(card: int) -> str:
    return _RANKS[card // 4] + _SUITS[card % 4]


def _names(cards: tuple[int, ...] | list[int]) -> str:
    return " ".join(map(_name, cards))
