"""Ratings of players that have met in games for two, on the Elo scale, with intervals.

The model is Bradley and Terry's (Biometrika 39, 1952): a player that is 400 points ahead scores 10 to 1. All ratings
are fitted at once, by maximum likelihood on the table of who scored how much against whom. A draw is half a point.

A rating must not depend on the order of the games. An online rating, such as Elo's own update or OpenSkill's (Weng and
Lin, JMLR 12, 2011), takes one game after the other, because it follows people whose strength changes; that of a
checkpoint does not. In a simulated round robin of 4 players with 200 games a match, more than half of the variance of
OpenSkill's ratings over resampled games came from their order alone, and over fresh tournaments they spread one and a
half times as wide as these: an interval of the same width would need twice the games.

The likelihood alone rates a player that has won every game at infinity, and all others too far apart. So each of N
players is given 1/N of a point more against each other one. For two that is the half point of Haldane and of Anscombe
(Biometrika 43, 1956), which takes the bias from the logarithm of odds; for more it is, on average over the matches,
what Firth's correction adds (Biometrika 80, 1993).
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm

from veritas_rl.judging.statistics import CONFIDENCE, Estimate

CENTRE = 1500
"""The mean of all ratings. Only differences mean something."""

ELO = 400 / math.log(10)
"""Points of rating in one unit of log odds."""

RESAMPLES = 1000


@dataclass(frozen=True)
class Result:
    """A finished game of two.

    Attributes:
        first: One player.
        second: The other.
        points: What the first one got: 1, 0.5 or 0. The second one got the rest of 1.
        deal: Equal for games of one deal.
    """

    first: str
    second: str
    points: float
    deal: Hashable


def ratings_of(results: Sequence[Result], seed: int = 0) -> dict[str, Estimate]:
    """The rating of each player, best first, with a 95% interval, in Elo points to one decimal.

    The interval spans two: percentiles of the ratings over resampled deals (all games of a deal together, of all
    players), and that of the likelihood's curvature. The first knows that the games of a deal are alike, and nothing of
    what was not seen: of a player that won every game it would make a point. The second knows the opposite.

    Args:
        results: The games, in any order.
        seed: Seeds the resampling.

    Returns:
        By player; `count` is how many games it played, `classes` of how many deals.

    Raises:
        ValueError: There are none.
    """
    if not results:
        raise ValueError("ratings need one game at least")
    players = sorted({name for result in results for name in (result.first, result.second)})
    deals = sorted({result.deal for result in results}, key=repr)
    row, place = ({name: index for index, name in enumerate(names)} for names in (players, deals))
    points = np.zeros((len(deals), len(players), len(players)))
    for result in results:
        first, second, deal = row[result.first], row[result.second], place[result.deal]
        points[deal, first, second] += result.points
        points[deal, second, first] += 1 - result.points
    total = points.sum(axis=0)
    # Firth adds half of each match's leverage to either side. All leverages sum to the free parameters, N - 1.
    extra = np.where(total + total.T > 0, 1 / len(players), 0.0)
    fitted = fit(total + extra)
    draws = np.random.default_rng(seed).multinomial(len(deals), [1 / len(deals)] * len(deals), size=RESAMPLES)
    resampled = fit(np.tensordot(draws.astype(float), points, axes=1) + extra)
    low, high = np.quantile(resampled, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    margin = norm.ppf((1 + CONFIDENCE) / 2) * standard_errors(total + extra, fitted)
    low, high = np.minimum(low, fitted - margin), np.maximum(high, fitted + margin)
    found = {
        name: Estimate(
            *(round(CENTRE + ELO * float(log_odds[index]), 1) for log_odds in (fitted, low, high)),
            count=sum(name in (result.first, result.second) for result in results),
            classes=len({result.deal for result in results if name in (result.first, result.second)}),
        )
        for index, name in enumerate(players)
    }
    return dict(sorted(found.items(), key=lambda item: -item[1].mean))


def fit(points: np.ndarray) -> np.ndarray:
    """The strengths under which these results are likeliest.

    Args:
        points: What each player scored against each other, (..., players, players). Each table is fitted alone, all of
            them in one call.

    Returns:
        Log odds, (..., players), with a mean of 0 in each table.
    """
    tables = points.reshape(-1, *points.shape[-2:])
    games = tables + tables.transpose(0, 2, 1)
    scored = tables.sum(axis=2)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        strength = flat.reshape(scored.shape)
        ahead = strength[:, :, None] - strength[:, None, :]
        return float((tables * np.logaddexp(0, -ahead)).sum()), ((games * expit(ahead)).sum(axis=2) - scored).ravel()

    found = minimize(
        loss,
        np.zeros(scored.size),
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 0.0, "gtol": 1e-6, "maxiter": 10_000, "maxfun": 100_000},
    )
    strength = found.x.reshape(scored.shape)
    return (strength - strength.mean(axis=1, keepdims=True)).reshape(points.shape[:-1])


def standard_errors(points: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """How far each fitted strength may be from the truth, were all games independent: from Fisher's information.

    Args:
        points: As `fit` takes them, one table.
        strength: As `fit` returns it.

    Returns:
        In log odds, (players,), of the distance to the mean of all.
    """
    likely = expit(strength[:, None] - strength[None, :])
    weights = (points + points.T) * likely * (1 - likely)
    np.fill_diagonal(weights, 0.0)
    information = np.diag(weights.sum(axis=1)) - weights
    # Strengths are known up to a constant: the pseudo-inverse holds their mean fixed.
    return np.sqrt(np.diag(np.linalg.pinv(information, hermitian=True)))
