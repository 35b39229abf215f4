"""Native and Python playouts agree, errors are right and shrink with the count, hidden information has no effect."""

import random
from typing import Any

import pytest

from veritas_rl.envs.openspiel import positions
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.values import playouts
from veritas_rl.envs.openspiel.values.playouts import sample_of, visit_sample
from veritas_rl.envs.openspiel.values.question import Question


def question_of(case: str, seed: int) -> Question:
    game = load(case)
    return Question.of(game, *positions.walk(game, random.Random(seed)))


def test_native_playouts_agree_with_a_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both estimate the same mean: over 60 positions their difference is within the sampling error."""
    asked = [question_of("hex(board_size=5)", index) for index in range(60)]

    def means(action: bool) -> list[float]:
        visit_sample.cache_clear()
        return [sample_of(each, each.actions[0] if action else None, 64, "result").mean for each in asked]

    native = [means(True), means(False)]
    monkeypatch.setattr(playouts, "is_native", lambda game: False)
    plain = [means(True), means(False)]
    visit_sample.cache_clear()
    for one, other in zip(native, plain, strict=True):
        assert abs(sum(one) - sum(other)) / 60 < 4 * (2 * 0.25 / 64 / 60) ** 0.5
        assert one != other


def test_a_random_legal_move_is_worth_the_mean_over_the_legal_moves() -> None:
    for case in ("goofspiel", "blackjack", "hex(board_size=5)"):
        question = question_of(case, 3)
        average = sample_of(question, None, 1024, "auto")
        one_by_one = [sample_of(question, action, 1024, "auto") for action in question.actions]
        mean = sum(sample.mean for sample in one_by_one) / len(one_by_one)
        assert average.mean == pytest.approx(mean, abs=4 * 2**0.5 * average.error)


def test_a_difference_knows_its_error() -> None:
    """In nearly all of 40 positions, a difference is within two standard errors of the difference of large samples."""
    within, paired = 0, 0
    for seed in range(40):
        question = question_of("goofspiel", 100 + seed)
        action = question.actions[0]
        small, error = sample_of(question, action, 64, "auto").less(sample_of(question, None, 64, "auto"))
        independent = (
            sample_of(question, action, 64, "auto").error ** 2 + sample_of(question, None, 64, "auto").error ** 2
        ) ** 0.5
        paired += error < independent
        large = playouts.fresh_sample(question, action, 512, "auto", ("a",)).mean
        large -= sum(
            playouts.fresh_sample(question, other, 512 // len(question.actions), "auto", ("b",)).mean
            for other in question.actions
        ) / len(question.actions)
        within += abs(small - large) <= 2 * error + 2 * (2 * 0.25 / 512) ** 0.5
    assert within >= 37
    assert paired >= 30  # common dice reduce the error of a difference


@pytest.mark.parametrize("case", ["goofspiel", "hex(board_size=7)"])
def test_visits_add_playouts(case: str) -> None:
    question = question_of(case, 5)
    action = question.actions[0]
    samples = [sample_of(question, action, 32, "auto", visits) for visits in (1, 2, 3, 4)]
    assert [sample.count for sample in samples] == [32, 64, 96, 128]
    assert len({sample.mean for sample in samples}) > 1
    assert samples[3].error < samples[0].error * 0.7
    # A second visit adds new playouts instead of repeating the first.
    second = 2 * samples[1].mean - samples[0].mean
    assert second != samples[0].mean


def test_hidden_cards_do_not_move_a_sample() -> None:
    for case, seed in (("hearts", 4), ("leduc_poker", 2), ("phantom_ttt", 8)):
        question = question_of(case, seed)
        dealt: Any = question.game.resample(question.state, question.player, random.Random(3).random)
        other = Question.of(question.game, dealt, question.player)
        assert other.known == question.known
        action = question.actions[0]
        playouts.visit_sample.cache_clear()
        assert sample_of(question, action, 16, "auto").mean == sample_of(other, action, 16, "auto").mean


def test_long_games_and_costly_deals_have_fewer_playouts() -> None:
    counts = {case: playouts.usual_count(case) for case in ("hex(board_size=5)", "goofspiel", "cribbage", "battleship")}
    assert counts["hex(board_size=5)"] == playouts.MOST
    assert playouts.MOST > counts["goofspiel"] > counts["cribbage"] >= counts["battleship"] >= playouts.LEAST
