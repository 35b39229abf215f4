"""The double dummy solver for bridge, DDS by Bo Haglund, through endplay.

`Bridge.resample` samples several deals of the hidden cards, with random numbers that depend only on the player's
information. The solver solves each deal with all cards open. The value of a card is the mean value of the resulting
scores. The value of a call is the mean value of the contract if all players pass after the call. So no value depends on
the true hidden cards, but the solver plays all later cards as if every card were visible.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, TypeGuard

from veritas_rl.envs.openspiel.engines.process import EngineError, find_library
from veritas_rl.envs.openspiel.engines.spec import EngineSpec
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.games.bridge import Bridge
from veritas_rl.seeding import generator

RANKS, SUITS = "23456789TJQKA", "CDHS"
"""Action 4 * rank + suit is a card, with the indices of its rank and suit in these strings."""
FIRST_CALL = 52
"""The first action that is a call; lower actions are cards."""

Contract = tuple[int, int, int, int]
"""Level; denomination (0 to 4 for C, D, H, S, NT); 1, 2 or 4 for undoubled, doubled or redoubled; declarer."""


class DoubleDummy:
    """The solver as an engine.

    Args:
        spec: The engine's name and the number of deals per decision.

    Raises:
        UserError: endplay is not installed.
    """

    def __init__(self, spec: EngineSpec) -> None:
        self._dds = find_library(spec, "endplay.dds.solve")
        self._types = find_library(spec, "endplay.types")
        self._deals = spec.limit

    def values(self, game: Game, state: State, player: int, scale: str) -> dict[int, float]:
        assert is_bridge(game)
        actions, key = state.legal_actions(), game.information_key(state, player)
        totals = dict.fromkeys(actions, 0.0)
        for index in range(self._deals):
            uniform = generator("double dummy", game.case, key, index).random
            world = World(self._dds, self._types, game, game.resample(state, player, uniform))
            scores = world.scores_of_calls(actions) if actions[0] >= FIRST_CALL else world.scores_of_cards()
            if scores.keys() != totals.keys():
                raise EngineError(f"dds valued {len(scores)} of {len(totals)} cards")
            for action, score in scores.items():
                returns = [score if seat % 2 == 0 else -score for seat in range(4)]
                totals[action] += game.outcome(returns, player, scale)
        return {action: total / self._deals for action, total in totals.items()}

    def move(self, game: Game, state: State, player: int) -> int:
        values = self.values(game, state, player, "utility")
        return max(values, key=lambda action: values[action])  # the lowest of equal actions: pass, or a low card

    def close(self) -> None:
        """Do nothing, because the solver has no process."""

    def abandon(self) -> None:
        """Do nothing, because the solver has no process."""


class World:
    """One deal with all hands known.

    Args:
        dds: endplay's module of solvers.
        types: endplay's types.
        game: The game.
        state: The state to play from.
    """

    def __init__(self, dds: Any, types: Any, game: Bridge, state: State) -> None:
        self._dds = dds
        self._types = types
        self._game = game
        self._state = state
        self._tricks: dict[tuple[int, int], int] = {}

    @cached_property
    def _deal(self) -> Any:
        return self._game.deal_of(self._state)

    def scores_of_cards(self) -> dict[int, int]:
        """For each legal card, the score of North and South if all players play optimally after it."""
        deal = self._deal
        *_, (leader, trick) = deal.tricks
        _, denomination, _, declarer = deal.contract
        known = self._types.Deal(
            self.pbn(trick, leader), first=self._types.Player(leader), trump=self._denomination(denomination)
        )
        for card in trick:
            known.play(self._card(card))
        won = sum(winner % 2 == declarer % 2 for winner, _ in deal.tricks[1:])
        left = 14 - len(deal.tricks)
        declares = deal.turn % 2 == declarer % 2
        return {
            action: self._score(deal.contract, won + (tricks if declares else left - tricks))
            for action, tricks in sorted(self._solved(known))
        }

    def scores_of_calls(self, actions: list[int]) -> dict[int, int]:
        """For each call, the score of North and South if all players pass after it."""
        contracts = {action: self._game.deal_of(self._state, action).contract for action in actions}
        return {
            action: self._score(contract, self._made(contract[1], contract[3])) if contract else 0
            for action, contract in contracts.items()
        }

    def _solved(self, deal: Any) -> Iterator[tuple[int, int]]:
        """Each legal card, as an action, and the number of further tricks that its player's side wins."""
        for card, tricks in self._dds.solve_board(deal):
            yield 4 * RANKS.index(card.rank.abbr) + 3 - int(card.suit), tricks

    def _made(self, denomination: int, declarer: int) -> int:
        """The number of tricks that a declarer wins."""
        if (denomination, declarer) not in self._tricks:
            leader = (declarer + 1) % 4
            deal = self._types.Deal(
                self.pbn((), leader), first=self._types.Player(leader), trump=self._denomination(denomination)
            )
            ((_, tricks), *_) = self._dds.solve_board(deal, self._dds.SolveMode.OptimalOne)
            self._tricks[denomination, declarer] = 13 - tricks
        return self._tricks[denomination, declarer]

    def _score(self, contract: Contract, tricks: int) -> int:
        """The score of North and South for a contract in which the declarer wins this number of tricks."""
        level, denomination, doubled, declarer = contract
        found = self._types.Contract(
            level=level,
            denom=self._denomination(denomination),
            declarer=self._types.Player(declarer),
            penalty=self._types.Penalty(doubled),
            result=tricks - 6 - level,
        )
        vulnerable = self._game.is_vulnerable(declarer)
        score = found.score(self._types.Vul.both if vulnerable else self._types.Vul.none)
        return score if declarer % 2 == 0 else -score

    def pbn(self, trick: tuple[int, ...], leader: int) -> str:
        """The hands at the start of the trick, in Portable Bridge Notation."""
        on_table = {(leader + turn) % 4: card for turn, card in enumerate(trick)}
        hands = []
        for seat in range(4):
            cards: list[int] = [*self._deal.hand(seat), *([on_table[seat]] if seat in on_table else [])]
            cards.sort(reverse=True)
            suits = ("".join(RANKS[card // 4] for card in cards if card % 4 == suit) for suit in (3, 2, 1, 0))
            hands.append(".".join(suits))
        return "N:" + " ".join(hands)

    def _card(self, action: int) -> Any:
        return self._types.Card(SUITS[action % 4] + RANKS[action // 4])

    def _denomination(self, denomination: int) -> Any:
        return self._types.Denom(4 if denomination == 4 else 3 - denomination)


def is_bridge(game: Game) -> TypeGuard[Bridge]:
    """Whether a case is contract bridge."""
    return isinstance(game, Bridge)
