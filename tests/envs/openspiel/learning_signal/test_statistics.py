"""The significance test has its stated error rate; the estimates agree with values calculated by hand."""

import numpy as np
import pytest

from veritas_rl.envs.openspiel.learning_signal import statistics


def test_the_p_value_is_the_share_of_arrangements_that_differ_as_much() -> None:
    # Two zeros and two ones can be assigned to two moves in 6 ways; in 2 of them the moves differ as much.
    assert statistics.p_of_equal_moves(np.array([[0.0, 0.0], [1.0, 1.0]]), 1) == pytest.approx(1 / 3, abs=0.05)
    # No assignment has a smaller difference than this one.
    assert statistics.p_of_equal_moves(np.array([[0.0, 1.0], [0.0, 1.0]]), 1) == 1.0
    assert statistics.p_of_equal_moves(np.full((3, 16), 0.5), 1) == 1.0


def test_a_sure_difference_has_the_smallest_p_value() -> None:
    samples = np.stack([np.zeros(16), np.ones(16)])
    assert statistics.p_of_equal_moves(samples, 1) == 1 / (1 + statistics.PERMUTATIONS)


def test_many_moves_are_permuted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = np.random.default_rng(0).random((5, 16))
    whole = statistics.p_of_equal_moves(samples, 3)
    monkeypatch.setattr(statistics, "PERMUTED_AT_ONCE", 200)
    assert statistics.p_of_equal_moves(samples, 3) == whole


@pytest.mark.parametrize("chance", [0.5, 0.05])
def test_equal_moves_are_found_to_differ_at_the_stated_rate(chance: float) -> None:
    random = np.random.default_rng(11)
    count = 600
    found = sum(
        statistics.p_of_equal_moves(random.binomial(8, chance, (3, 16)) / 8, seed) <= statistics.FALSE_POSITIVE_RATE
        for seed in range(count)
    )
    assert found / count == pytest.approx(0.05, abs=0.027)  # three standard errors


def test_the_spread_of_values_without_noise_is_their_standard_deviation() -> None:
    assert statistics.spread_of(np.array([[0.0], [1.0]])) == 0.5
    assert statistics.spread_of(np.array([[1.0], [0.0], [0.0], [0.0]])) == pytest.approx((3 / 16) ** 0.5)


def test_the_spread_is_without_the_noise() -> None:
    # The means 0.5 and 1 have the variance 1/16. The variance of the first mean itself is 0.5 / 2, that of the second
    # is 0. Half of the mean of these variances, 1/8, is 1/16, so no spread remains.
    assert statistics.spread_of(np.array([[0.0, 1.0], [1.0, 1.0]])) == 0.0
    random = np.random.default_rng(5)
    values = np.array([0.2, 0.5, 0.5, 0.8])
    squares = [statistics.spread_of(random.binomial(8, values[:, None], (4, 16)) / 8) ** 2 for _ in range(2000)]
    assert np.mean(squares) == pytest.approx(values.var(), rel=0.02)


def test_halves_correlate_by_the_signal() -> None:
    same = np.array([[0.0, 0.0], [1.0, 1.0]])
    opposite = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert statistics.halves_of(same) == (0.5, 0.5, 0.5)
    assert statistics.correlation([statistics.halves_of(same)]) == 1.0
    assert statistics.correlation([statistics.halves_of(opposite)]) == -1.0
    assert statistics.correlation([statistics.halves_of(same), statistics.halves_of(opposite)]) == 0.0
    assert statistics.correlation([statistics.halves_of(np.ones((2, 2)))]) is None
    assert statistics.correlation([]) is None


def test_a_mean_of_more_playouts_is_more_reliable() -> None:
    # Two means whose noise has the variance of the values correlate 1/2; with half of this noise they correlate 2/3.
    assert statistics.reliability(0.5, 2) == pytest.approx(2 / 3)
    assert statistics.reliability(2 / 3, 1 / 2) == pytest.approx(0.5)
    assert statistics.reliability(0.3, 1) == 0.3


def test_standard_errors_of_shares_are_smoothed() -> None:
    assert statistics.error_of_share(48, 96) == pytest.approx((0.25 / 100) ** 0.5)
    assert statistics.error_of_share(96, 96) == pytest.approx((0.98 * 0.02 / 100) ** 0.5)


def test_false_positives_are_five_per_cent_of_the_tasks_without_a_difference() -> None:
    # 100 tasks with a difference, all found, and 100 tasks without, 5 of which are found.
    assert statistics.expected_false(105, 200) == pytest.approx(5)
    assert statistics.expected_false(200, 200) == 0
    assert statistics.expected_false(0, 200) == 0


def test_chance_of_so_many_is_a_binomial_tail() -> None:
    assert statistics.chance_of_so_many(0, 7, 0.3) == pytest.approx(1)
    assert statistics.chance_of_so_many(2, 2, 0.3) == pytest.approx(0.09)
    assert statistics.chance_of_so_many(1, 3, 0.5) == pytest.approx(7 / 8)


def test_a_correlation_is_surely_below_a_bound_at_the_stated_rate() -> None:
    """Of samples whose true correlation equals the bound, 5% are found to be below the bound."""
    dice = np.random.default_rng(5)
    below = 0
    for _ in range(1000):
        first = dice.normal(size=41)
        second = 0.5 * first + np.sqrt(0.75) * dice.normal(size=41)
        below += statistics.surely_below(float(np.corrcoef(first, second)[0, 1]), 0.5, 40)
    assert 0.02 <= below / 1000 <= 0.08
    assert not statistics.surely_below(-1.0, 0.5, 3)
    assert statistics.surely_below(0.0, 0.5, 40)
