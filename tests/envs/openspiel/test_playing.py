"""Chance outcomes follow their probabilities and depend only on the chance seed; histories can be replayed."""

from collections import Counter

import pytest

from veritas_rl.envs.openspiel import playing
from veritas_rl.envs.openspiel.cases import load


def test_the_deals_of_a_game_are_those_of_its_chance_seed() -> None:
    def dealt(seed: str) -> list[int]:
        state = load("leduc_poker").spiel.new_initial_state()
        playing.deal(state, seed)
        return state.history()

    hands = {tuple(dealt(str(seed))) for seed in range(200)}
    assert len(hands) == 30  # 6 cards for one player, 5 for the other
    assert [dealt("a"), dealt("b")] == [dealt("a"), dealt("b")]


@pytest.mark.parametrize("case", ["kuhn_poker", "liars_dice", "2048"])
def test_chance_outcomes_share_the_draws_by_their_probabilities(case: str) -> None:
    root = load(case).spiel.new_initial_state()
    outcomes = root.chance_outcomes()
    draws = [(number + 0.5) / 1000 for number in range(1000)]
    found = Counter()
    for drawn in (*draws, 1 - 2**-53):
        state = root.clone()
        playing.apply_chance(state, drawn)
        found[state.history()[0]] += 1
    assert found.keys() == {action for action, _ in outcomes}
    assert all(abs(found[action] - 1000 * probability) <= 2 for action, probability in outcomes)
