"""Gin rummy. Rules checked against OpenSpiel's `games/gin_rummy/gin_rummy.cc` and `gin_rummy_utils.cc`.

The game is one hand. J, Q and K count 10. Knocking, laying down melds and laying off are consecutive single actions.
Melds have at most five cards, so a longer run is laid down as two melds. OpenSpiel's own resampling depends on the true
hand and leaves it in the history, so neither this resampling nor the search that uses it is used.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from random import Random
from typing import Any, ClassVar

import pyspiel

from veritas_rl.envs.openspiel.games.base import Game, State
from veritas_rl.envs.openspiel.games.cards import shuffle, sorted_cards, suit_renamings
from veritas_rl.envs.openspiel.notation import Cards, Notation

_RANKS = "A23456789TJQK"
_SUITS = "scdh"
_UPCARD, _STOCK, _PASS, _KNOCK, _MELDS = 52, 53, 54, 55, 56
_RENAMINGS = suit_renamings(_SUITS)
_PHASES = {
    "FirstUpcard": "first turn: take the upcard or pass",
    "Draw": "draw",
    "Discard": "discard, or knock",
    "Knock": "you have knocked: discard, then lay down melds, then pass",
    "Layoff": "your opponent has knocked: lay off cards, then pass, then lay down your melds, then pass",
    "Wall": "the stock is used up: pass, or knock with the upcard",
    "GameOver": "the hand is over",
}
_NOTATION = Cards(
    {
        **dict.fromkeys(("discard", "throw", "throw away"), "discard"),
        **dict.fromkeys(("lay off", "layoff"), "lay off"),
        **dict.fromkeys(("meld", "lay down", "lay down meld", "lay"), "meld"),
    },
    {
        **dict.fromkeys(("upcard", "the upcard", "take upcard", "take the upcard", "draw the upcard"), "draw upcard"),
        **dict.fromkeys(("stock", "draw from stock", "draw from the stock", "draw the stock"), "draw stock"),
    },
)


class GinRummy(Game):
    """A card is named by rank and suit: "Ts" is the ten of spades, action 13 * suit + rank."""

    default_cases: ClassVar = ("gin_rummy",)
    screening_moves: ClassVar = 400
    deal_moves: ClassVar[int] = 270
    written: ClassVar = (
        "A move is written as draw upcard, draw stock, pass, knock, discard 6s, lay off 6s, or meld 4s 5s 6s."
    )
    limits: ClassVar = {
        "hand_size": (7, 10),
        "knock_card": (0, 10),
        "gin_bonus": (0, 100),
        "undercut_bonus": (0, 100),
        "oklahoma": (False, True),
    }
    budget: ClassVar = (500, 10)
    playout_moves: ClassVar = 4
    margin_unit: ClassVar = 20.0
    return_unit: ClassVar = 25.0
    # Many walks end before their last third.
    walk_thirds: ClassVar = (2, 0, 2, 2)

    def rules(self) -> str:
        size, knock, gin, undercut = (
            self.parameters[name] for name in ("hand_size", "knock_card", "gin_bonus", "undercut_bonus")
        )
        limit = f"at most {knock}"
        if self.parameters["oklahoma"]:
            limit = "at most the value of the first upcard (0 if that is an ace)"
        return (
            "You are playing one hand of gin rummy with 2 players and 52 cards. A card is written as rank and suit: "
            "ranks A 2 3 4 5 6 7 8 9 T J Q K from low to high (T is ten), suits s, c, d, h. An ace counts 1, T, J, Q "
            f"and K count 10, others their number. Each player is dealt {size} cards; the next card is the "
            "upcard, the rest is the face-down stock. A meld is three or four cards of one rank, or a run of three to "
            "five "
            "consecutive cards of one suit (ace low only). Deadwood is the value of the cards that are in no meld. "
            "First turn: player 0 may take the upcard or pass; after a pass player 1 may; if both pass, player 0 "
            "draws from the stock. Afterwards players alternate: draw the upcard (the card just discarded) or the "
            "top card of the stock, then discard one card, which becomes the upcard; an upcard that is not taken "
            "goes to the discard pile. Instead of discarding, a player whose deadwood, with one card discarded, is "
            f"{limit} may knock: the knocker discards, lays down melds one by one until the rest is {limit}, and "
            "passes. Then the opponent may lay off cards on the knocker's melds, unless the knocker has no deadwood "
            "(gin), passes, lays down own melds, and passes. The knocker's return is the opponent's deadwood minus "
            f"the knocker's, plus {gin} for gin; if that is negative (undercut), {undercut} more is taken off. The "
            "opponent gets the negative of it. The hand is a draw if only two cards are left "
            "in the stock after a discard and the next player does not knock (such a knock takes the upcard too), if "
            "both players in a row take an upcard and discard that same card again, or when an upcard is drawn for "
            "the 50th time, first turn not counted."
        )

    def position(self, state: State, player: int) -> str:
        seen, other = state.to_observation_struct(player), 1 - player
        hand = self._cards(seen.hands[player])
        if seen.phase in ("Knock", "Layoff"):
            worth = f"value {seen.deadwood[player]}"
        else:
            after = " after the best discard" if seen.phase == "Discard" else ""
            worth = f"deadwood{after} {seen.deadwood[player]}"
        phase = _PHASES[seen.phase]
        if seen.phase == "FirstUpcard" and all(seen.pass_on_first_upcard):
            phase = "first turn: both players have passed, so draw from the stock"
        lines = [
            f"Phase: {phase}",
            f"Your hand: {hand} ({worth})",
            f"Upcard: {seen.upcard or 'none'}",
            f"Discard pile, oldest first: {self._discarded(state, player, seen.discard_pile) or 'none'}",
            f"Cards in the stock: {seen.stock_size}",
        ]
        if seen.phase == "FirstUpcard" and any(seen.pass_on_first_upcard):
            passed = [f"player {seat}" for seat, has_passed in enumerate(seen.pass_on_first_upcard) if has_passed]
            lines.append(f"Passed on the upcard: {', '.join(passed)}")
        if self.parameters["oklahoma"]:
            lines.append(f"Most deadwood to knock: {seen.knock_card}")
        if seen.phase == "Layoff":
            lines.append(f"Your opponent's cards outside melds: {self._cards(seen.hands[other]) or 'none'}")
        else:
            lines.append(f"Known in your opponent's hand: {self._known(state, other) or 'none'}")
            lines.append(f"Known to your opponent in your hand: {self._known(state, player) or 'none'}")
            lines.append(f"Upcards drawn so far: {self._drawn(state)}")
            if seen.phase == "Draw" and state.full_history()[-1].action == self._last_taken(state):
                lines.append("Your opponent has just taken this upcard and discarded it again.")
        for seat, owner in ((player, "You"), (other, "Your opponent")):
            melds = [" ".join(meld) for meld in seen.layed_melds[seat]]
            if melds:
                lines.append(f"{owner} laid down: {'; '.join(melds)}")
        if seen.layoffs:
            lines.append(f"Laid off on your opponent's melds: {' '.join(seen.layoffs)}")
        if seen.phase == "Layoff" and seen.finished_layoffs:
            lines.append("Laying off is over.")
        return "\n".join(lines)

    def brief(self, state: State, player: int) -> str:
        """Own cards; upcard and discard pile; known cards of the opponent; stock, phase and melds laid down."""
        seen = state.to_observation_struct(player)
        melds = [" ".join(meld) for seat in (player, 1 - player) for meld in seen.layed_melds[seat]]
        parts = [
            self._cards(seen.hands[player]),
            " ".join([seen.upcard or "-", *reversed(seen.discard_pile)]),
            self._cards(seen.hands[1 - player]) if seen.phase == "Layoff" else self._known(state, 1 - player),
            f"{seen.phase[:2]} {seen.stock_size} {seen.knock_card}",
            *melds,
            *([" ".join(seen.layoffs)] if seen.layoffs else []),
        ]
        return "\n".join(parts)

    def action_name(self, state: State, player: int, action: int) -> str:
        if action < _UPCARD:
            return f"{'lay off' if state.current_phase().name == 'LAYOFF' else 'discard'} {_card(action)}"
        if action >= _MELDS:
            text = state.action_to_string(player, action).rpartition(" ")[2]
            return "meld " + " ".join(text[start : start + 2] for start in range(0, len(text), 2))
        return {_UPCARD: "draw upcard", _STOCK: "draw stock", _PASS: "pass", _KNOCK: "knock"}[action]

    def notation(self, state: State, player: int) -> Notation:
        return _NOTATION

    @property
    def stakes(self) -> bool:
        """True, because a hand is played for points."""
        return True

    def margin(self, state: State, player: int) -> float:
        """Minus the player's own deadwood, because the opponent's deadwood is hidden."""
        return -state.deadwood()[player]

    def information_key(self, state: State, player: int) -> str:
        hand, events = self._recall(state, player)
        return f"{player} {self._cards(hand)} {events}"

    def symmetry_key(self, state: State, player: int) -> str:
        """Suits may be renamed, because they are equal."""
        hand, events = self._recall(state, player)
        cards = " ".join(hand)
        renamed = ((cards.translate(table).split(), _sorted_melds(events.translate(table))) for table in _RENAMINGS)
        return f"{player} {min(' '.join([*sorted(one), two]) for one, two in renamed)}"

    def sensible_action(self, state: State, random: Random) -> int:
        """The upcard if it leaves less deadwood, the discard that leaves the least, usually a knock as soon as it is
        allowed, all melds, and all cards that can be laid off."""
        legal, phase = state.legal_actions(), state.current_phase().name
        utils, hand = self._utils, state.hands()[state.current_player()]
        if phase in ("KNOCK", "LAYOFF"):
            melds = [action for action in legal if action >= _MELDS]
            cards = [action for action in legal if action < _UPCARD]
            if phase == "KNOCK" and cards:
                return min(cards, key=lambda card: utils.min_deadwood([other for other in hand if other != card]))
            return random.choice(melds or cards or legal)
        if _KNOCK in legal and random.random() < 0.8:
            return _KNOCK
        if _UPCARD in legal:
            better = utils.min_deadwood(hand, state.upcard()) < utils.min_deadwood(hand)
            return _UPCARD if better else _STOCK if _STOCK in legal else _PASS
        discards = [action for action in legal if action < _UPCARD]
        if not discards:
            return random.choice(legal)
        # Among equal ones, the card with the most points.
        return min(
            discards,
            key=lambda card: (utils.min_deadwood([other for other in hand if other != card]), -min(card % 13, 9)),
        )

    def resample(self, state: State, player: int, uniform: Callable[[], float]) -> State:
        """The opponent's cards that the player has never seen, resampled uniformly from all such cards."""
        size, steps = self.parameters["hand_size"], state.full_history()
        if state.current_phase().name == "LAYOFF":
            return state.clone()  # both hands are visible
        seen: set[int] = set()
        hidden: list[int] = []
        for place, step in enumerate(steps):
            if place < 2 * size:
                mine = place // size == player
            else:
                mine = step.player >= 0 or steps[place - 1].player != 1 - player
            if mine and step.action < _UPCARD:
                seen.add(step.action)
            elif not mine:
                hidden.append(place)
        history = [step.action for step in steps]
        hidden = [place for place in hidden if history[place] not in seen]  # other hidden cards were discarded later
        dealt = shuffle([card for card in range(_UPCARD) if card not in seen], uniform)
        for place in hidden:
            history[place] = dealt.pop()
        copy = self.new_game()
        for action in history:
            copy.apply_action(action)
        return copy

    @cached_property
    def _utils(self) -> Any:
        return pyspiel.gin_rummy.GinRummyUtils(13, 4, self.parameters["hand_size"])

    def _recall(self, state: State, player: int) -> tuple[list[str], str]:
        """The cards dealt to a player, and all later events that the player saw, in order: cards by name, draws of a
        hidden card as X, other actions by letter."""
        size = self.parameters["hand_size"]
        steps: list[Any] = state.full_history()
        hand = [_card(step.action) for step in steps[player * size : (player + 1) * size]]
        events, drawer = [], -1
        for step in steps[2 * size :]:
            if step.player < 0:
                events.append("X" if drawer == 1 - player else _card(step.action))
            elif step.action < _UPCARD:
                events.append(_card(step.action))
            else:
                events.append("USPK"[step.action - _UPCARD] if step.action < _MELDS else f"M{step.action}")
            drawer = step.player
        if any(event[0] == "M" for event in events):
            # The number of a meld does not show its suits, but its cards do.
            events = [_meld(state, event) if event[0] == "M" else event for event in events]
        return hand, " ".join(events)

    def _known(self, state: State, player: int) -> str:
        return self._cards([_card(card) for card in state.known_cards()[player]])

    def _discarded(self, state: State, player: int, pile: Sequence[str]) -> str:
        """The discard pile, each card with the player who discarded it last; nobody discarded the first upcard."""
        last = {_card(step.action): step.player for step in state.full_history() if 0 <= step.action < _UPCARD}
        names = {player: "you", 1 - player: "your opponent"}
        return ", ".join(f"{card} ({names.get(last[card], 'first upcard')})" for card in pile)

    def _drawn(self, state: State) -> int:
        """The upcards drawn after the first turn."""
        size = self.parameters["hand_size"]
        moves = [step.action for step in state.full_history()[2 * size + 1 :] if step.player >= 0]
        first = moves[:1] == [_UPCARD] or moves[:2] == [_PASS, _UPCARD]
        return moves.count(_UPCARD) - first

    @staticmethod
    def _last_taken(state: State) -> int:
        """The card that the last mover drew openly before discarding; -1 if it came from the stock."""
        steps = state.full_history()
        if len(steps) < 3 or steps[-2].player < 0 or steps[-2].action != _UPCARD:
            return -1
        for step in reversed(steps[:-2]):
            if step.action < _UPCARD:
                return step.action
        return -1

    @staticmethod
    def _cards(cards: list[str]) -> str:
        return " ".join(sorted_cards(cards, _RANKS, _SUITS))


def _card(action: int) -> str:
    return _RANKS[action % 13] + _SUITS[action // 13]


def _sorted_melds(events: str) -> str:
    """The events with the cards of each meld in an order that does not depend on the names of suits."""
    if "M" not in events:
        return events
    parts = events.split()
    for index, part in enumerate(parts):
        if part[0] == "M":
            parts[index] = "M" + "".join(sorted(part[start : start + 2] for start in range(1, len(part), 2)))
    return " ".join(parts)


def _meld(state: State, event: str) -> str:
    return "M" + state.action_to_string(0, int(event[1:])).rpartition(" ")[2]
