"""The intervals have the stated coverage, and resample classes instead of positions."""

from itertools import product

import numpy as np
import pytest

from veritas_rl.judging.statistics import clustered_mean, compare_paired, mean_score, rate


def test_the_interval_holds_the_mean_and_counts_values_and_classes() -> None:
    estimate = clustered_mean([1.0, 0.0, 1.0, 1.0], ["a", "a", "b", "c"])
    assert estimate.mean == 0.75
    assert estimate.low <= estimate.mean <= estimate.high
    assert (estimate.count, estimate.classes) == (4, 3)


def test_equal_values_have_an_interval_of_no_width() -> None:
    estimate = clustered_mean([1.0] * 10, list(range(10)))
    assert (estimate.low, estimate.mean, estimate.high) == (1.0, 1.0, 1.0)


def test_same_seed_same_interval() -> None:
    values, classes = [0.0, 1.0, 1.0, 0.0, 1.0], [1, 2, 3, 4, 5]
    assert clustered_mean(values, classes, seed=3) == clustered_mean(values, classes, seed=3)


def test_copies_of_a_position_do_not_narrow_the_interval() -> None:
    values, classes = [0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0], list(range(8))
    once, often = clustered_mean(values, classes), clustered_mean(values * 50, classes * 50)
    assert often.high - often.low == pytest.approx(once.high - once.low, abs=0.05)


def test_coverage_is_near_its_claim() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for trial in range(200):
        rates = rng.beta(6, 4, size=60)
        classes = np.repeat(np.arange(60), 8)
        values = (rng.random(480) < rates[classes]).astype(float)
        estimate = clustered_mean(values.tolist(), classes.tolist(), seed=trial)
        covered += estimate.low <= 0.6 <= estimate.high
    # The expected number is 190, 95% of 200; 178 is four standard deviations below.
    assert covered >= 178


@pytest.mark.parametrize(("values", "classes"), [([], []), ([1.0], ["a", "b"])])
def test_each_value_needs_a_class(values: list[float], classes: list[str]) -> None:
    with pytest.raises(ValueError, match="values and classes"):
        clustered_mean(values, classes)


def test_a_rate_of_few_values_claims_little() -> None:
    # Wilson's interval of 5 out of 5 is n / (n + z^2) to 1.
    sure = rate([True] * 5, range(5))
    assert (sure.mean, sure.high) == (1.0, pytest.approx(1.0))
    assert sure.low == pytest.approx(5 / (5 + 1.959964**2), abs=1e-6)


def test_a_rate_of_alike_values_is_as_wide_as_their_classes_make_it() -> None:
    outcomes = [True, True, False, False, True, True, False, False] * 5
    apart = rate(outcomes, range(40))
    together = rate(outcomes, [index // 2 for index in range(40)])
    assert together.high - together.low > 1.2 * (apart.high - apart.low)


def test_a_mean_of_equal_scores_is_no_certainty() -> None:
    same = mean_score([1.0] * 8, [index // 2 for index in range(8)])
    assert same.mean == same.high == 1.0
    assert same.low == pytest.approx(4 / (4 + 1.959964**2), abs=1e-6)
    assert mean_score([0.0, 0.5, 1.0, 1.0], range(4)).low < 0.625


def test_the_permutation_test_is_exact_for_few_deals() -> None:
    first, second = [1.0, 1.0, 0.5, 1.0, 0.0, 1.0], [0.0, 0.5, 0.5, 0.0, 0.5, 0.0]
    differences = np.subtract(first, second)
    means = [abs(np.mean(differences * signs)) for signs in product((1, -1), repeat=6)]
    by_hand = np.mean([mean >= abs(differences.mean()) - 1e-12 for mean in means])
    assert compare_paired(first, second, range(6)).p_value == pytest.approx(by_hand)


def test_the_seats_of_a_deal_are_swapped_together() -> None:
    first, second = [1.0] * 12, [0.0] * 12
    assert compare_paired(first, second, range(12)).p_value == pytest.approx(2 / 2**12)
    assert compare_paired(first, second, [index // 2 for index in range(12)]).p_value == pytest.approx(2 / 2**6)


def test_equal_players_are_distinguished_as_rarely_as_claimed() -> None:
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(100):
        rates = rng.beta(2, 2, size=20)
        first, second = (rng.random(20) < rates), (rng.random(20) < rates)
        found += compare_paired(first.astype(float).tolist(), second.astype(float).tolist(), range(20)).p_value < 0.05
    # The expected number is 5, 5% of 100; 14 is four standard deviations above.
    assert found <= 14


def test_with_as_many_games_as_it_asks_for_a_difference_is_found_four_times_in_five() -> None:
    # All pairs of ten deals of which the first player wins six and ten of which the second wins four. By hand:
    # (1.96 + 0.84)^2 * (0.6 * 0.4 + 0.4 * 0.6) / 0.2^2 = 94.2.
    first, second = zip(*product([1.0] * 6 + [0.0] * 4, [1.0] * 4 + [0.0] * 6), strict=True)
    needed = compare_paired(first, second, range(100)).values_needed
    assert needed is not None
    assert 94 <= needed <= 97
    rng = np.random.default_rng(5)

    def draw(count: int) -> tuple[list[float], list[float]]:
        first, second = rng.random(count) < 0.6, rng.random(count) < 0.4
        return first.astype(float).tolist(), second.astype(float).tolist()

    found = sum(compare_paired(*draw(needed), range(needed)).p_value < 0.05 for _ in range(60))
    # The expected number is 48, 80% of 60; four standard deviations are 12.
    assert 36 <= found <= 59


def test_equal_players_have_p_1_and_no_difference() -> None:
    same = compare_paired([1.0, 0.0], [1.0, 0.0], range(2))
    assert (same.p_value, same.values_needed, same.difference.mean) == (1.0, None, 0.0)
