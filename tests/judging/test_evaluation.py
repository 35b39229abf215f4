"""The command line: a reproducible report, games that are played only once, and one-line errors."""

import importlib.util
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.errors import exit_on_user_error

TOOL = Path(__file__).resolve().parents[2] / "train/tools/evaluate.py"
BOTS = ["--checkpoint", "random", "--games", "tic_tac_toe,kuhn_poker", "--num_episodes", "12"]

pytestmark = pytest.mark.filterwarnings("ignore:.*has no description of its own")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process; returns the exit code, standard output and standard error."""
    spec: Any = importlib.util.spec_from_file_location("evaluate_tool", TOOL)
    tool: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["evaluate.py", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "80")
        with pytest.raises(SystemExit) as ended:
            exit_on_user_error(tool.main)
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return call


def timeless(folder: Path) -> tuple[dict[str, Any], str, bytes]:
    values = json.loads((folder / "report.json").read_text())
    del values["times"]
    page = re.sub(r'<span class="times">.*?</span>', "", (folder / "report.html").read_text())
    return values, page, (folder / "report.png").read_bytes()


def test_the_report_says_what_was_played(run: Callable[..., Any], tmp_path: Path) -> None:
    code, out, _ = run(*BOTS, "--opponent", "random,mcts:5", "--compare", "exact", "--output", tmp_path)
    assert code == 0
    values, page, picture = timeless(tmp_path)
    games = [json.loads(line) for line in (tmp_path / "games.jsonl").read_text().splitlines()]
    assert len(games) == 2 * 2 * 2 * 12
    for row in values["rows"]:
        mine = [
            game
            for game in games
            if game["player"] == row["player"]
            and game["opponent"] == row["opponent"]
            and row["case"] in ("all", game["case"])
            and row["seat"] in ("all", str(game["seat"]))
        ]
        assert row["games"] == len(mine) > 0
        assert row["success"]["mean"] == pytest.approx(sum(game["success"] for game in mine) / len(mine))
        assert row["success"]["low"] < row["success"]["high"]
        assert row["score"]["mean"] == pytest.approx(sum(game["value"] for game in mine) / len(mine))
    assert {(row["case"], row["seat"]) for row in values["rows"]} == {
        ("all", "all"),
        *((case, seat) for case in ("tic_tac_toe", "kuhn_poker") for seat in ("all", "0", "1")),
    }
    milestones = [(found["player"], found["level"], found["threshold"]) for found in values["milestones"]]
    assert milestones == [
        (player, *level) for player in ("random", "exact") for level in (("easy", 0.5), ("medium", 0.4))
    ]
    (toe,) = [
        found for found in values["comparisons"] if (found["case"], found["opponent"]) == ("tic_tac_toe", "random")
    ]
    assert toe["score"]["difference"]["high"] < 0
    assert "random less exact, against mcts:5" in out
    assert all(word in page for word in ("mcts:5", "random less exact", "tic_tac_toe", "data:image/png;base64,"))
    assert not re.search(r'(src|href)="(?!data:)|https?://|@import|<script', page)
    assert picture.startswith(b"\x89PNG")


def test_the_same_seed_gives_the_same_bytes_and_finished_games_are_kept(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from veritas_rl.judging import matches

    first, second = tmp_path / "first", tmp_path / "second"
    assert run(*BOTS, "--output", first)[0] == 0
    played = matches.play

    games = iter(range(7))

    def interrupted(sessions: Any, players: Any) -> Any:
        if next(games, None) is None:
            raise KeyboardInterrupt
        return played(sessions, players)

    with monkeypatch.context() as patched:
        patched.setattr(matches, "play", interrupted)
        code, _, err = run(*BOTS, "--output", second)
    assert (code, err) == (130, "interrupted\n")
    assert len((second / "games.jsonl").read_text().splitlines()) == 7
    _, out, _ = run(*BOTS, "--output", second)
    assert "7 of 24 games are already finished" in out
    assert timeless(first) == timeless(second)
    _, out, _ = run(*BOTS, "--output", second)
    assert "24 of 24 games are already finished" in out
    assert timeless(first) == timeless(second)
    assert run(*BOTS, "--output", tmp_path / "third", "--seed", 1)[0] == 0
    assert timeless(tmp_path / "third")[0]["rows"] != timeless(first)[0]["rows"]


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_model_plays_the_same_here_and_behind_a_server(
    run: Callable[..., Any], chat_server: Callable[..., Any], tiny_model: Path, tmp_path: Path, temperature: int
) -> None:
    words = ["--games", "tic_tac_toe", "--num_episodes", 6, "--prompt", "brief", "--max_tokens", 4]
    words += ["--temperature", temperature]
    for name, checkpoint in (("here", tiny_model), ("again", tiny_model), ("there", chat_server().url)):
        assert run("--checkpoint", checkpoint, *words, "--output", tmp_path / name)[0] == 0
    here, again, there = (timeless(tmp_path / name) for name in ("here", "again", "there"))
    assert here == again
    row, far = here[0]["rows"][0], there[0]["rows"][0]
    assert row["illegal"]["mean"] + row["truncated"]["mean"] == 1.0
    assert (row["tokens"], row["prompt_tokens"]) == (here[0]["tokens"]["written"], here[0]["tokens"]["read"])
    assert row["prompt_tokens"] > row["tokens"] >= row["moves"] == 6
    if temperature == 0:
        assert {**far, "player": ""} == {**row, "player": ""}


def test_single_answers_to_held_out_positions_of_games(run: Callable[..., Any], tmp_path: Path) -> None:
    code, out, _ = run(*BOTS, "--mode", "move", "--compare", "exact", "--output", tmp_path)
    assert code == 0
    games = [json.loads(line) for line in (tmp_path / "games.jsonl").read_text().splitlines()]
    assert len(games) == 2 * 2 * 12
    assert {(game["mode"], game["opponent"], game["moves"]) for game in games} == {("move", "nobody", 1)}
    assert all("split=val" in game["task"] for game in games)
    good = {row["player"]: row["success"]["mean"] for row in timeless(tmp_path)[0]["rows"] if row["case"] == "all"}
    assert good["random"] < good["exact"] == 1
    assert "random less exact" in out
    code, _, err = run(*BOTS, "--mode", "move", "--opening", 2, "--output", tmp_path / "opening")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "--opening 2 is for whole games" in err


def test_models_against_models_and_perturbed(run: Callable[..., Any], tiny_model: Path, tmp_path: Path) -> None:
    words = ["--checkpoint", tiny_model, "--opponent", tiny_model, "--games", "tic_tac_toe", "--num_episodes", 4]
    code, out, _ = run(*words, "--max_tokens", 4, "--relabelled", "--output", tmp_path)
    assert code == 0
    values, page, _ = timeless(tmp_path)
    assert [found["perturbation"] for found in values["perturbed"]] == ["labels", "mirrored"]
    for found in values["perturbed"]:
        assert (found["positions"], found["exact"]) == (4, True)
        assert found["difference"]["mean"] == found["other"]["good"]["mean"] - found["plain"]["good"]["mean"]
    assert "with other labels" in out
    assert "with other labels" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--checkpoint", "/no/such/folder"], "there is no such folder"),
        (["--checkpoint", "random", "--games", "tic_tac_to"], "unknown game 'tic_tac_to': did you mean tic_tac_toe"),
        (["--checkpoint", "random", "--games", "goofspiel", "--opponent", "mcts"], "its players move at once"),
        (["--checkpoint", "exact", "--games", "hearts"], "too large|cannot be solved"),
        (["--checkpoint", "random", "--opponent", "mtcs", "--games", "tic_tac_toe"], "no player 'mtcs'"),
        (["--checkpoint", "random", "--compare", "random"], "--compare and --checkpoint are both random"),
        (["--checkpoint", "random", "--num_episodes", "0"], "--num_episodes must be at least 1"),
        (["--checkpoint", "http://127.0.0.1:9/v1", "--games", "tic_tac_toe"], "no server answers at"),
    ],
)
def test_a_mistake_is_one_line(run: Callable[..., Any], tmp_path: Path, words: list[str], message: str) -> None:
    code, _, err = run(*words, "--output", tmp_path)
    assert code == 2
    (line,) = err.strip().splitlines()
    assert line.startswith("error: ")
    assert re.search(message, line)


def test_a_budget_ends_an_evaluation_and_the_same_command_goes_on(
    run: Callable[..., Any], chat_server: Callable[..., Any], tmp_path: Path
) -> None:
    url = chat_server().url
    words = ["--checkpoint", url, "--games", "tic_tac_toe", "--num_episodes", 12, "--prompt", "brief"]
    words += ["--max_tokens", 4, "--temperature", 1, "--concurrency", 2, "--price_in", 1, "--output", tmp_path]
    code, _, err = run(*words)
    assert code == 2
    assert re.match(r"error: --price_in .*--price_out", err.splitlines()[-1])
    words += ["--price_out", 1]
    code, _, err = run(*words, "--budget", 0.00015)
    assert code == 2
    assert "the budget of 0.00015 USD is spent" in err
    kept = len((tmp_path / "games.jsonl").read_text().splitlines())
    assert 0 < kept < 12
    code, out, _ = run(*words, "--budget", 1)
    assert code == 0
    assert f"{kept} of 12 games are already finished" in out
    values, page, _ = timeless(tmp_path)
    (cost,) = values["cost"]
    assert cost["requests"] >= 12 > 0
    assert cost["money"] == pytest.approx((cost["prompt_tokens"] + cost["tokens"]) / 1e6, abs=1e-6)
    line = f"tiny: {cost['requests']} requests, {cost['prompt_tokens']:,} tokens read"
    assert line in out
    assert line in page


def test_points_and_highest_tile_of_2048_are_reported(run: Callable[..., Any], tmp_path: Path) -> None:
    code, printed, _ = run("--checkpoint", "random", "--games", "2048", "--num_episodes", 3, "--output", tmp_path)
    assert code == 0
    games = [json.loads(line) for line in (tmp_path / "games.jsonl").read_text().splitlines()]
    points = [game["measures"]["points"] for game in games]
    # The value of a game is scaled so that a return of 2,000 is worth 1/2.
    assert [game["value"] for game in games] == pytest.approx([found / (found + 2000) for found in points])
    assert all(game["measures"]["highest_tile"] in {2.0**power for power in range(2, 12)} for game in games)
    (row,) = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert row["measures"]["points"]["mean"] == pytest.approx(sum(points) / 3)
    assert f"2048: points {sum(points) / 3:,.1f}" in printed
    assert f"points {sum(points) / 3:,.1f} [" in (tmp_path / "report.html").read_text()
