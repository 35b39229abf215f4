"""Forecasts of an evaluation's cost, against what it then asks."""

import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from veritas_rl.exact.evaluation import ExactSettings, forecast_exactly
from veritas_rl.judging.evaluation import Settings, evaluate
from veritas_rl.judging.forecast import forecast

ROOT = Path(__file__).resolve().parents[2]


def test_a_forecast_is_near_what_is_asked(tmp_path: Path) -> None:
    settings = Settings("random", opponents=("random",), games=60, cases="tic_tac_toe,kuhn_poker", prompt="brief")
    found = forecast(settings.rules(), settings.cases, settings.games, 1)
    played = evaluate(settings, tmp_path, Console(quiet=True))
    assert found.tasks == len(played.games) == 120
    assert found.answers == pytest.approx(sum(game.moves for game in played.games), rel=0.25)


def test_an_exact_evaluation_asks_in_each_state() -> None:
    found = forecast_exactly(ExactSettings("http://host/v1#m", cases="kuhn_poker", samples=5))
    assert (found.tasks, found.answers) == (12, 60)


@pytest.mark.parametrize(
    ("typed", "tasks"),
    [("--env lgc-v2 --num_episodes 2", "18 games and tasks"), ("--exact --games kuhn_poker", "12 states")],
)
def test_a_forecast_asks_nothing_and_says_the_money(typed: str, tasks: str, tmp_path: Path) -> None:
    words = ["--checkpoint", "http://host.invalid/v1#m", "--cost", "--price_in", "1", "--price_out", "1000"]
    command = [sys.executable, "train/tools/evaluate.py", *words, *typed.split(), "--output", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"forecast: {tasks}, about ")
    assert line.endswith(" USD")
    assert not (tmp_path / "out").exists()
