"""Ratings equal those calculated by hand, do not depend on the order of games, and their intervals have coverage."""

import math

import numpy as np
import pytest

from veritas_rl.rating.ratings import CENTRE, ELO, Result, fit, ratings_of


def played(strengths: list[float], deals: int, seed: int) -> list[Result]:
    """A round robin with each deal from both seats; the win probabilities are those of the rating model."""
    dice = np.random.default_rng(seed)
    chance = {(a, b): 1 / (1 + math.exp(strengths[b] - strengths[a])) for a in range(len(strengths)) for b in range(a)}
    return [
        Result(str(a), str(b), float(dice.random() < likely), deal)
        for (a, b), likely in chance.items()
        for deal in range(deals)
        for _ in range(2)
    ]


def test_ratings_of_two_players_match_the_formula() -> None:
    results = [Result("a", "b", points, deal) for deal, points in enumerate([1, 1, 1, 1, 0.5, 0.5, 0, 1])]
    found = ratings_of(results)
    assert list(found) == ["a", "b"]
    # 6 points to 2, plus half a point for each player by Firth's correction.
    ahead = 400 * math.log10(6.5 / 2.5)
    assert found["a"].mean == pytest.approx(CENTRE + ahead / 2, abs=0.06)
    assert found["b"].mean == pytest.approx(CENTRE - ahead / 2, abs=0.06)
    assert found["a"].low < found["a"].mean < found["a"].high
    assert (found["a"].count, found["a"].classes) == (8, 8)


def test_the_fit_gives_back_the_strengths_that_made_the_table() -> None:
    strengths = np.array([[0.0, 0.7, -1.2, 0.5], [0.1, -0.1, 2.0, -2.0]])
    games = np.array([[0, 30, 10, 5], [30, 0, 8, 40], [10, 8, 0, 12], [5, 40, 12, 0]])
    tables = games / (1 + np.exp(strengths[:, None, :] - strengths[:, :, None]))
    assert fit(tables) == pytest.approx(strengths, abs=1e-4)
    assert fit(tables[1]) == pytest.approx(strengths[1], abs=1e-4)


def test_ratings_do_not_depend_on_the_order_of_games() -> None:
    results = played([0, 0.5, 2], 10, seed=1)
    turned = [Result(r.second, r.first, 1 - r.points, r.deal) for r in results]
    assert ratings_of(results) == ratings_of(results[::-1]) == ratings_of(turned)
    assert ratings_of(results) != ratings_of(results, seed=1)


def test_a_player_that_wins_all_games_has_a_wide_interval() -> None:
    few, many = (
        ratings_of([Result("best", "worst", 1.0, deal) for deal in range(deals) for _ in range(2)])
        for deals in (5, 100)
    )
    for found in (few, many):
        assert list(found) == ["best", "worst"]
        assert found["best"].high - found["best"].low > 400
    assert few["best"].mean < many["best"].mean < CENTRE + 1000


def test_games_of_a_deal_are_not_taken_for_independent() -> None:
    dice = np.random.default_rng(0)
    points = [float(dice.random() < 0.5) for _ in range(30)]
    alike = ratings_of([Result("a", "b", one, deal) for deal, one in enumerate(points) for _ in range(8)])
    apart = ratings_of([Result("a", "b", one, (deal, n)) for deal, one in enumerate(points) for n in range(8)])
    assert alike["a"].mean == apart["a"].mean
    assert (alike["a"].high - alike["a"].low) > 2 * (apart["a"].high - apart["a"].low)


def test_the_intervals_hold_the_truth() -> None:
    strengths = [0.0, 0.3, 1.5, 3.0]
    truth = [CENTRE + ELO * (strength - np.mean(strengths)) for strength in strengths]
    held = [
        ratings[str(name)].low <= true <= ratings[str(name)].high
        for ratings in (ratings_of(played(strengths, 20, seed)) for seed in range(30))
        for name, true in enumerate(truth)
    ]
    # Of 120 intervals with 95% coverage, fewer than 106 contain the truth once in a thousand times.
    assert sum(held) >= 106


def test_ratings_without_games_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one game"):
        ratings_of([])
