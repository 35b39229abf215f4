"""Suites have pinned questions and survive interruptions, and the leaderboard follows from their reports."""

import dataclasses
import importlib.util
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from veritas_rl.errors import UserError
from veritas_rl.judging.matches import LEDGER
from veritas_rl.paths import ROOT
from veritas_rl.players.loading import ReplySettings
from veritas_rl.rating import leaderboard, suite_report
from veritas_rl.rating.suite import (
    Suite,
    SuiteResult,
    asked_of,
    check_pinned,
    environments_of,
    forecast_of,
    played_of,
    read_suite,
    run_suite,
)
from veritas_rl.records.figures import figures_of_suite

GAMES_V2 = read_suite("games-v2")


@pytest.fixture(scope="module")
def small() -> Suite:
    """A suite of two games, each played eight times against each opponent, and of one puzzle per lgc-v2 case."""
    made = dataclasses.replace(GAMES_V2, games=8, cases=("tic_tac_toe", "kuhn_poker"), answers={"lgc-v2": 1})
    return dataclasses.replace(made, asked=asked_of(made), played=played_of(made))


@pytest.fixture
def on_the_page(small: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is one of the small suite."""
    monkeypatch.setattr(leaderboard, "read_suite", lambda _: small)


def run(suite: Suite, folder: Path, checkpoint: str = "random", games: str = "") -> SuiteResult:
    folder.mkdir(exist_ok=True)
    result = run_suite(suite, games, checkpoint, "full", ReplySettings(), None, folder, Console(quiet=True))
    suite_report.write(result, folder)
    return result


@pytest.mark.parametrize("name", ["games-v2", "small-v1"])
def test_prompts_and_bots_of_the_suite_match_their_pinned_digests(name: str) -> None:
    check_pinned(read_suite(name))


def test_the_suite_is_of_the_size_that_its_intervals_need() -> None:
    assert len(GAMES_V2.cases) == 12
    forecast = forecast_of(GAMES_V2, "brief", environments_of(GAMES_V2, "random"))
    assert forecast.tasks == 1200
    assert 5_000 < forecast.answers < 30_000
    assert "1,200 games and tasks" in forecast.in_words(16)
    assert environments_of(GAMES_V2, "Qwen/Qwen3-4B") == ("openspiel", "lgc-v2", "trace")


def test_a_suite_that_would_ask_something_else_is_refused(small: Suite, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="asks something else in this version"):
        run(dataclasses.replace(small, seed=small.seed + 1), tmp_path)
    with pytest.raises(UserError, match="plays something else in this version"):
        check_pinned(dataclasses.replace(small, played="0"))


def test_an_interrupted_suite_ends_with_the_same_bytes(small: Suite, tmp_path: Path) -> None:
    whole = run(small, tmp_path / "whole")
    assert (whole.number.count, len(whole.games)) == (32, 2)
    assert {case.name for case in whole.games} == {"tic_tac_toe", "kuhn_poker"}
    assert all(len(points) == 8 for case in whole.games for points in case.points.values())
    ledger = (tmp_path / "whole/openspiel" / LEDGER).read_bytes()
    broken = tmp_path / "broken/openspiel"
    broken.mkdir(parents=True)
    (broken / LEDGER).write_bytes(ledger[: len(ledger) // 2])  # in the middle of a line
    run(small, tmp_path / "broken")
    for name in (suite_report.FILE, suite_report.PAGE):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "broken" / name).read_bytes()
    read = SuiteResult.from_values(json.loads((tmp_path / "whole" / suite_report.FILE).read_text()))
    assert read == whole
    figures = figures_of_suite(whole.values(), "suite")
    assert figures["suite/score"]["mean"] == whole.number.mean
    assert figures["suite/kuhn_poker/score"]["high"] == next(
        case.score.high for case in whole.games if case.name == "kuhn_poker"
    )


@pytest.mark.usefixtures("on_the_page")
def test_a_player_that_is_better_scores_more_and_is_rated_higher(small: Suite, tmp_path: Path) -> None:
    reports = {
        name.replace(":", "-"): run(small, tmp_path / name.replace(":", "-"), name) for name in ("random", "mcts:200")
    }
    assert reports["mcts-200"].number.low > reports["random"].number.mean
    rated = leaderboard.ratings(reports)
    assert rated["random"].mean == leaderboard.ANCHOR_RATING
    # The games between mcts:50 and random are in both reports and count once.
    reports["mcts-50"] = run(small, tmp_path / "mcts-50", "mcts:50")
    assert leaderboard.ratings(reports)["random"].count == 16 + 16
    assert rated["mcts-200"].mean > rated["random"].mean
    page = leaderboard.page_of({"games-v2": reports})
    assert page.index("| 1 | mcts-200 |") < page.index("| 3 | random |")


@pytest.mark.usefixtures("on_the_page")
def test_a_player_of_some_games_is_shown_without_a_rating(small: Suite, tmp_path: Path) -> None:
    reports = {
        "random": run(small, tmp_path / "random"),
        "cards": run(small, tmp_path / "cards", "exact", "kuhn_poker"),
    }
    assert [case.name for case in reports["cards"].games] == ["kuhn_poker"]
    assert not reports["cards"].answers
    page = leaderboard.page_of({"games-v2": reports})
    assert "\n| 1 | random | " in page
    assert "\n|  | cards | in 1 of 2 games |  | " in page
    (row,) = [line for line in page.splitlines() if line.startswith("| `tic_tac_toe` |")]
    assert row.endswith("|  |")


@pytest.mark.usefixtures("on_the_page")
def test_a_result_is_added_to_the_page(small: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaderboard, "FOLDER", tmp_path / "reports")
    monkeypatch.setattr(leaderboard, "PAGE", tmp_path / "page.md")
    result = run(small, tmp_path / "run")
    assert leaderboard.add(result, "random") == [tmp_path / "reports/games-v2/random.json", tmp_path / "page.md"]
    leaderboard.add(dataclasses.replace(result, player="other"), "two")
    assert "| 2 | two |" in (tmp_path / "page.md").read_text()


def test_a_name_is_only_ever_text_in_the_page(small: Suite, tmp_path: Path) -> None:
    result = dataclasses.replace(run(small, tmp_path), player="<script>alert(1)</script>")
    suite_report.write(result, tmp_path)
    assert "<script" not in (tmp_path / suite_report.PAGE).read_text()


def test_the_leaderboard_is_what_its_reports_say() -> None:
    reports = leaderboard.read_reports(leaderboard.FOLDER)
    assert leaderboard.page_of(reports) == leaderboard.PAGE.read_text()
    found = reports["small-v1"]
    rated = leaderboard.ratings({name: report for name, report in found.items() if len(report.games) == 8})
    players = [rated[name] for name in ("random", "mcts-10", "mcts-50", "mcts-200", "mcts-1000")]
    assert all(weaker.high < stronger.low for weaker, stronger in pairwise(players))


def test_a_report_of_another_version_is_not_compared(tmp_path: Path) -> None:
    file = next(leaderboard.FOLDER.glob("*/*.json"))
    values = {**json.loads(file.read_text()), "suite": "games-v2"}
    (tmp_path / "any").mkdir()
    (tmp_path / "any/old.json").write_text(json.dumps({**values, "asked": "0"}))
    with pytest.raises(UserError, match="another version of games-v2"):
        leaderboard.read_reports(tmp_path)
    (tmp_path / "any/old.json").write_text("{}")
    with pytest.raises(UserError, match="is no report of a suite"):
        leaderboard.read_reports(tmp_path)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("--suite games-v3", "unknown suite 'games-v3': did you mean games-v2"),
        ("--suite small-v1 --games chess", "unknown game of small-v1 'chess'"),
        ("--games hex --add me", "--add needs --suite"),
        ("--suite small-v1 --games kuhn_poker --add a/b", "'a/b' is not a name"),
        ("--suite games-v2 --seed 1", "--seed has no effect"),
    ],
)
def test_options_that_a_suite_fixes_are_refused(typed: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("evaluate_tool", ROOT / "train/tools/evaluate.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", ["evaluate.py", "--checkpoint", "random", *typed.split()])
    with pytest.raises(UserError, match=message):
        module.main()
