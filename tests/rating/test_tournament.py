"""Every pair of players meets, no game is lost or repeated, and the ratings have the expected order."""

import importlib.util
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.envs.openspiel.engines import EngineSpec
from veritas_rl.errors import exit_on_user_error
from veritas_rl.judging.finished_game import FinishedGame
from veritas_rl.judging.matches import LEDGER

TOOL = Path(__file__).resolve().parents[2] / "train/tools/tournament.py"
REPORT = ("ratings.json", "cross_table.html", "cross_table.png")
BOTS = ["random", "mcts:10", "exact"]
TOE = ["--games", "tic_tac_toe", "--num_episodes", "12"]

Run = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.filterwarnings("ignore:.*has no description of its own")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process; returns the exit code, standard output and standard error."""
    spec: Any = importlib.util.spec_from_file_location("tournament_tool", TOOL)
    tool: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tournament.py", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "80")
        with pytest.raises(SystemExit) as ended:
            exit_on_user_error(tool.main)
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return call


def report(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in REPORT]


def games_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / LEDGER).read_text().splitlines()]


def stopped(run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, after: int, *words: object) -> Any:
    """Run the command line, and raise `error` when `after` games have ended."""
    from veritas_rl.judging import matches

    added = matches.Ledger.add
    count = itertools.count(1)

    def add(ledger: matches.Ledger, game: FinishedGame) -> None:
        added(ledger, game)
        if next(count) == after:
            raise error

    with monkeypatch.context() as patched:
        patched.setattr(matches.Ledger, "add", add)
        return run(*words)


def test_exact_is_better_than_mcts_and_mcts_than_random(run: Run, tmp_path: Path) -> None:
    code, out, _ = run(*BOTS, "--games", "tic_tac_toe", "--num_episodes", 30, "--output", tmp_path)
    assert code == 0
    values = json.loads((tmp_path / "ratings.json").read_text())
    (table,) = values["tables"]
    assert [standing["player"] for standing in table["standings"]] == ["exact", "mcts:10", "random"]
    exact, mcts, random = table["standings"]
    assert exact["rating"]["low"] > mcts["rating"]["high"] > mcts["rating"]["low"] > random["rating"]["high"]
    assert exact["losses"] == 0
    games = games_of(tmp_path)
    assert len(games) == 3 * 30
    for one, other in itertools.combinations(BOTS, 2):
        mine = [game for game in games if {game["player"], game["opponent"]} == {one, other}]
        assert len(mine) == 30
        assert {(game["deal"], game["seat"]) for game in mine} == {
            (deal, seat) for deal in range(15) for seat in (0, 1)
        }
    for standing in table["standings"]:
        won = drawn = 0
        for game in games:
            if standing["player"] in (game["player"], game["opponent"]):
                won += game["reason"] == ("won" if standing["player"] == game["player"] else "lost")
                drawn += game["reason"] == "drawn"
        assert (standing["games"], standing["wins"], standing["draws"]) == (60, won, drawn)
        assert standing["points"] == won + drawn / 2
    assert re.search(r"1 +exact +\d+ \[\d+, \d+\]", out)
    assert max(map(len, out.splitlines()[10:20])) <= 80
    page = (tmp_path / "cross_table.html").read_text()
    assert all(f">{name}</td>" in page for name in BOTS)
    assert not re.search(r'(src|href)="(?!data:)|https?://|@import|<script', page)
    assert (tmp_path / "cross_table.png").read_bytes().startswith(b"\x89PNG")


def test_an_engine_anchors_the_ratings(run: Run, tmp_path: Path, installed: Callable[[str], EngineSpec]) -> None:
    installed("gtp:gnugo")
    players = ("random", "mcts:20", "gtp:gnugo:level=0")
    assert run(*players, "--games", "go(board_size=5)", "--num_episodes", 8, "--output", tmp_path)[0] == 0
    (table,) = json.loads((tmp_path / "ratings.json").read_text())["tables"]
    assert [standing["player"] for standing in table["standings"]] == ["gtp:gnugo:level=0", "mcts:20", "random"]


def test_several_games_have_a_table_each(run: Run, tmp_path: Path) -> None:
    words = ["--games", "tic_tac_toe,dark_hex(num_cols=2,num_rows=2)", "--num_episodes", 7, "--output", tmp_path]
    code, out, _ = run("random", "mcts:5", *words)
    assert code == 0
    values = json.loads((tmp_path / "ratings.json").read_text())
    games = [(table["case"], table["standings"][0]["games"]) for table in values["tables"]]
    assert games == [("all", 16), ("tic_tac_toe", 8), ("dark_hex(num_cols=2,num_rows=2)", 8)]
    assert "8 games of each case instead of 7" in out
    assert "dark_hex(num_cols=2,num_rows=2): the tree search sees" in out


def test_an_interrupted_tournament_goes_on_and_gives_the_same_bytes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert run(*BOTS, *TOE, "--output", whole)[0] == 0
    for after, kept in ((17, 17), (5, 22)):
        code, out, err = stopped(run, monkeypatch, KeyboardInterrupt(), after, *BOTS, *TOE, "--output", cut)
        assert (code, err) == (130, "interrupted\n")
        assert f"{kept} of 36 games are finished" in out
        assert len(games_of(cut)) == kept
        assert not (cut / "ratings.json").exists()
    _, out, _ = run(*BOTS, *TOE, "--output", cut)
    assert "22 of 36 games are already finished" in out
    assert report(cut) == report(whole)
    # No game is left, and the order of the players does not matter.
    _, out, _ = run(*reversed(BOTS), *TOE, "--output", cut)
    assert "36 of 36 games are already finished" in out
    assert report(cut) == report(whole)


def test_a_killed_tournament_loses_no_finished_game(run: Run, tmp_path: Path) -> None:
    words = ["random", "mcts:400", "mcts:300", "--games", "tic_tac_toe", "--num_episodes", "40"]
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    process = subprocess.Popen(
        [sys.executable, TOOL, *words, "--output", cut],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(TOOL.parents[2])},
    )
    ledger, until = cut / LEDGER, time.monotonic() + 60
    try:
        while process.poll() is None and not (ledger.exists() and ledger.stat().st_size):
            assert time.monotonic() < until
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    lines = ledger.read_bytes().splitlines(keepends=True)
    kept = sum(line.endswith(b"\n") for line in lines)
    assert 0 < kept < 120
    _, out, _ = run(*words, "--output", cut)
    assert f"{kept} of 120 games are already finished" in out
    assert ledger.read_bytes().startswith(b"".join(lines[:kept]))
    assert run(*words, "--output", whole)[0] == 0
    assert report(cut) == report(whole)


def test_a_player_that_joins_later_plays_its_own_games_alone(run: Run, tmp_path: Path) -> None:
    later, atonce = tmp_path / "later", tmp_path / "at-once"
    run("random", "exact", *TOE, "--output", later)
    before = games_of(later)
    _, out, _ = run("mcts:10", "random", "exact", *TOE, "--output", later)
    assert "12 of 36 games are already finished" in out
    after = games_of(later)
    assert after[:12] == before
    assert all("mcts:10" in (game["player"], game["opponent"]) for game in after[12:])
    run(*BOTS, *TOE, "--output", atonce)
    assert report(later) == report(atonce)


def test_another_tournament_in_the_same_folder_is_refused(run: Run, tmp_path: Path) -> None:
    assert run("random", "mcts:5", *TOE, "--output", tmp_path)[0] == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for words, message in (
        ([*TOE, "--seed", 7], "with --seed 42, not --seed 7"),
        (["--games", "hex(board_size=5)", "--num_episodes", 12], r"with --games tic_tac_toe, not --games hex\("),
        (["--games", "tic_tac_toe", "--num_episodes", 14], "with --num_episodes 12, not --num_episodes 14"),
        ([*TOE, "--opening", 1], "with no --opening, not --opening 1"),
        ([*TOE, "--config", "scale=utility"], "with no --config, not --config scale=utility"),
        (["--num_episodes", 12], r"not --games of \d+ cases"),
    ):
        code, _, err = run("random", "mcts:5", *words, "--output", tmp_path)
        assert code == 2
        assert len(err.splitlines()) == 1
        assert re.search(message, err)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "settings.json").unlink()
    assert "holds the games of an evaluation" in run("random", "mcts:5", *TOE, "--output", tmp_path)[2]


def test_models_and_servers_meet_bots(
    run: Run, chat_server: Callable[..., Any], tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = chat_server()
    players = [tiny_model, server.url, "random"]
    words = ["--games", "tic_tac_toe", "--num_episodes", 4, "--prompt", "brief", "--max_tokens", 4]
    assert run(*players, *words, "--output", tmp_path)[0] == 0
    (table,) = json.loads((tmp_path / "ratings.json").read_text())["tables"]
    standings = {standing["player"]: standing for standing in table["standings"]}
    # The small model always answers illegally, so the model that moves first loses. random makes no mistakes.
    assert next(iter(standings)) == "random"
    assert (standings["random"]["wins"], standings["random"]["mistakes"]) == (8, 0)
    for name in (str(tiny_model), server.url):
        assert standings[name]["mistakes"] == standings[name]["losses"] == 6
        assert standings[name]["wins"] == 2
    # If the server stops between two games, there is a one-line error, and finished games are kept.
    with monkeypatch.context() as patched:
        patched.setattr("veritas_rl.players.server.CONNECT_SECONDS", 1.0)
        other = tmp_path / "other"
        from veritas_rl.players.server import ServerPlayer

        asked = ServerPlayer.act

        def act(player: ServerPlayer, turns: Any) -> Any:
            if games_of(other):
                server.http.server_close()
                player._settings["tries"] = 1
            return asked(player, turns)

        patched.setattr(ServerPlayer, "act", act)
        code, _, error = run("random", "mcts:5", server.url, *words, "--output", other)
    assert code == 2
    assert len(error.splitlines()) == 1
    kept = len(games_of(other))
    assert 0 < kept < 12
    assert f"; {kept} of 12 games are finished" in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["random"], "needs at least two players"),
        (["random", "random"], "random is named twice"),
        (["mcts", "mcts:50"], "mcts and mcts:50 are the same player"),
        (["random", "mtcs", "--games", "tic_tac_toe"], "no player 'mtcs'"),
        (["random", "/no/such/folder", "--games", "tic_tac_toe"], "there is no such folder"),
        (["random", "http://127.0.0.1:9/v1", "--games", "tic_tac_toe"], "no server answers at"),
        (["random", "mcts:5", "--games", "hearts"], "hearts has 4 seats, but a tournament needs two-player games"),
        (["random", "mcts:5", "--games", "2048"], "2048 has 1 seat, but"),
        (["random", "mcts:5", "--games", "tic_tac_to"], "unknown game 'tic_tac_to'"),
        (["random", "mcts:5", "--games", "goofspiel"], "its players move at once"),
        (["random", "mcts:5", "--num_episodes", "0"], "--num_episodes must be at least 1"),
        (["random", "mcts:5", "--temperature", "-1"], "temperature must be at least 0"),
    ],
)
def test_a_mistake_is_one_line(run: Run, tmp_path: Path, words: list[str], message: str) -> None:
    code, _, err = run(*words, "--output", tmp_path)
    assert code == 2
    (line,) = err.strip().splitlines()
    assert line.startswith("error: ")
    assert re.search(message, line)
    assert not (tmp_path / "settings.json").exists()


def test_broken_checkpoints_are_named_before_anything_is_played(
    run: Run, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = tmp_path / "experiment/global_step_3/actor"
    (actor / "huggingface").mkdir(parents=True)
    (actor / "model_world_size_2_rank_0.pt").write_bytes(b"")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    settings = {"peft_type": "LORA", "base_model_name_or_path": "/gone/model", "r": 4, "target_modules": ["o_proj"]}
    (adapter / "adapter_config.json").write_text(json.dumps(settings))
    for broken, message in ((actor.parent, "rank_1|rank 1|shard"), (adapter, "the base /gone/model cannot be read")):
        code, out, err = run("random", broken, *TOE, "--output", tmp_path / "out")
        assert (code, out) == (2, "")
        (line,) = err.splitlines()
        assert re.search(message, line)
        assert not games_of(tmp_path / "out")


def test_the_same_weights_twice_are_no_two_players(run: Run, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tiny_model)
    code, _, err = run(tiny_model, tmp_path / "link", *TOE, "--output", tmp_path / "out")
    assert code == 2
    assert re.search("are the same player", err)
