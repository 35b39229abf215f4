"""Files of answers: right, wrong, repeated and missing answers, and unusable lines."""

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from veritas_rl.datasets.draw import Settings
from veritas_rl.datasets.generate import generate
from veritas_rl.datasets.scoring import Asked, read_answers, read_data, score
from veritas_rl.datasets.scoring_report import as_json, print_scored
from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.judging.statistics import rate
from veritas_rl.parallel import Workers


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("data")
    # A reply to a brief question is the bare answer.
    generate(made, Settings("lgc-v2", 100, prompt="brief", val_ratio=0.4), Workers(1), Console(quiet=True))
    return made


@pytest.fixture(scope="module")
def data(folder: Path) -> list[Asked]:
    return read_data(folder / "val.parquet")


def right(task: Task) -> str:
    return get_environment(task.env).start(task).turns()[0].solution


def nearly_right(task: Task) -> str:
    asked = get_environment(task.env).start(task).turns()[0].view
    return next(answer for _, answer in asked.puzzle.near_misses())


def write(path: Path, lines: Iterable[Any]) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_both_kinds_of_file_hold_the_same_tasks(folder: Path, data: list[Asked]) -> None:
    assert read_data(folder / "val.jsonl") == data
    assert len(data) == 40
    assert not {asked.task for asked in data} & {asked.task for asked in read_data(folder / "train.parquet")}


def test_right_and_wrong_answers_are_counted_by_type_and_level(data: list[Asked]) -> None:
    environment = get_environment("lgc-v2")
    good = data[:30]
    scored = score(data, {asked.name: [(right if asked in good else nearly_right)(asked.task)] for asked in data})
    assert (scored.all.tasks, scored.all.missing, scored.all.answers) == (40, 0, 40)
    assert scored.all.reasons["correct"] == 30
    assert scored.all.success is not None
    assert scored.all.success.mean == 0.75
    assert scored.all.success.low < 0.75 < scored.all.success.high
    assert scored.all.success == rate(
        [asked in good for asked in data], [environment.equivalence_class(asked.task) for asked in data]
    )
    assert {part.name for part in scored.types} == {asked.kind for asked in data}
    assert {part.name for part in scored.groups} == {environment.group(asked.task) for asked in data}
    for part in scored.groups:
        inside = [asked for asked in data if environment.group(asked.task) == part.name]
        assert part.success is not None
        assert part.success.mean == sum(asked in good for asked in inside) / len(inside)
        assert part.tasks == len(inside)
        assert "_level_" in part.name


def test_several_answers_count_by_their_mean(data: list[Asked]) -> None:
    answers = {asked.name: [right(asked.task), nearly_right(asked.task), "", "?"] for asked in data[:20]}
    scored = score(data[:20], answers | {data[0].name: [right(data[0].task)] * 4})
    part = scored.all
    assert part.success is not None
    assert part.solved is not None
    assert part.success.mean == pytest.approx((19 * 0.25 + 1) / 20)
    assert part.solved.mean == 1.0
    assert part.answers == 80
    assert part.reasons["empty"] == 19


def test_a_task_without_an_answer_is_missing_and_not_wrong(data: list[Asked]) -> None:
    scored = score(data, {asked.name: [right(asked.task)] for asked in data[:10]})
    assert (scored.all.missing, scored.missing) == (30, tuple(asked.name for asked in data[10:]))
    assert scored.all.success is not None
    assert scored.all.success.mean == 1.0
    assert sum(part.missing for part in scored.groups) == 30
    for part in scored.groups:
        assert (part.success is None) == (part.missing == part.tasks)


def test_bad_lines_are_named_and_the_rest_is_scored(tmp_path: Path, data: list[Asked]) -> None:
    name = data[0].name
    path = write(
        tmp_path / "answers.jsonl",
        [
            {"task_id": int(name), "answer": "a", "response": "b"},
            f'{{"task_id": {name}, "answer": "cut in ha',
            {"answer": "of nothing"},
            "",
            {"task_id": 3, "answer": "of no task"},
            {"task_id": name},
            {"task_id": name, "completion": None, "output": "o"},
            {"task_id": float(name), "response": 24},
            {"task_id": name, "answer": ["a"]},
            "[1]",
            {"task_id": True, "answer": "x"},
            "[" * 10_000,
            {"task_id": name, "answer": ""},
        ],
    )
    answers, bad = read_answers(path, [asked.name for asked in data])
    assert answers == {name: ["a", "o", "24", ""]}
    assert [line.number for line in bad] == [2, 3, 5, 6, 9, 10, 11, 12]
    reasons = [line.why for line in bad]
    assert reasons[0].startswith("not JSON (Unterminated string")
    assert reasons[1:4] == [
        "no task_id",
        "the data set has no task_id 3",
        f"no answer to {name}: add one of the fields answer, response, completion, output",
    ]
    assert reasons[4:6] == ["answer is not text but list", "not a JSON object but list"]
    assert score(data, answers, bad).bad == tuple(bad)


