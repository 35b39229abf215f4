"""The gallery is current, and shows each game."""

import re
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


def test_an_unknown_option_is_one_line() -> None:
    command = [sys.executable, "-m", "veritas_rl.envs.openspiel.gallery", "--chek"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2
    assert re.fullmatch(r"error: .*--chek.*\n", ended.stderr)
