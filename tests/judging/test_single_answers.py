"""Tasks with a single answer, such as the quiz, are judged like games: by group, paired, recorded in the ledger."""

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from veritas_rl.envs import registry
from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.registry import get_environment, make_task
from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.judging import evaluation
from veritas_rl.judging.finished_game import FinishedGame
from veritas_rl.judging.held_out import judge, judge_uniform
from veritas_rl.judging.report import measure_of, table_of
from veritas_rl.players.loading import NamedPlayer
from veritas_rl.players.random import RandomPlayer
from veritas_rl.rating import tournament

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "train/tools/evaluate.py"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def quiz(own_environments: None) -> None:
    """Make the quiz available by its name, as a command line with its file does."""
    registry.environment_named("quiz.py:quiz", ROOT / "tests/quiz")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process; returns the exit code, standard output and standard error."""
    spec: Any = importlib.util.spec_from_file_location("evaluate_tool", TOOL)
    tool: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["evaluate.py", "--env", "quiz", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "80")
        with pytest.raises(SystemExit) as ended:
            exit_on_user_error(tool.main)
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return call


class Adder:
    """A player that adds in every question, and gives no answer if the second number is a multiple of 3."""

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        return [self._answer(turn.messages[0]["content"].split(), turn) for turn in turns]

    def _answer(self, words: list[str], turn: Turn) -> Reply:
        first, sign, second = words[:3]
        if int(second) % 3 == 0:
            return Reply("")
        return Reply(
            turn.solution if sign == "+" else f"\\boxed{{{int(first) + int(second)}}}", prompt_tokens=7, tokens=3
        )


@pytest.fixture
def adder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the name "adder" open the `Adder` as a model."""
    opened = evaluation.open_player

    def open_player(name: str, *words: Any) -> NamedPlayer:
        if name == "adder":
            return NamedPlayer(name, name, Adder(), is_model=True)
        return opened(name, *words)

    monkeypatch.setattr(evaluation, "open_player", open_player)


def share(games: Sequence[FinishedGame], chosen: Callable[[FinishedGame], bool]) -> Any:
    return pytest.approx(sum(map(chosen, games)) / len(games))


def test_success_is_reported_by_group_and_over_all_and_compared_task_by_task(
    run: Run, adder: None, tmp_path: Path
) -> None:
    words = ["--checkpoint", "adder", "--compare", "solution", "--num_episodes", 24, "--output", tmp_path]
    code, out, _ = run(*words)
    assert code == 0
    values = json.loads((tmp_path / "report.json").read_text())
    games = [FinishedGame.from_json(line) for line in (tmp_path / "games.jsonl").read_text().splitlines()]
    assert len(games) == 2 * 2 * 24
    assert all(game.opponent == "nobody" and "split=val" in game.task for game in games)
    rows = {(row["player"], row["case"]): row for row in values["rows"]}
    assert set(rows) == {(player, case) for player in ("adder", "solution") for case in ("all", "sums", "differences")}
    for (player, case), row in rows.items():
        mine = [game for game in games if game.player == player and case in ("all", game.case)]
        assert row["games"] == len(mine)
        assert row["success"]["mean"] == share(mine, lambda game: game.success)
        assert row["legal"]["mean"] == share(mine, lambda game: not game.reason.is_mistake)
        assert row["success"]["low"] < row["success"]["high"]
        assert row["wins"] is row["draws"] is row["losses"] is None
    assert 0.5 < rows["adder", "sums"]["success"]["mean"] == rows["adder", "sums"]["legal"]["mean"] < 1
    assert rows["adder", "differences"]["success"]["mean"] < 0.1 < rows["adder", "differences"]["legal"]["mean"]
    assert values["tokens"] == {
        "read": sum(g.prompt_tokens for g in games),
        "written": sum(game.tokens for game in games),
        "answers": 96,
    }
    overall = next(found for found in values["comparisons"] if found["case"] == "all")
    difference = rows["adder", "all"]["success"]["mean"] - 1
    assert overall["success"]["difference"]["mean"] == pytest.approx(difference)
    assert overall["success"]["difference"]["high"] < 0
    assert len(overall["differing"]) == sum(not game.success for game in games)
    page = (tmp_path / "report.html").read_text()
    for text in (out, page):
        assert all(word in " ".join(text.split()) for word in ("differences", "sums", "adder less solution"))
    assert "answers in the asked form" in page
    assert "won" not in page.replace("went", "")
    assert (tmp_path / "shown.html").exists()
    assert all(len(line) <= 80 for line in out.splitlines() if "─" in line)
    _, again, _ = run(*words)
    assert "96 of 96 games are already finished" in again
    assert json.loads((tmp_path / "report.json").read_text())["rows"] == values["rows"]


