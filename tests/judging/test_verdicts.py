"""The verdicts on a pipeline, for reports of evaluations with bots."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from veritas_rl.errors import UserError
from veritas_rl.judging.evaluation import Settings, evaluate
from veritas_rl.judging.evaluation_report import print_report, write
from veritas_rl.judging.verdicts import of_agreement, of_improvement, of_sameness


def report_of(folder: Path, checkpoint: str, compare: str) -> Path:
    settings = Settings(checkpoint, compare=compare, opponents=("random",), games=60, cases="tic_tac_toe")
    console = Console(width=200)
    with console.capture() as printed:
        found = evaluate(settings, folder, console)
        print_report(found, console)
    assert f"{len(found.versus[0].differing)} of 60 games differ" in printed.get()
    return write(found, folder)[0]


def test_the_verdict_names_the_better_player_with_its_difference(tmp_path: Path) -> None:
    (better,) = of_improvement(report_of(tmp_path / "better", "exact", "random"))
    (worse,) = of_improvement(report_of(tmp_path / "worse", "random", "exact"))
    assert re.match(r"RL against SFT: tic_tac_toe against random: better, .*\+0\.", better)
    assert re.match(r"RL against SFT: tic_tac_toe against random: worse, .*-0\.", worse)
    assert "paired by 30 deals" in better


def test_games_that_differ_are_counted_and_listed_in_the_report(tmp_path: Path) -> None:
    report = report_of(tmp_path, "exact", "mcts:2000")
    (line,) = of_sameness(report)
    ((listed,),) = [[found["differing"] for found in json.loads(report.read_text())["comparisons"]]]
    assert f"{len(listed)} of 60 games differ" in line
    assert str(report) in line
    assert {"case", "deal", "seat", "first", "second"} == set(listed[0])


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


@pytest.mark.parametrize(("holds", "word"), [(True, ": the same: "), (False, ": NOT the same: ")])
def test_the_verdict_counts_places_where_logits_agree(holds: bool, word: str, tmp_path: Path) -> None:
    values: dict[str, Any] = {"holds": holds, "largest": 1e-5, "tolerance": 2e-3, "dtype": "float32", "wanted": 0.999}
    values |= {"agreeing": 1999, "places": 2000, "prompts": 40, "disagreeing": [{}]}
    (tmp_path / "agreement.json").write_text(json.dumps(values))
    line = of_agreement(tmp_path / "agreement.json")
    assert word in line
    assert re.search(r"1999 of 2000 positions .*99\.950%.* 40 prompts.*: 1$", line)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run the evaluation again"):
        of_agreement(tmp_path / "none.json")
    command = [sys.executable, "-m", "veritas_rl.judging.verdicts", "one.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.fullmatch(r"error: the command needs three files.*\n", done.stderr)
