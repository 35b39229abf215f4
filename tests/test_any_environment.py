"""An environment of a file (tests/quiz/quiz.py) works with the same tools and trainings as OpenSpiel.

No code of this repository names the environment: the command line does.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
QUIZ = "tests/quiz/quiz.py:quiz"
STAGES = "[{name: first, cases: [sums], threshold: 0.05}, {name: second, threshold: 0.9}]"


def run(*command: str | Path, **variables: str) -> str:
    """Run a command of this repository; return its output."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "160", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_linter_plays_it() -> None:
    assert "no findings in 2 cases" in run("train/tools/lint_env.py", "--env", QUIZ, "--tasks", "6")


def test_a_foreign_environment_is_evaluated(tmp_path: Path) -> None:
    tool = "train/tools/evaluate.py"
    printed = run(
        tool, "--env", QUIZ, "--checkpoint", "solution", "--num_episodes", "12", "--output", tmp_path / "evaluation"
    )
    assert "sums" in printed
    assert "differences" in printed
    report = json.loads((tmp_path / "evaluation/report.json").read_text())
    assert {row["case"] for row in report["rows"]} >= {"sums", "differences"}
    assert all(row["success"]["mean"] == 1 for row in report["rows"])


def test_a_foreign_environment_is_demonstrated(tmp_path: Path) -> None:
    tool = "train/tools/generate_demonstrations.py"
    run(tool, "--env", QUIZ, "--num_demonstrations", "40", "--prompt", "brief", "--output", tmp_path)
    report = json.loads((tmp_path / "demonstrations.json").read_text())
    assert sum(part["rows"] for part in report["files"].values()) == 40
    assert report["check"]["rows_in_evaluation_set"] == 0


@pytest.mark.training
def test_a_foreign_environment_is_trained_with_all_stages(tmp_path: Path) -> None:
    printed = run(
        "-m",
        "veritas_rl.launch.main",
        f"environment={QUIZ}",
        f"trainer.default_local_dir={tmp_path}",
        "trainer.total_training_steps=2",
        "trainer.save_freq=2",
        "trainer.test_freq=2",
        "data.val_max_samples=16",
        "data.train_batch_size=32",
        "veritas_rl.warm_up.steps=60",
        "veritas_rl.evaluation.positions=30",
        "veritas_rl.critic_warmup=0",
        f"data.custom_cls.config.curriculum={{window: 8, past_share: 0.2, stages: {STAGES}}}",
        "data.custom_cls.config.failure_replay={probability: 0.5}",
    )
    for row in ("before", "after the warm-up", "after RL", "right answers", "answers in the asked form"):
        assert row in printed
    assert "random legal player" not in printed  # the quiz lists no legal answers
    folder = Path(json.loads((tmp_path / "run.json").read_text())["folder"])
    steps = [json.loads(line)["data"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [step for step in steps if "critic/score/mean" in step]
    assert len(steps) == 2
    for step in steps:
        assert {"task/success", "quiz/success", "quiz/sums/success", "failure_replay/size"} <= step.keys()
        assert step["quiz/reward"] == pytest.approx(step["critic/score/mean"], abs=1e-6)
    # The first stage asks only sums and is passed at 5% success, so the second step asks both kinds.
    assert steps[0]["curriculum/stage"] >= 1
    assert any(name.startswith("val-core/quiz/") for name in steps[-1])
    report = json.loads((folder / "report.json").read_text())
    assert report["after the warm-up"]["legal"]["mean"] > report["before"]["legal"]["mean"]
