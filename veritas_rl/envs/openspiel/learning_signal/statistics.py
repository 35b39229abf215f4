"""The test of whether moves differ, the size of the difference, and the errors of both."""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

FALSE_POSITIVE_RATE = 0.05
"""The largest false-positive rate of the test."""
PERMUTATIONS = 999
PERMUTED_AT_ONCE = 2_000_000
"""The number of values in memory at once, so that hundreds of moves fit."""
ONE_SIDED = 1.645
"""The normal deviate that is exceeded with a probability of 5%."""
ROUNDING = 1e-9
"""The relative difference below which sums are equal, because they may be added in another order."""

Samples = NDArray[np.float64]
"""Independent measurements of the moves of a task, of shape (moves, batches)."""


def p_of_equal_moves(samples: Samples, seed: int) -> float:
    """The p-value of a permutation test of: all moves have the same distribution of results.

    The statistic is the sum of squares between the moves' means. With as many batches for each move, it orders samples
    as the F of a one-way analysis of variance does. All batches are exchangeable if the moves are the same, so they are
    handed out to the moves again in `PERMUTATIONS` random ways, and p = (1 + b) / (1 + `PERMUTATIONS`), where b counts
    the ways with a statistic at least as large (Phipson and Smyth 2010). So p <= 0.05 has a probability of at most
    5% without a difference, whatever the distribution. No normality is assumed: results are mostly 0, 0.5 or 1.

    Args:
        samples: Means of as many playouts each, of shape (moves, batches).
        seed: Of the permutations.
    """
    moves, batches = samples.shape
    observed = _between(samples[None])[0]
    enough = observed - ROUNDING * max(1.0, observed)
    random = np.random.default_rng(seed)
    size, reached, left = max(1, PERMUTED_AT_ONCE // samples.size), 0, PERMUTATIONS
    while left:
        rows = min(size, left)
        permuted = random.permuted(np.broadcast_to(samples.ravel(), (rows, samples.size)), axis=1)
        reached += int((_between(permuted.reshape(rows, moves, batches)) >= enough).sum())
        left -= rows
    return (1 + reached) / (1 + PERMUTATIONS)


def _between(samples: Samples) -> Samples:
    """The sum of squares between the means of moves, of samples of shape (rows, moves, batches)."""
    means = samples.mean(axis=2)
    return ((means - means.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)


def spread_of(samples: Samples) -> float:
    """The standard deviation of the true values of a task's moves, each move counted once.

    The variance of the measured means exceeds it by (m - 1) / m of the mean variance of a mean, which is subtracted:
    the estimate of the variance between groups by moments. It is unbiased; where it is negative the spread is 0. With
    one batch for each move the values are exact, and nothing is subtracted.

    Args:
        samples: Shape (moves, batches).
    """
    moves, batches = samples.shape
    noise = samples.var(axis=1, ddof=1).mean() / batches if batches > 1 else 0.0
    return math.sqrt(max(0.0, samples.mean(axis=1).var() - (moves - 1) / moves * noise))


def halves_of(samples: Samples) -> tuple[float, float, float]:
    """What a task adds to the correlation of two halves: the sums of x y, x^2 and y^2, where x and y are the means of a
    move over the first and the second half of the batches, less their mean over the moves."""
    half = samples.shape[1] // 2
    first, second = samples[:, :half].mean(axis=1), samples[:, half:].mean(axis=1)
    first, second = first - first.mean(), second - second.mean()
    return float(first @ second), float(first @ first), float(second @ second)


def correlation(sums: Iterable[tuple[float, float, float]]) -> float | None:
    """The correlation within tasks, from what `halves_of` says of each; None where a half never differs."""
    rows = list(sums)
    both, first, second = (math.fsum(row[part] for row in rows) for part in range(3))
    return both / math.sqrt(first * second) if first > ROUNDING and second > ROUNDING else None


def error_of_share(found: int, count: int) -> float:
    """The standard error of the share `found / count` of independent draws: sqrt(p (1 - p) / n) of Agresti and Coull
    (1998), with two found and two not found added, so that it is not 0 where all or none were found."""
    share = (found + 2) / (count + 4)
    return math.sqrt(share * (1 - share) / (count + 4))


def expected_false(found: int, tested: int) -> float:
    """How many of the `found` among `tested` are expected to be false positives.

    If the test finds every real difference, n of the tested have none, and 5% of these n are found: found = tested -
    0.95 n. Where the test misses some, fewer tasks have no difference than n, so this is an upper bound. It is at most
    `found`.
    """
    return min(found, FALSE_POSITIVE_RATE * (tested - found) / (1 - FALSE_POSITIVE_RATE))


def chance_of_so_many(found: int, count: int, share: float) -> float:
    """The probability of at least `found` among `count` independent draws that each hit with probability `share`."""
    return math.fsum(
        math.comb(count, hits) * share**hits * (1 - share) ** (count - hits) for hits in range(found, count + 1)
    )


def surely_below(found: float, bound: float, freedom: int) -> bool:
    """Whether a correlation that was found to be `found` is below `bound` at 5%, by the z transform of Fisher (1915).

    Args:
        found: The correlation.
        bound: The bound, in (-1, 1).
        freedom: How many pairs were correlated, less the means that were subtracted.
    """
    if freedom < 4:
        return False
    clipped = min(1 - ROUNDING, max(-1 + ROUNDING, found))
    return math.atanh(clipped) + ONE_SIDED / math.sqrt(freedom - 2) < math.atanh(bound)
