"""Rates with honest intervals.

Positions that are alike (the same up to a symmetry of the game) are not independent, so whole classes of them are
resampled, never single positions: the cluster bootstrap (Davison and Hinkley, "Bootstrap Methods and their
Application", 1997, section 3.8), through `scipy.stats.bootstrap` on the sums of each class.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import bootstrap

RESAMPLES = 4000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval.

    Attributes:
        mean: The estimate, in the unit of the values.
        low: Lower end of the 95% interval.
        high: Upper end of the 95% interval.
        count: How many values it is made of.
        classes: How many classes were resampled.
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

    For a paired comparison pass the differences, position by position.

    Args:
        values: One number for each position.
        classes: The class of each position; equal ones are resampled together.
        seed: Seeds the resampling.

    Raises:
        ValueError: Nothing was given, or the lengths differ.
    """
    if not values or len(values) != len(classes):
        raise ValueError(f"one class for each value is needed, and one value at least: {len(values)}, {len(classes)}")
    index: dict[Hashable, int] = {}
    members = np.array([index.setdefault(name, len(index)) for name in classes])
    sums = np.bincount(members, weights=np.asarray(values, dtype=float))
    sizes = np.bincount(members).astype(float)
    mean = float(sums.sum() / sizes.sum())
    per_class = sums / sizes
    if len(index) == 1 or np.ptp(per_class) == 0:
        # Every resample has the same mean: the interval is a point, which scipy calls degenerate.
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
