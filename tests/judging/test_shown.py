"""An evaluation shows the games that it counted, and an interruption loses none of them."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from veritas_rl.errors import UserError
from veritas_rl.judging import matches
from veritas_rl.judging.evaluation import Settings, evaluate
from veritas_rl.judging.finished_game import FinishedGame
from veritas_rl.judging.matches import LEDGER
from veritas_rl.viewing.games_page import read_games

SETTINGS = Settings(
    "random", compare="exact", opponents=("random", "mcts:5"), games=6, cases="tic_tac_toe,hex(board_size=3)"
)

pytestmark = pytest.mark.filterwarnings("ignore:.*has no description of its own")


def judge(folder: Path, count: int, settings: Settings = SETTINGS) -> None:
    evaluate(settings, folder, Console(quiet=True), games_to_show=count)


def files(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in ("shown.jsonl", "shown.html")]


def test_games_of_each_player_opponent_and_case_are_shown_as_they_were_counted(tmp_path: Path) -> None:
    judge(tmp_path, 10)
    shown = read_games(tmp_path / "shown.jsonl")
    counted = {
        (game.task, game.seat, game.player, game.opponent): game
        for game in map(FinishedGame.from_json, (tmp_path / LEDGER).read_text().splitlines())
    }
    assert len(counted) == 2 * 2 * 2 * 6
    assert len(shown) == 10
    groups = set()
    for game in shown:
        mine = game.endings[game.seat]
        one = counted.pop((game.task_id, game.seat, mine.player, game.opponent))
        assert (mine.value, mine.success, mine.reason) == (one.value, one.success, one.reason)
        assert sum(turn.seat == game.seat for turn in game.turns) == one.moves
        assert {turn.player for turn in game.turns} <= {mine.player, game.opponent}
        groups.add((mine.player, game.opponent, game.game))
    assert len(groups) == 8
    assert "Games of random" in (tmp_path / "shown.html").read_text()


def test_an_interruption_loses_no_game_that_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge(tmp_path / "whole", 10)
    added, left = matches.Ledger.add, [20]

    def add(ledger: matches.Ledger, game: FinishedGame) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        added(ledger, game)

    def stopped(*words: Any) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(matches.Ledger, "add", add)
            with pytest.raises(KeyboardInterrupt):
                judge(*words)

    stopped(tmp_path / "cut", 10)
    before = len(read_games(tmp_path / "cut/shown.jsonl"))
    assert 0 < before < 10
    judge(tmp_path / "cut", 10)
    assert files(tmp_path / "cut") == files(tmp_path / "whole")
    judge(tmp_path / "cut", 10)
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def test_games_played_without_recording_have_no_page(tmp_path: Path) -> None:
    judge(tmp_path, 0)
    judge(tmp_path, 10)
    assert not (tmp_path / "shown.html").exists()


def test_a_wrong_number_and_damaged_records_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="games_to_show=-1"):
        judge(tmp_path, -1)
    (tmp_path / "shown.jsonl").write_text("{}\n")
    with pytest.raises(UserError, match=r"shown\.jsonl cannot be read as recorded games"):
        judge(tmp_path, 1)
