"""A person learns once, before training, which programs of a file are not asked, and why."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.envs.registry import open_catalogue
from veritas_rl.envs.trace import survey as surveys
from veritas_rl.envs.trace.env import TraceEnvironment
from veritas_rl.envs.trace.questions import form_of, split_of
from veritas_rl.envs.trace.sandbox import Limits
from veritas_rl.envs.trace.survey import survey
from veritas_rl.envs.trace.truths import Truths
from veritas_rl.errors import UserError

GOOD = [f"x = {n}\nprint(x * x)" for n in range(20)]
BAD = [
    "pass",
    "print(missing)",
    "print(absent)",
    "while True: pass",
    "import sys\nprint(1)\nsys.exit(3)",
    "print(object())",
    "while True: print('x' * 1000)",
    "import socket\nsocket.socket()",
    "this is no Python",
    GOOD[3],
]


@pytest.fixture(scope="module")
def truths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Truths]:
    limits = Limits(cpu=1, wall=1.5, output=20_000)
    with Truths(limits, threads=2, folder=tmp_path_factory.mktemp("cache")) as running:
        yield running


def written(path: Path, programs: list[Any]) -> str:
    path.write_text("".join(json.dumps({"program": program}) + "\n" for program in programs))
    return f"programs:{path}"


def said(case: str, truths: Truths, debug_prints: int = 6, splits: tuple[str, ...] = ("train", "val")) -> str:
    return survey(case, debug_prints, splits, truths, lambda what, done, total: None)


def test_each_program_that_is_not_asked_is_counted_with_its_reason_and_its_line(
    tmp_path: Path, truths: Truths, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = written(tmp_path / "own.jsonl", [*GOOD, *BAD])
    monkeypatch.setattr(surveys, "_MOST_REASONS", 100)
    line = said(case, truths)
    assert line.startswith(
        f"{tmp_path}/own.jsonl: 10 of 30 programs are not asked: lines 22, 23: it ends with NameError; "
    )
    assert line.endswith("; the others are used instead")
    for reason in (
        "line 21: it prints nothing",
        "line 24: it runs over 1.5 s",
        "line 25: it ends with exit status 3",
        "line 26: it prints different outputs in different runs",
        "line 27: it prints more than 20000 bytes",
        "line 28: it tries what the sandbox forbids (socket.",
        "line 29: its program is not Python (",
        "line 30: it repeats an earlier program",
    ):
        assert reason in line
    assert "\n" not in line


def test_of_many_lines_and_reasons_the_first_are_named(tmp_path: Path, truths: Truths) -> None:
    failing = [f"x = {n}\nprint(x / 0)" for n in range(12)]
    others = [f"print(1)\nraise Exception{n}" for n in range(3)] + [f"import sys\nsys.exit({n})" for n in range(2, 6)]
    line = said(written(tmp_path / "own.jsonl", [*failing, *GOOD, *others]), truths)
    assert "19 of 39 programs are not asked: 12 programs (lines 1, 2, 3, ...): it ends with ZeroDivisionError; " in line
    assert "lines 33, 34, 35: it ends with NameError; line 36: " in line


def test_nothing_is_said_of_a_file_whose_programs_are_all_asked(tmp_path: Path, truths: Truths) -> None:
    inputs = [json.dumps({"program": "print(input())", "inputs": str(n)}) for n in range(3)]
    path = tmp_path / "own.jsonl"
    written(path, GOOD)
    path.write_text(path.read_text() + "\n".join(inputs))
    assert said(f"programs:{path}", truths) == ""


def test_a_program_that_only_debug_prints_make_speak_is_asked_with_them(tmp_path: Path, truths: Truths) -> None:
    case = written(tmp_path / "own.jsonl", [*GOOD, "x = 1\ny = x + 1"])
    assert said(case, truths, debug_prints=6) == ""
    assert "1 of 21 programs is not asked: line 21: it prints nothing" in said(case, truths, debug_prints=0)


def test_only_the_first_programs_of_a_long_file_are_run_and_that_is_said(
    tmp_path: Path, truths: Truths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveys, "MOST_RUN", 15)
    case = written(tmp_path / "own.jsonl", [*GOOD, "pass"])
    assert said(case, truths) == f"{tmp_path}/own.jsonl: 21 programs, and the first 15, which were run, can be asked"
    case = written(tmp_path / "own.jsonl", ["pass", *GOOD])
    assert said(case, truths).startswith(
        f"{tmp_path}/own.jsonl: 1 of 21 programs is not asked (only the first 15 were run): line 1: it prints nothing"
    )


def test_a_file_without_a_program_that_can_be_asked_is_an_error_of_one_line(tmp_path: Path, truths: Truths) -> None:
    case = written(tmp_path / "own.jsonl", BAD[:4])
    with pytest.raises(UserError) as error:
        said(case, truths)
    assert "own.jsonl: none of its 4 programs can be asked: lines 2, 3: it ends with NameError; " in str(error.value)
    assert "\n" not in str(error.value)


def test_a_split_without_a_program_is_an_error_if_it_is_needed(tmp_path: Path, truths: Truths) -> None:
    trained = [program for program in GOOD if split_of(form_of(program)) == "train"]
    case = written(tmp_path / "own.jsonl", trained)
    assert said(case, truths, splits=("train",)) == ""
    with pytest.raises(UserError, match=f"none of the {len(trained)} programs that can be asked belongs to validation"):
        said(case, truths)


def test_the_environment_surveys_each_file_of_its_tasks_once(tmp_path: Path) -> None:
    cases = [written(tmp_path / name, [*GOOD, "pass"]) for name in ("one.jsonl", "other.jsonl")]
    config = {"cases": [*cases, "level_1"], "num_tasks_per_case": 3, "debug_prints": 0}
    settings = {"env": "trace", "adapter_config": config}
    calls: list[tuple[str, int, int]] = []
    tasks = [task for split in ("train", "val") for task in open_catalogue(settings, split)]
    lines = TraceEnvironment().survey(tasks, lambda *call: calls.append(call))
    assert [line.partition(":")[0] for line in lines] == [case.removeprefix("programs:") for case in cases]
    assert calls == [("program", done, 21) for done in range(1, 22)] * 2
