"""Rates with intervals that respect dependent games.

Positions that are equal up to a symmetry of the game are not independent. So whole classes of positions are resampled,
never single positions. This is the cluster bootstrap (Davison and Hinkley, "Bootstrap Methods and their Application",
1997, section 3.8), computed by `scipy.stats.bootstrap` from the sums of each class. Whole games are resampled by deal
in the same way, because all seats of a deal have the same chance seed.

Two players are compared by a paired permutation test (Fisher, "The Design of Experiments", 1935, section 21). Under the
null hypothesis that both play equally, their results in one deal are exchangeable. The test is of the mean difference
and assumes no distribution. A Wilcoxon test would drop the many deals with equal results and test the ranks of the
others. McNemar's test uses wins alone and treats the games of one deal as independent.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, bootstrap, norm, permutation_test

RESAMPLES = 4000
CONFIDENCE = 0.95
POWER = 0.8
PERMUTATIONS = 9999

LEAST_DEALS = 6
"""The minimum number of deals with which a two-sided permutation test can be significant at 5%: 2 / 2^6."""


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval.

    Attributes:
        mean: The estimate, in the unit of the values.
        low: Lower end of the 95% interval.
        high: Upper end of the 95% interval.
        count: The number of values.
        classes: The number of resampled classes.
    """

    mean: float
    low: float
    high: float
    count: int
    classes: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def clustered_mean(values: Sequence[float], classes: Sequence[Hashable], seed: int = 0) -> Estimate:
    """The mean of `values` with a 95% percentile interval, resampled by class.

    For a paired comparison, pass the difference of each position.

    Args:
        values: One number for each position.
        classes: The class of each position. Positions of one class are resampled together.
        seed: The seed of the resampling.

    Raises:
        ValueError: No value was given, or the lengths differ.
    """
    if not values or len(values) != len(classes):
        raise ValueError(
            f"values and classes must be of the same length, at least 1: got {len(values)} and {len(classes)}"
        )
    index: dict[Hashable, int] = {}
    members = np.array([index.setdefault(name, len(index)) for name in classes])
    sums = np.bincount(members, weights=np.asarray(values, dtype=float))
    sizes = np.bincount(members).astype(float)
    mean = float(sums.sum() / sizes.sum())
    per_class = sums / sizes
    if len(index) == 1 or np.ptp(per_class) == 0:
        # Every resample has the same mean, so the interval is a point; scipy would return NaN.
        return Estimate(mean, mean, mean, len(values), len(index))
    interval = bootstrap(
        (sums, sizes),
        lambda total, size, axis: total.sum(axis=axis) / size.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Estimate(mean, float(interval.low), float(interval.high), len(values), len(index))


def rate(outcomes: Sequence[bool], classes: Sequence[Hashable], seed: int = 0) -> Estimate:
    """A share with a 95% interval that holds for few values and for clustered values.

    The interval covers two intervals. Wilson's (1927) is accurate for few values and near 0 and 1, but treats values as
    independent. The other interval is resampled by class. If every class has the same share, resampling gives a point;
    then Wilson's interval is computed as if each class were one value.

    Raises:
        ValueError: As `clustered_mean`.
    """
    resampled = clustered_mean([float(outcome) for outcome in outcomes], classes, seed)
    if resampled.low == resampled.high:
        return _spanning(resampled, *_wilson(round(resampled.mean * resampled.classes), resampled.classes))
    return _spanning(resampled, *_wilson(sum(outcomes), len(outcomes)))


def mean_score(values: Sequence[float], classes: Sequence[Hashable], seed: int = 0) -> Estimate:
    """The mean of values in [0, 1], resampled by class.

    If every class has the same mean, the interval is Wilson's, as in `rate`. That is conservative: among values in
    [0, 1] with a given mean, zeros and ones have the largest variance.

    Raises:
        ValueError: As `clustered_mean`.
    """
    resampled = clustered_mean(values, classes, seed)
    if resampled.low < resampled.high:
        return resampled
    return _spanning(resampled, *_wilson(round(resampled.mean * resampled.classes), resampled.classes))


def _wilson(successes: int, count: int) -> tuple[float, float]:
    interval = binomtest(int(successes), count).proportion_ci(confidence_level=CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)


def _spanning(estimate: Estimate, low: float, high: float) -> Estimate:
    return Estimate(estimate.mean, min(estimate.low, low), max(estimate.high, high), estimate.count, estimate.classes)


@dataclass(frozen=True)
class Comparison:
    """Two players on the same deals and seats.

    Attributes:
        difference: The first player's mean minus the second player's, with its interval.
        p_value: The two-sided p-value of the paired permutation test over deals.
        values_needed: The number of values that give the observed difference a power of 80% at a significance of 5%;
            None if no difference was observed.
    """

    difference: Estimate
    p_value: float
    values_needed: int | None


def compare_paired(
    first: Sequence[float], second: Sequence[float], classes: Sequence[Hashable], seed: int = 0
) -> Comparison:
    """Compare two players by a paired permutation test over classes.

    Args:
        first: One number for each game of the first player.
        second: One number for each of the same games of the second player.
        classes: The deal of each game.
        seed: The seed of the resampling.

    Raises:
        ValueError: No value was given, or the lengths differ.
    """
    differences = [a - b for a, b in zip(first, second, strict=True)]
    difference = clustered_mean(differences, classes, seed)
    index: dict[Hashable, int] = {}
    members = np.array([index.setdefault(name, len(index)) for name in classes])
    sums = [np.bincount(members, weights=np.asarray(values, dtype=float)) for values in (first, second)]
    paired = sums[0] - sums[1]
    if np.ptp(paired) == 0 and paired[0] == 0:
        return Comparison(difference, 1.0, None)
    p_value = 1.0
    if len(index) > 1:
        p_value = permutation_test(
            sums,
            lambda a, b, axis: (a - b).mean(axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=PERMUTATIONS,
            batch=1000,
            rng=np.random.default_rng(seed),
        ).pvalue
    return Comparison(difference, float(p_value), _values_needed(paired, len(differences)))


def _values_needed(paired: np.ndarray, values: int) -> int | None:
    """From the normal approximation of a paired test: (z_0.975 + z_0.8)^2 times variance over squared mean, in deals
    (Machin et al., "Sample Sizes for Clinical, Laboratory and Epidemiology Studies", 2018, section 8)."""
    mean = float(paired.mean())
    if abs(mean) < 1e-12 or len(paired) < 2:
        return None
    z = norm.ppf(0.5 + CONFIDENCE / 2) + norm.ppf(POWER)
    deals = max(LEAST_DEALS, math.ceil(z**2 * float(paired.var(ddof=1)) / mean**2))
    return math.ceil(deals * values / len(paired))
