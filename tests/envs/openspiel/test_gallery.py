"""The gallery of games is current, and shows each game."""

import subprocess
import sys

from veritas_rl.envs.openspiel.gallery import PAGE, render
from veritas_rl.envs.openspiel.games import GAMES


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render()


def test_every_described_game_is_shown_with_a_prompt() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in GAMES:
        assert f"`{name}`:" in page
    assert page.count("Answer with exactly one legal action") == len(GAMES)
    assert page.count("\n```\nYou are playing") == len(GAMES)


def test_what_it_does_not_understand_is_said_in_one_line() -> None:
    command = [sys.executable, "-m", "veritas_rl.envs.openspiel.gallery", "--chek"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.strip().endswith("--chek is not understood: nothing, or --check")
