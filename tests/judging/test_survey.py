"""What cannot be used is said before it is used, in one line for each finding."""

import io
import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from veritas_rl import progress as progress_module
from veritas_rl.envs.registry import open_catalogue
from veritas_rl.envs.task import Task
from veritas_rl.envs.trace.env import TraceEnvironment
from veritas_rl.judging import survey as surveys
from veritas_rl.judging.evaluation import Settings, evaluate
from veritas_rl.judging.survey import survey

PROGRAMS = [*(f"print({n})" for n in range(20)), "pass"]


@pytest.fixture
def case(tmp_path: Path) -> str:
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps({"program": program}) + "\n" for program in PROGRAMS))
    return f"programs:{path}"


def tasks(case: str) -> list[Sequence[Task]]:
    config = {"cases": case, "num_tasks_per_case": 5000}
    return [open_catalogue({"env": "trace", "adapter_config": config}, split) for split in ("train", "val")]


def printed(catalogues: list[Sequence[Task]]) -> list[str]:
    console = Console(file=io.StringIO(), width=80)
    survey(catalogues, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_finding_is_one_line_for_all_catalogues(case: str) -> None:
    (line,) = printed(tasks(case))
    assert line.endswith("1 of 21 programs is not asked: line 21: it prints nothing; the others are used instead")


def test_environments_that_find_nothing_print_nothing() -> None:
    assert not printed([open_catalogue({"env": "openspiel", "adapter_config": {"cases": "tic_tac_toe"}}, "train")])


def test_a_long_survey_shows_its_progress_and_that_of_a_second_file(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(self: object, tasks: Iterable[Task], progress: Callable[[str, int, int], None]) -> list[str]:
        for total in (10, 20):
            for done in range(total):
                time.sleep(0.02)
                progress("program", done + 1, total)
        return ["found"]

    monkeypatch.setattr(TraceEnvironment, "survey", slow)
    assert printed(tasks(case)) == ["found"]
    monkeypatch.setattr(surveys, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(progress_module, "LINE_SECONDS", 0.05)
    *shown, last = printed(tasks(case))
    totals = [re.findall(r"program \d+/(\d+)", line) for line in shown]
    assert [total for place, total in enumerate(totals) if total != totals[place - 1]] == [["10"], ["20"]]
    assert last == "found"


def test_an_evaluation_says_which_programs_are_not_asked(case: str, tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=500)
    evaluate(Settings("solution", env="trace", games=2, cases=case), tmp_path / "evaluation", console)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().count("1 of 21 programs is not asked") == 1
