"""Printed and written reports of evaluations, with bots as players."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from veritas_rl.judging.evaluation import Settings, evaluate
from veritas_rl.judging.evaluation_report import print_report, write


def test_games_that_differ_are_counted_and_listed_in_the_report(tmp_path: Path) -> None:
    settings = Settings("exact", compare="mcts:2000", opponents=("random",), games=60, cases="tic_tac_toe")
    console = Console(width=200)
    found = evaluate(settings, tmp_path, console)
    with console.capture() as printed:
        print_report(found, console)
    report = json.loads(write(found, tmp_path)[0].read_text())
    (listed,) = [pair["differing"] for pair in report["comparisons"]]
    assert f"{len(listed)} of 60 games differ (report.json lists them)" in printed.get()
    assert set(listed[0]) == {"case", "deal", "seat", "first", "second"}


@pytest.mark.parametrize(
    "settings",
    [
        Settings("exact", compare="random", games=6, cases="tic_tac_toe"),
        Settings(
            "exact", compare="random", opponents=("random", "mcts:2"), games=6, cases="tic_tac_toe,hex(board_size=2)"
        ),
        Settings(
            "exact",
            compare="random",
            opponents=("random", "mcts:2", "mcts:4", "mcts:8"),
            games=4,
            cases="hex(board_size=2)",
        ),
    ],
)
def test_a_printed_report_fits_a_screen(settings: Settings, tmp_path: Path) -> None:
    console = Console(width=80)
    found = evaluate(settings, tmp_path, console)
    with console.capture() as printed:
        print_report(found, console)
        for path in write(found, tmp_path):
            console.print(path.name)
    lines = printed.get().splitlines()
    assert len(lines) <= 24
    text = " ".join(printed.get().split())
    assert text.count("differ (report.json lists them)") == len(settings.opponents)
    assert "report.html has every row" in text
