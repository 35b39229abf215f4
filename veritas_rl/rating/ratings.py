"""Ratings of players of two-player games, on the Elo scale, with intervals.

The model is that of Bradley and Terry (Biometrika 39, 1952): a player that is 400 points ahead scores 10 to 1. All
ratings are fitted at once, by maximum likelihood on the table of scores of all pairs. A draw is half a point.

A rating must not depend on the order of the games. An online rating, such as Elo's update or OpenSkill (Weng and Lin,
JMLR 12, 2011), processes one game after another, because the strength of people changes. The strength of a checkpoint
does not change. In a simulated round robin of 4 players with 200 games a match, more than half of the variance of
OpenSkill's ratings over resampled games came from the order of the games. Over new tournaments the ratings of OpenSkill
varied 1.5 times as much as the ratings of this module, so an interval of the same width would need twice as many games.

The likelihood alone gives a player that won every game an infinite rating, and spreads all other ratings too far. So
each of N players gets 1/N of a point more against each other player. For two players this is the half point of Haldane
and Anscombe (Biometrika 43, 1956), which removes the bias of log odds. For more players it is the average of Firth's
correction (Biometrika 80, 1993) over the matches.
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
"""The mean of all ratings. Only differences of ratings have a meaning."""

ELO = 400 / math.log(10)
"""Elo points per unit of log odds."""

RESAMPLES = 1000


@dataclass(frozen=True)
class Result:
    """A finished two-player game.

    Attributes:
        first: The first player.
        second: The second player.
        points: The points of the first player: 1, 0.5 or 0. The second player gets 1 minus these points.
        deal: The deal; games of one deal are resampled together.
    """

    first: str
    second: str
    points: float
    deal: Hashable


def ratings_of(results: Sequence[Result], seed: int = 0) -> dict[str, Estimate]:
    """The rating of each player, best first, with a 95% interval, in Elo points to one decimal.

    The interval covers two intervals: the percentiles of the ratings over resampled deals (all games of a deal
    together, of all players), and the interval from the curvature of the likelihood. The first respects that games of a
    deal are dependent, but is a point for a player that won every game. The second has a width for such a player, but
    treats games as independent.

    Args:
        results: The games, in any order.
        seed: The seed of the resampling.

    Returns:
        The rating by player. `count` is the number of its games, `classes` the number of their deals.

    Raises:
        ValueError: There are no games.
    """
    if not results:
        raise ValueError("ratings need at least one game")
    players = sorted({name for result in results for name in (result.first, result.second)})
    deals = sorted({result.deal for result in results}, key=repr)
    row, place = ({name: index for index, name in enumerate(names)} for names in (players, deals))
    points = np.zeros((len(deals), len(players), len(players)))
    for result in results:
        first, second, deal = row[result.first], row[result.second], place[result.deal]
        points[deal, first, second] += result.points
        points[deal, second, first] += 1 - result.points
    total = points.sum(axis=0)
    # Firth's correction adds half of each match's leverage to each side. The leverages sum to N - 1, the free
    # parameters.
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
    """The maximum-likelihood strengths.

    Args:
        points: The points of each player against each other, (..., players, players). Each table is fitted by itself;
            all are fitted in one call.

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
    """The standard errors of fitted strengths for independent games, from the Fisher information.

    Args:
        points: One table of points, see `fit`.
        strength: The strengths that `fit` returned.

    Returns:
        The standard error of each strength minus the mean strength, in log odds, (players,).
    """
    likely = expit(strength[:, None] - strength[None, :])
    weights = (points + points.T) * likely * (1 - likely)
    np.fill_diagonal(weights, 0.0)
    information = np.diag(weights.sum(axis=1)) - weights
    # Strengths are determined up to a constant; the pseudo-inverse fixes their mean.
    return np.sqrt(np.diag(np.linalg.pinv(information, hermitian=True)))