def test_hostile_answers_are_wrong_and_not_errors(data: list[Asked]) -> None:
    hostile = ["9**9**9**9", "(" * 10_000, "x" * 10_000_000, "\x00", "\\boxed{" * 5000, "__import__('os')"]
    scored = score(data[:3], {asked.name: hostile for asked in data[:3]})
    assert scored.all.success is not None
    assert (scored.all.answers, scored.all.success.mean) == (18, 0.0)


def test_without_an_answer_nothing_can_be_scored(data: list[Asked]) -> None:
    with pytest.raises(
        UserError, match="no answer can be scored: the file has 0 bad lines, and no answer to any of 40 tasks"
    ):
        score(data, {})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("none.parquet", None, "cannot be read"),
        ("none.jsonl", None, "set --data to a JSONL file"),
        ("val.csv", "x", r"--data must be a \.parquet or \.jsonl file"),
        ("val.parquet", "x", "cannot be read"),
        ("val.jsonl", '{"task_id"', "line 1: not JSON"),
        ("val.jsonl", '{"task_id": 1}', "row 1 has no extra_info or no task_id"),
        ("val.jsonl", "\n", "has no task"),
        ("val.jsonl", '{"task_id": 1, "extra_info": {"env": "chess"}}', "unknown environment 'chess'"),
    ],
)
def test_a_file_that_is_no_data_set_is_one_line(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        read_data(tmp_path / name)


def test_the_report_holds_all_that_was_found(data: list[Asked]) -> None:
    scored = score(data, {asked.name: [right(asked.task), "x"] for asked in data[:10]})
    made = json.loads(json.dumps(as_json(scored)))
    assert scored.all.success is not None
    assert made["all"]["success"] == dataclasses.asdict(scored.all.success)
    assert set(made["groups"]) == {part.name for part in scored.groups}
    assert len(made["missing"]) == 30
    console = Console(width=160, record=True, quiet=False)
    with console.capture() as printed:
        print_scored(scored, console)
    text = printed.get()
    assert "10 of 40" in text
    assert "0.500 [" in text
    assert "30 of 40 tasks have no answer" in text
    for part in (*scored.types, *scored.groups):
        assert part.name in text


def test_no_figure_is_cut_on_a_narrow_screen(data: list[Asked]) -> None:
    scored = score(data, {asked.name: [right(asked.task), "x", "y"] for asked in data})
    console = Console(width=80)
    with console.capture() as printed:
        print_scored(scored, console)
    assert "…" not in printed.get()
    assert scored.all.solved is not None
    words = str(scored.all.solved).split()
    assert all(word in printed.get().split() for word in words)
    assert "least once" in printed.get()


@pytest.mark.parametrize(
    "settings",
    [
        Settings("trace", 6, task_types="level_1,level_2", val_ratio=0.5),
        Settings("openspiel", 6, task_types="tic_tac_toe,hex(board_size=3)", val_ratio=0.5),
    ],
    ids=["trace", "openspiel"],
)
def test_other_environments_are_scored_by_their_sessions(settings: Settings, tmp_path: Path) -> None:
    generate(tmp_path, settings, Workers(1), Console(quiet=True))
    data = read_data(tmp_path / "val.jsonl")
    answers = {}
    for asked in data:
        (turn,) = get_environment(settings.env).start(asked.task).turns()
        answers[asked.name] = [*([turn.solution] if turn.solution else turn.answers), ""]
    scored = score(data, answers)
    assert scored.all.solved is not None
    assert scored.all.solved.mean == 1.0
    assert scored.all.reasons["empty"] == 3
    assert {part.name for part in scored.types} == {asked.task.case for asked in data}
