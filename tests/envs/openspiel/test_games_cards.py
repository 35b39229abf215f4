"""Card games: prompts show nothing hidden, and resampled deals agree with the player's information."""

import random
from collections import Counter
from collections.abc import Callable, Iterator

import pyspiel
import pytest

from veritas_rl.envs.openspiel import text
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Decision, State
from veritas_rl.envs.openspiel.games.cards import deal

Games = Callable[[str, int], Iterator[list[State]]]
Decisions = Callable[[str, int], list[Decision]]

CASES = (
    "gin_rummy",
    "gin_rummy(hand_size=7,knock_card=8)",
    "gin_rummy(oklahoma=True)",
    "blackjack",
    "hearts",
    "hearts(avoid_all_tricks_bonus=True,can_lead_hearts_instead_of_qs=True,jd_bonus=True)",
    "hearts(must_break_hearts=False,no_pts_on_first_trick=False,pass_cards=False)",
    "euchre",
    "euchre(allow_lone_defender=True,stick_the_dealer=False)",
    "bridge(dealer=2,dealer_vul=True,use_double_dummy_result=False)",
    "cribbage",
)


@pytest.mark.parametrize("case", CASES)
def test_every_prompt_of_random_games_is_made(case: str, games: Games) -> None:
    game = load(case)
    for *states, _ in games(case, 3 if "cribbage" in case else 6):
        for state in states:
            seat = state.current_player()
            names = game.action_names(state, seat)
            assert all("number" not in name for name in names.values())  # names are unique
            for prompt in ("full", "brief"):
                assert text.messages(game, state, seat, names, prompt)[0]["content"]


@pytest.mark.parametrize("case", CASES)
def test_resampled_cards_agree_with_what_the_player_knows(case: str, some_decisions: Decisions) -> None:
    game = load(case)
    assert game.can_resample
    varied = 0
    for index, (state, seat) in enumerate(some_decisions(case, 60)):
        uniform = random.Random(index).random
        other = game.resample(state, seat, uniform)
        assert game.information_key(state, seat) == game.information_key(other, seat)
        assert game.symmetry_key(state, seat) == game.symmetry_key(other, seat)
        names = game.action_names(state, seat)
        assert names == game.action_names(other, seat)
        for prompt in ("full", "brief"):
            assert text.messages(game, state, seat, names, prompt) == text.messages(game, other, seat, names, prompt)
        varied += str(state) != str(other)
    assert varied > (5 if "cribbage" in case else 25)


@pytest.mark.parametrize("case", CASES)
def test_every_play_stays_legal_when_dealt_again(case: str, some_decisions: Decisions) -> None:
    game = load(case)
    for index, (state, seat) in enumerate(some_decisions(case, 40)):
        copy = game.spiel.new_initial_state()
        for action in game.resample(state, seat, random.Random(index).random).history():
            assert copy.is_chance_node() or action in copy.legal_actions()
            copy.apply_action(action)


def test_a_deal_is_uniform_among_those_allowed() -> None:
    """Of five cards, a may not hold card 0 and only b may hold card 1: all allowed deals, counted by hand."""

    def may_hold(holder: str, card: int) -> bool:
        return holder != "a" if card == 0 else holder == "b" if card == 1 else True

    random_ = random.Random(2)
    drawn = Counter()
    for _ in range(3000):
        hands = deal(range(5), {"a": 2, "b": 2, "c": 1}, may_hold, random_.random)
        drawn[tuple(tuple(sorted(hand)) for hand in hands.values())] += 1
    # If b has 1 and 0, c has one of three other cards: 3 deals. If b has 1 and one of those three, c has 0: 3 deals.
    assert len(drawn) == 6
    assert max(drawn.values()) < 600
    assert min(drawn.values()) > 400
    with pytest.raises(pyspiel.SpielError, match="no deal"):
        deal(range(2), {"a": 2}, may_hold, random_.random)