def test_a_model_answers_and_settings_of_the_environment_are_taken(run: Run, tiny_model: Path, tmp_path: Path) -> None:
    words = ["--checkpoint", tiny_model, "--cases", "sums", "--num_episodes", 5, "--prompt", "brief", "--max_tokens", 4]
    code, _, error = run(*words, "--config", "legal_share=0.5", "--output", tmp_path)
    assert (code, error) == (0, "")
    values = json.loads((tmp_path / "report.json").read_text())
    (row,) = values["rows"]
    assert (row["case"], row["games"], row["moves"]) == ("sums", 5, 5)
    assert row["prompt_tokens"] > row["tokens"] > 0
    assert values["settings"]["config"] == {"legal_share": 0.5}


def test_puzzles_are_reported_by_type_and_level_and_a_server_is_compared_on_the_same(
    run: Run, chat_server: Callable[..., Any], tmp_path: Path
) -> None:
    address = chat_server().url
    words = ["--env", "lgc-v2", "--cases", "dyck_language", "--config", "levels=1,2", "--prompt", "brief"]
    words += ["--checkpoint", "solution", "--compare", address, "--max_tokens", 4]
    code, out, _ = run(*words, "--num_episodes", 6, "--output", tmp_path)
    assert code == 0
    assert "right answers" in out
    values = json.loads((tmp_path / "report.json").read_text())
    groups = ["all", "dyck_language_level_1", "dyck_language_level_2"]
    assert [(row["player"], row["case"]) for row in values["rows"]] == [
        (player, group) for player in ("solution", address) for group in groups
    ]
    assert [row["games"] for row in values["rows"]] == [12, 6, 6] * 2
    assert [row["success"]["mean"] for row in values["rows"]] == [1, 1, 1, 0, 0, 0]
    assert all(row["success"]["low"] < row["success"]["high"] for row in values["rows"])
    games = [FinishedGame.from_json(line) for line in (tmp_path / "games.jsonl").read_text().splitlines()]
    asked = {player: {game.task for game in games if game.player == player} for player in ("solution", address)}
    assert asked["solution"] == asked[address]
    assert len(asked[address]) == 12
    assert [found["case"] for found in values["comparisons"]] == groups
    assert all(found["success"]["difference"]["mean"] == 1 for found in values["comparisons"])
    assert values["tokens"]["answers"] == 24


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cases", "sum"], "unknown case 'sum': did you mean sums"),
        (["--config", "num_tasks_per_case=3"], "num_tasks_per_case is not set with --config"),
        (["--config", "prompt=brief"], "prompt is not set with --config"),
        (["--config", "levels=3"], "unknown quiz setting 'levels'"),
        (["--config", "levels"], "--config takes KEY=VALUE, not 'levels'"),
        (["--prompt", "short"], "unknown prompt 'short'"),
        (["--opening", "2"], "--opening 2 is for whole games"),
        (["--checkpoint", "random", "--num_episodes", "1"], "the player random cannot play here"),
        (["--checkpoint", "exact"], "no player 'exact'"),
        (["--env", "quizz"], "unknown environment 'quizz': did you mean quiz"),
        (["--exact"], "--env has no effect with --exact"),
    ],
)
def test_a_mistake_is_one_line(run: Run, tmp_path: Path, words: list[str], message: str) -> None:
    code, _, error = run("--checkpoint", "solution", "--num_episodes", 2, "--output", tmp_path, *words)
    assert code == 2
    (line,) = error.strip().splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_an_opponent_that_nobody_meets_is_noted(run: Run, tmp_path: Path) -> None:
    words = ["--checkpoint", "solution", "--opponent", "none-such/player", "--num_episodes", 2, "--output", tmp_path]
    code, out, _ = run(*words)
    assert code == 0
    assert "none-such/player did not play" in out


