"""Results of trainings are written, read, and shown as table rows."""

from pathlib import Path

import pytest

from veritas_rl.envs.openspiel import learning_runs
from veritas_rl.envs.openspiel.env import NEXT_CASES, OpenSpielEnvironment
from veritas_rl.envs.openspiel.learning_runs import COLUMNS, LearningRun, cells_of, read, write
from veritas_rl.errors import UserError


def estimate(mean: float, half: float = 0.02) -> dict[str, float]:
    return {"mean": mean, "low": mean - half, "high": mean + half}


def run_of(gain: float, legal: float = 0.97) -> LearningRun:
    rates = {
        name: {"legal": estimate(legal), "optimal": estimate(success), "value": estimate(0.5)}
        for name, success in (
            ("uniform random legal player", 0.4),
            ("after the warm-up", 0.39),
            ("after RL", 0.39 + gain),
        )
    }
    return LearningRun(
        "othello", 42, 8.25, 2, "2026-11-22", {**rates, "gain": estimate(gain), "over random": estimate(0.3)}
    )


def test_runs_come_back_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "learning.json"
    assert read(path) == []
    write(path, [run_of(0.1), run_of(0.2)])
    assert read(path) == [run_of(0.1), run_of(0.2)]
    path.write_text('[{"case": "hex"}]')
    with pytest.raises(UserError, match="is no file of benchmarks"):
        read(path)


def test_a_run_is_a_row_of_words() -> None:
    cells = dict(zip(COLUMNS, cells_of(run_of(0.1)), strict=True))
    assert cells["gain"] == "10.0% [8.0, 12.0]"
    assert cells["random"] == "40.0% [38.0, 42.0]"
    assert cells["legal"] == "97.0% 97.0%"
    assert cells["value"] == "0.500 0.500 0.500"
    assert cells["minutes"] == "8.2"


def test_learning_is_shown_by_legal_replies_and_by_the_intervals() -> None:
    assert run_of(0.1).shows_learning
    assert not run_of(0.01).shows_learning
    assert not run_of(0.1, legal=0.94).shows_learning


def test_a_case_on_which_no_training_showed_learning_is_named_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning_runs, "PATH", tmp_path / "learning.json")
    environment = OpenSpielEnvironment()
    assert not environment.small_model_warnings(["othello"])
    write(learning_runs.PATH, [run_of(0.01)])
    (line,) = environment.small_model_warnings(["tic_tac_toe", "othello"])
    assert line.startswith("othello: ")
    assert f"GAME_TYPES={NEXT_CASES[0]!r}" in line
    write(learning_runs.PATH, [run_of(0.01), run_of(0.1)])
    assert not environment.small_model_warnings(["othello"])


def test_the_games_that_are_proposed_next_are_games_that_the_small_model_learns() -> None:
    assert not OpenSpielEnvironment().small_model_warnings(NEXT_CASES)
