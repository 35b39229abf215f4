"""The gallery is current, and has a page of each game."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from veritas_rl.envs.openspiel.cases import default_cases, load
from veritas_rl.envs.openspiel.gallery import FOLDER, PAGE, render
from veritas_rl.envs.openspiel.games import GAMES, State
from veritas_rl.envs.openspiel.values.ladder import solved
from veritas_rl.envs.openspiel.values.question import Question


def page_of(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def line_of(name: str, head: str) -> str:
    """A line of the page of a game."""
    found = re.search(rf"^- (?:\[{head}\]\([^)]*\)|{head}): (.*?)$", page_of(name), re.MULTILINE)
    assert found
    return found[1]


def test_the_pages_are_current_and_there_are_no_others() -> None:
    assert {path: path.read_text(encoding="utf-8") for path in (PAGE, *FOLDER.glob("*.md"))} == render()


def test_every_described_game_is_listed_and_shown_with_a_prompt() -> None:
    listed = PAGE.read_text(encoding="utf-8")
    for name in GAMES:
        assert f"(games/{name}.md) | `{name}` |" in listed
        assert page_of(name).count("Answer with exactly one legal action") == 1
        assert page_of(name).count("\n```\nYou are playing") == 1


@pytest.mark.parametrize("name", GAMES)
def test_the_score_is_what_a_finished_game_pays(name: str) -> None:
    game, score = load(default_cases(name)[0]), line_of(name, "Score")
    least, greatest = game.spiel.min_utility(), game.spiel.max_utility()
    for r in (least, *(r for r in (-1.0, -0.5, 0.0, 0.5, 1.0) if r > least), greatest):
        if score.startswith("won 1, drawn 0.5, lost 0 ("):
            paid = 1.0 if r > 0 else 0.5 if r == 0 else 0.0
        elif score.startswith(("by rank: 1 - rank", "the better return 1, the other 0, equal ones 0.5")):
            paid = 1.0 if r > 0 else 0.0 if r < 0 else 0.5 if game.players == 2 else 1.0
        else:
            paid = eval(score.partition(" for ")[0], {"r": r, "abs": abs})
        others = [-r / (game.players - 1)] * (game.players - 1) if game.players > 1 else []
        assert game.outcome([r, *others], 0) == pytest.approx(paid)


@pytest.mark.parametrize("name", [name for name in GAMES if load(default_cases(name)[0]).solvable])
def test_the_games_that_are_solved_late_are_named(
    name: str, games: Callable[[str, int], Iterator[list[State]]]
) -> None:
    case = default_cases(name)[0]
    last = [states[-2] for states in games(case, 20)]
    late = any(solved(Question.of(load(case), state, state.current_player())) is not None for state in last)
    assert late == line_of(name, "A single move").startswith("minimax")


def test_an_unknown_option_is_one_line() -> None:
    command = [sys.executable, "-m", "veritas_rl.envs.openspiel.gallery", "--chek"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2
    assert re.fullmatch(r"error: .*--chek.*\n", ended.stderr)