def test_the_words_of_a_judgement_are_those_of_its_environment() -> None:
    quiz = get_environment("quiz")
    sums = [make_task("quiz", "sums", k, split="val") for k in range(6)]
    moves = [make_task("openspiel", "tic_tac_toe", k, reward="optimal", split="val") for k in range(6)]
    estimated = [make_task("openspiel", "othello", k, reward="outcome", playouts=2, split="val") for k in range(2)]
    found = {
        "quiz": judge(Adder(), sums),
        "moves": judge(RandomPlayer(), moves),
        "estimated": judge(RandomPlayer(), estimated),
    }
    words = {name: (judgement.answers, judgement.solved) for name, judgement in found.items()}
    assert words == {
        "quiz": (quiz.answers, quiz.solved),
        "moves": ("legal moves", "optimal moves"),
        "estimated": ("legal moves", "good moves"),
    }
    assert measure_of({"one": found["moves"], "two": found["estimated"]}) == "good moves"

    class Both:
        def act(self, turns: Sequence[Turn]) -> list[Reply]:
            return [Reply(turn.solution or turn.answers[0]) for turn in turns]

    mixed = judge(Both(), [*sums, *moves])
    assert (mixed.answers, mixed.solved) == ("answers that could be read", "solved tasks")
    assert mixed.legal_rate.mean == 1
    console = Console(width=120)
    with console.capture() as printed:
        console.print(table_of({"both": mixed}, "mixed"))
    assert "answers that could be read" in printed.get()


def test_random_guesses_where_answers_cannot_be_listed(run: Run, tmp_path: Path) -> None:
    options = ["--env", "lgc-v2", "--games", "boolean_expressions,operation", "--checkpoint", "random"]
    code, _, _ = run(*options, "--num_episodes", "12", "--output", tmp_path / "few")
    assert code == 0
    (note,) = json.loads((tmp_path / "few/report.json").read_text())["notes"]
    assert "random gives the solution of another task of the case" in note
    lines = (tmp_path / "few/games.jsonl").read_text().splitlines()
    assert len(lines) == 24
    # Guesses can be read, and are right about as often as two tasks have one solution.
    games = [FinishedGame.from_json(line) for line in lines]
    assert not any(game.reason.is_mistake for game in games if game.case == "operation")
    assert sum(game.value for game in games) < 12
    run(*options, "--num_episodes", "14", "--output", tmp_path / "more")
    more = set((tmp_path / "more/games.jsonl").read_text().splitlines())
    assert more >= set(lines)
    code, _, err = run(*options, "--num_episodes", "1", "--output", tmp_path / "one")
    assert code == 2
    assert "the answers of these tasks cannot be listed or guessed" in err


def test_uniform_play_is_known_where_answers_are_listed_alone() -> None:
    moves = [make_task("openspiel", "tic_tac_toe", k, reward="optimal", split="val") for k in range(4)]
    sums = [make_task("quiz", "sums", k, split="val") for k in range(4)]
    assert judge_uniform(sums) is None
    assert judge_uniform([*moves, *sums]) is None
    uniform = judge_uniform(moves)
    assert uniform is not None
    assert 0 < uniform.optimal_rate.mean <= 1


def test_help_lists_the_players_of_the_environment(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert "players of quiz:\n  random" in out
    assert "mcts:SIMS" not in out
    _, out, _ = run("--help", "--env", "openspiel")
    assert re.search(r"^  mcts, mcts:SIMS, mcts:full +\w", out, re.MULTILINE)


def test_a_tournament_needs_a_game_for_two(tmp_path: Path) -> None:
    settings = tournament.Settings(("random", "solution"), env="quiz")
    with pytest.raises(UserError, match="quiz has no two-player game"):
        tournament.hold(settings, tmp_path, Console(quiet=True))
