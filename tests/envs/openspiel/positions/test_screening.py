"""Screening finds positions whose moves differ in value, and skips positions whose moves do not."""

import numpy as np
import pytest

from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.playing import replay
from veritas_rl.envs.openspiel.positions import screening


def test_a_winning_move_among_losing_ones_is_found() -> None:
    game = load("connect_four")
    state = replay(game, (0, 1, 0, 1, 0, 1))  # a fourth piece in column 0 wins; column 1 blocks the opponent
    assert screening.screen(game, state, 0) >= 1


def test_moves_of_a_symmetric_start_do_not_differ() -> None:
    game = load("pig")
    state = replay(game, ())
    scores = [screening._score_of_samples(np.random.default_rng(seed).random((6, 8))) for seed in range(200)]
    assert sum(score >= 1 for score in scores) <= 20  # about 5% by chance
    assert screening.screen(game, state, 0) == screening.screen(game, state, 0)


def test_a_score_grows_with_the_difference() -> None:
    def of(difference: float) -> float:
        values = np.random.default_rng(0).random((4, 8))
        values[0] += difference
        return screening._score_of_samples(values)

    assert of(0.0) < 1 < of(1.0) < of(2.0)


def test_noise_shared_by_all_moves_of_a_world_is_ignored() -> None:
    random = np.random.default_rng(1)
    worlds = 10 * random.random((1, 8))
    values = worlds + np.array([[0.0], [1.0]]) + 0.1 * random.random((2, 8))
    alone = values + 10 * random.random((2, 8))
    assert screening._score_of_samples(values) > screening._score_of_samples(alone)


@pytest.mark.parametrize("shares", [[0.5, 0.5, 0.5], [0.0, 0.0, 0.0], [1.0, 1.0]])
def test_equal_shares_do_not_differ(shares: list[float]) -> None:
    assert screening._score_of_shares(np.array(shares), 16) == 0


def test_sure_results_differ() -> None:
    assert screening._score_of_shares(np.array([1.0, 0.0]), 4) >= 1
