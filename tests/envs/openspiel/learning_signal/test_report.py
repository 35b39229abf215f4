"""Measurements are written completely, read, continued, and shown."""

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from veritas_rl.envs.openspiel import gallery
from veritas_rl.envs.openspiel.learning_signal import report
from veritas_rl.envs.openspiel.learning_signal.summary import CaseSignal, Measures, Settings
from veritas_rl.errors import UserError

TOOL = Path(__file__).resolve().parents[4] / "train/tools/learning_signal.py"

WHOLE = Measures(
    tasks=96,
    forced=24,
    tested=72,
    differ=48,
    tested_differ=48,
    spread=0.125,
    halves=0.856,
    known=40,
    mistakes=0.05,
    regret=0.1,
    fixed=32,
    always=8,
    sources={"exact": 24, "playouts": 72},
    seconds=0.00125,
    worst=0.0104,
)
LATE = replace(WHOLE, tasks=26, forced=0, differ=8, tested_differ=8, halves=-0.25)
ROW = CaseSignal("hex(board_size=5)", WHOLE, (replace(WHOLE, tasks=70, differ=40), None, LATE))
CELLS = (
    *("25%", "50% ± 5", "1%", "40/70 0/0 8/26", "0.125", "0.86", "40", "5%", "0.100", "33%"),
    *("playouts, exact", "1.2 10"),
)


def test_missing_figures_of_a_case_are_dashes() -> None:
    assert len(CELLS) == len(report.COLUMNS)
    assert report.cells_of(ROW) == CELLS
    bare = replace(WHOLE, spread=None, halves=None, known=0, mistakes=None, regret=None, fixed=None, always=None)
    assert report.cells_of(replace(ROW, whole=bare))[4:10] == ("-", "-", "0", "-", "-", "-")


def test_the_summary_line_counts_all_cases() -> None:
    other = replace(ROW, case="chess", whole=replace(WHOLE, tasks=32, forced=0, differ=0, seconds=0.0092))
    assert report.overall([ROW, other]) == (
        "all 128 tasks of 2 cases: moves differ in 38%, in the least case 0% (chess); forced 19%; 3.2 ms a task"
    )


def test_the_table_shows_every_cell() -> None:
    output = io.StringIO()
    report.show([ROW], Settings(tasks=96), Console(file=output))
    for cell in ("hex(board_size=5)", "reward outcome", *CELLS):
        assert cell in output.getvalue()
    last = next(line.split() for line in output.getvalue().splitlines() if "-0.25" in line)
    assert last[:6] == ["3", "26", "0%", "31%", "±", "9"]  # 10/30 and 20/30 over 30


def test_an_engine_that_failed_is_a_warning_below_the_table() -> None:
    output, asked = io.StringIO(), Settings(tasks=96, config={"engine": "uci:stockfish"})
    sources = {"solved": 6, "engine": 50, "search": 25, "playouts": 15}
    failed = CaseSignal("chess", replace(WHOLE, sources=sources), (None, None, None))
    whole = replace(WHOLE, sources={"solved": 6, "engine": 90})
    report.show([failed, ROW], asked, Console(file=output, width=200))
    (line,) = (line for line in output.getvalue().splitlines() if line.startswith("warning"))
    assert line == (
        "warning: chess: the engine uci:stockfish:nodes=10000 failed (see the log), so 40 of 90 tasks are valued by "
        "search and playouts"
    )
    assert not list(report.engine_warnings([replace(failed, whole=whole), ROW], asked))
    assert not list(report.engine_warnings([failed], replace(asked, config={})))


def test_a_written_report_is_read_back_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "signal.json"
    settings = Settings(tasks=96, config={"scale": "utility"})
    path.write_text(report.text_of([ROW], settings), encoding="utf-8")
    assert report.read(path) == (settings, (ROW,))
    written = json.loads(path.read_text(encoding="utf-8"))["cases"][0]
    assert written["share"] == 0.5
    assert written["error"] == pytest.approx(0.05)
    assert written["false"] == pytest.approx(24 * 0.05 / 0.95)
    assert report.measured_before(path, settings) == {ROW.case: ROW}
    assert report.measured_before(tmp_path / "none.json", settings) == {}
    with pytest.raises(UserError, match="was written with playouts=128, not 64"):
        report.measured_before(path, replace(settings, playouts=64))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"settings": {"task": 3}, "cases": []}', '{"settings": {}}'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "signal.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="cannot be read as a learning signal"):
        report.read(path)


def test_the_page_of_games_shows_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "GAMES", {})  # skips the prompts of all games
    monkeypatch.setattr(gallery, "SIGNAL", tmp_path / "signal.json")
    line = f"| `{ROW.case}` | {' | '.join(CELLS)} |"
    assert "learning_signal.py" in gallery.render()[gallery.TEACH]
    assert line not in gallery.render()[gallery.TEACH]
    gallery.SIGNAL.write_text(report.text_of([ROW], Settings(tasks=96)), encoding="utf-8")
    page = gallery.render()[gallery.TEACH]
    assert line in page.splitlines()
    assert "96 training tasks of each case" in page
    header = page.splitlines()[page.splitlines().index(line) - 2]
    assert header == f"| case | {' | '.join(report.COLUMNS)} |"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(TOOL), *arguments], capture_output=True, text=True)


def test_the_tool_writes_each_case_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "signal.json"
    settings = ("--tasks", "6", "--playouts", "16", "--json", str(path))
    first = run("--cases", "tic_tac_toe", *settings)
    assert first.returncode == 0, first.stderr
    _, (before,) = report.read(path)
    assert before.whole.sources == {"exact": 6}
    second = run("--cases", "tic_tac_toe,kuhn_poker", *settings)
    assert second.returncode == 0, second.stderr
    assert "1 of 2 cases are already in" in second.stderr
    assert "kuhn_poker" in second.stdout
    _, (kept, added) = report.read(path)
    assert kept == before  # with equal times, so it was not measured again
    assert added.case == "kuhn_poker"
    other = run("--cases", "kuhn_poker", "--json", str(path))
    assert (other.returncode, other.stdout) == (2, "")
    assert "was written with tasks=6, not 200" in other.stderr


def test_the_tool_refuses_what_cannot_work(tmp_path: Path) -> None:
    missing = run("--cases", "tic_tac_toe", "--json", str(tmp_path / "none/signal.json"))
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
    assert "create it first" in missing.stderr
