"""The examples run as users type them."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_reward_of_the_loop_in_one_file_rises() -> None:
    command = [sys.executable, "examples/loop.py", "--passes", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = map(float, re.findall(r"^pass \d/2  reward ([\d.]+)$", done.stdout, re.MULTILINE))
    # Of the warmed-up model and of the trained one on the same questions; a legal move pays at least 0.5.
    assert 0.5 < first < second - 0.01


def test_the_loop_fits_on_a_page() -> None:
    assert len((ROOT / "examples/loop.py").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_game_for_two_seats_has_no_misleading_rewards_and_is_played(tmp_path: Path) -> None:
    nim = ("--env", "examples/nim.py:Nim")
    for words in (
        ("train/tools/lint_env.py", *nim, "--tasks", "6"),
        (
            *("train/tools/evaluate.py", *nim, "--checkpoint", "random", "--opponent", "random"),
            *("--num_episodes", "8", "--output", tmp_path / "judged"),
        ),
    ):
        done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "random against random" in done.stdout
