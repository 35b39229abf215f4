"""The intervals cover what they claim to cover, and resample classes, not positions."""

import numpy as np
import pytest

from veritas_rl.arena.statistics import clustered_mean


def test_mean_and_order() -> None:
    estimate = clustered_mean([1.0, 0.0, 1.0, 1.0], ["a", "a", "b", "c"])
    assert estimate.mean == 0.75
    assert estimate.low <= estimate.mean <= estimate.high
    assert (estimate.count, estimate.classes) == (4, 3)


def test_equal_values_give_a_point() -> None:
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
    # 95% of 200 is 190; four standard deviations below it is 178.
    assert covered >= 178


@pytest.mark.parametrize(("values", "classes"), [([], []), ([1.0], ["a", "b"])])
def test_bad_lengths(values: list[float], classes: list[str]) -> None:
    with pytest.raises(ValueError, match="one class for each value"):
        clustered_mean(values, classes)
