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
    """The p-value of a permutation test of the hypothesis that all moves have the same distribution of results.

    The statistic is the sum of squares between the moves' means. With equally many batches for each move, it orders
    samples like the F statistic of a one-way analysis of variance. All batches are exchangeable if the moves are the
    same, so they are permuted at random `PERMUTATIONS` times, and p = (1 + b) / (1 + `PERMUTATIONS`), where b counts
    the permutations with a statistic at least as large (Phipson and Smyth 2010). So p <= 0.05 has a probability of at
    most 5% without a difference, whatever the distribution. No normality is assumed: results are mostly 0, 0.5 or 1.

    Args:
        samples: Means of equally many playouts each, of shape (moves, batches).
        seed: The seed of the permutations.
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

    The variance of the m measured means exceeds the true variance by (m - 1) / m times the mean variance of a mean.
    This noise is subtracted, as in the method of moments for the variance between groups. The result is unbiased; if it
    is negative, the spread is 0. With one batch for each move the values are exact, and nothing is subtracted.

    Args:
        samples: Shape (moves, batches).
    """
    moves, batches = samples.shape
    noise = samples.var(axis=1, ddof=1).mean() / batches if batches > 1 else 0.0
    return math.sqrt(max(0.0, samples.mean(axis=1).var() - (moves - 1) / moves * noise))


def halves_of(samples: Samples) -> tuple[float, float, float]:
    """A task's part of the correlation of two halves: the sums of x y, x^2 and y^2, where x and y are the means of a
    move over the first and the second half of the batches, less their mean over the moves."""
    half = samples.shape[1] // 2
    first, second = samples[:, :half].mean(axis=1), samples[:, half:].mean(axis=1)
    first, second = first - first.mean(), second - second.mean()
    return float(first @ second), float(first @ first), float(second @ second)


def correlation(sums: Iterable[tuple[float, float, float]]) -> float | None:
    """The correlation within tasks, from each task's `halves_of`; None if the values in one half never differ."""
    rows = list(sums)
    both, first, second = (math.fsum(row[part] for row in rows) for part in range(3))
    return both / math.sqrt(first * second) if first > ROUNDING and second > ROUNDING else None


def reliability(correlated: float, longer: float) -> float:
    """The correlation of two measurements that are `longer` times as long as two that correlate `correlated`.

    The formula of Spearman and Brown (1910). Its inverse is the formula with 1 / `longer`.

    Args:
        correlated: The correlation, in [0, 1].
        longer: The ratio of the numbers of playouts.
    """
    return longer * correlated / (1 + (longer - 1) * correlated)


def error_of_share(found: int, count: int) -> float:
    """The standard error of the share `found / count` of independent draws: sqrt(p (1 - p) / n) of Agresti and Coull
    (1998), with two found and two not found added, so that it is not 0 if all or none were found."""
    share = (found + 2) / (count + 4)
    return math.sqrt(share * (1 - share) / (count + 4))


def expected_false(found: int, tested: int) -> float:
    """The expected number of false positives, if the test finds a difference in `found` of `tested` tasks.

    Let n be the number of tested tasks without a difference. If the test finds every real difference, and also 5% of
    these n tasks, then found = tested - 0.95 n. If the test misses some real differences, n is smaller, so the result
    is an upper bound. It is at most `found`.
    """
    return min(found, FALSE_POSITIVE_RATE * (tested - found) / (1 - FALSE_POSITIVE_RATE))


def chance_of_so_many(found: int, count: int, share: float) -> float:
    """The probability of at least `found` successes in `count` independent draws with success probability `share`."""
    return math.fsum(
        math.comb(count, hits) * share**hits * (1 - share) ** (count - hits) for hits in range(found, count + 1)
    )


def surely_below(found: float, bound: float, freedom: int) -> bool:
    """Whether a measured correlation is significantly below a bound, at 5%, by the z transform of Fisher (1915).

    Args:
        found: The measured correlation.
        bound: The bound, in (-1, 1).
        freedom: The number of correlated pairs, less the number of subtracted means.
    """
    if freedom < 4:
        return False
    clipped = min(1 - ROUNDING, max(-1 + ROUNDING, found))
    return math.atanh(clipped) + ONE_SIDED / math.sqrt(freedom - 2) < math.atanh(bound)
