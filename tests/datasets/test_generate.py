"""Data sets as files: columns, splits, reproducible bytes, and folders with other files."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from veritas_rl.datasets import draw as drawing
from veritas_rl.datasets.draw import Settings, cases_of
from veritas_rl.datasets.generate import generate
from veritas_rl.envs.abilities import name_of
from veritas_rl.envs.lgc_v2.env import split_of
from veritas_rl.envs.lgc_v2.kinds import KINDS
from veritas_rl.envs.lgc_v2.puzzle import SEEDS, level_of
from veritas_rl.envs.lgc_v2.task_ids import parts_of, puzzle_of, task_id_of
from veritas_rl.envs.registry import get_environment, task_of
from veritas_rl.errors import UserError
from veritas_rl.parallel import Workers
from veritas_rl.verl_plugin.reward import compute_score

KIND = next(iter(KINDS.values()))
FILES = ("train.jsonl", "val.jsonl", "train.parquet", "val.parquet")
COLUMNS = ["data_source", "prompt", "reward_model", "extra_info", "task_id", "task_type", "seed"]
SMALL = {
    "lgc-v2": Settings("lgc-v2", 60),
    "trace": Settings("trace", 12, levels="level_1,level_2", val_ratio=0.5),
    "openspiel": Settings("openspiel", 60, task_types="tic_tac_toe,hex(board_size=5)"),
}


def make(folder: Path, settings: Settings) -> dict[str, Any]:
    return generate(folder, settings, Workers(1), Console(quiet=True))[0]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module", params=SMALL)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    make(folder, SMALL[request.param])
    return SMALL[request.param], folder


def test_rows_have_the_columns_that_users_know_and_are_rewarded(made: tuple[Settings, Path]) -> None:
    settings, folder = made
    environment = get_environment(settings.env)
    for part, share in (("val", settings.val_ratio or 0.1), ("train", 1 - (settings.val_ratio or 0.1))):
        rows = read(folder / f"{part}.jsonl")
        assert len(rows) == round(share * settings.number)
        for index, row in enumerate(rows):
            assert list(row) == COLUMNS
            task = task_of(row["extra_info"])
            assert (row["data_source"], task.split, row["extra_info"]["index"]) == (settings.env, part, index)
            assert row["reward_model"] == {"style": "rule", "ground_truth": task.id}
            name = name_of(environment, task)
            assert (row["task_id"], row["task_type"], row["seed"]) == (str(name.task_id), name.task_type, name.seed)
            (turn,) = environment.start(task).turns()
            assert row["prompt"] == [*turn.messages]
            answers = [turn.solution] if turn.solution else turn.answers
            scores = [compute_score(row["data_source"], answer, task.id, row["extra_info"]) for answer in answers]
            best = max(scores, key=lambda score: score["score"])
            assert (best["score"], best["success"]) == (1.0, True)
            assert compute_score(row["data_source"], "", task.id, row["extra_info"])["score"] == 0.0


def test_parquet_holds_what_jsonl_holds(made: tuple[Settings, Path]) -> None:
    _, folder = made
    for part in ("train", "val"):
        rows = pd.read_parquet(folder / f"{part}.parquet").to_dict("records")
        assert [{**row, "prompt": list(row["prompt"])} for row in rows] == read(folder / f"{part}.jsonl")


def test_no_class_is_in_both_files_and_no_question_comes_twice(made: tuple[Settings, Path]) -> None:
    settings, folder = made
    environment = get_environment(settings.env)
    rows = {part: read(folder / f"{part}.jsonl") for part in ("train", "val")}
    classes = {
        part: {environment.equivalence_class(task_of(row["extra_info"])) for row in found}
        for part, found in rows.items()
    }
    assert classes["train"]
    assert classes["val"]
    assert not classes["train"] & classes["val"]
    questions = [json.dumps(row["prompt"]) for found in rows.values() for row in found]
    assert len(set(questions)) == len(questions)


def test_the_folder_holds_the_files_and_the_report(made: tuple[Settings, Path]) -> None:
    assert set(bytes_of(made[1])) == {*FILES, "dataset.json"}


def test_cases_take_turns(made: tuple[Settings, Path]) -> None:
    settings, folder = made
    if settings.env != "lgc-v2":
        first, second = [row["task_type"] for row in read(folder / "train.jsonl")[:2]]
        assert first != second


def test_another_seed_draws_other_tasks(tmp_path: Path) -> None:
    for seed in (1, 2):
        make(tmp_path / str(seed), Settings("lgc-v2", 20, seed=seed))
    ids = [{row["task_id"] for row in read(tmp_path / str(seed) / "train.jsonl")} for seed in (1, 2)]
    assert len(ids[0] | ids[1]) > 30


def test_consecutive_ids_are_all_there_each_in_the_file_of_its_form(tmp_path: Path) -> None:
    first = task_id_of(KIND, 1005)
    make(tmp_path, Settings("lgc-v2", 80, start_task_id=first))
    found = {part: {int(row["task_id"]): row for row in read(tmp_path / f"{part}.jsonl")} for part in ("train", "val")}
    assert sorted([*found["train"], *found["val"]]) == list(range(first, first + 80))
    for part, rows in found.items():
        assert rows
        for task_id, row in rows.items():
            kind, seed = parts_of(task_id)
            puzzle = puzzle_of(kind.name, seed)
            assert (row["task_type"], row["seed"], task_of(row["extra_info"]).split) == (kind.name, seed, part)
            (message,) = row["prompt"]
            assert message["content"].startswith(puzzle.question("en"))
    forms = {part: {puzzle_of(KIND.name, row["seed"]).form for row in rows.values()} for part, rows in found.items()}
    assert not forms["train"] & forms["val"]


def test_the_live_split_never_trains_on_what_val_holds(tmp_path: Path) -> None:
    make(tmp_path, Settings("lgc-v2", 40, start_task_id=task_id_of(KIND, 0)))
    environment = get_environment("lgc-v2")
    held = {environment.equivalence_class(task_of(row["extra_info"])) for row in read(tmp_path / "val.jsonl")}
    assert {split_of(form) for form in held} == {"val"}


def test_levels_prompt_language_and_settings_reach_the_rows(tmp_path: Path) -> None:
    settings = Settings(
        "lgc-v2",
        20,
        task_types=KIND.name,
        levels="2,4",
        prompt="brief",
        language="zh",
        config=(("legal_share", 0.25),),
    )
    make(tmp_path, settings)
    rows = read(tmp_path / "train.jsonl")
    assert {level_of(row["seed"]) for row in rows} == {2, 4}
    assert {row["task_type"] for row in rows} == {KIND.name}
    for row in rows:
        info = task_of(row["extra_info"]).to_dict()
        assert (info["prompt"], info["language"], info["legal_share"]) == ("brief", "zh", 0.25)
        assert row["prompt"][0]["content"] == puzzle_of(KIND.name, row["seed"]).brief


def test_the_same_command_finds_its_data_set_and_another_is_refused(tmp_path: Path) -> None:
    settings = SMALL["lgc-v2"]
    report = make(tmp_path, settings)
    before = bytes_of(tmp_path)
    assert generate(tmp_path, settings, Workers(1), Console(quiet=True)) == (report, 0)
    with pytest.raises(UserError, match=r"other settings \(number is 60 there, 61 here\)"):
        make(tmp_path, Settings("lgc-v2", 61))
    assert bytes_of(tmp_path) == before
    (tmp_path / "val.jsonl").write_text("changed")
    with pytest.raises(UserError, match=r"val\.jsonl has changed since it was written"):
        make(tmp_path, settings)


def test_files_of_another_tool_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "train.parquet").write_text("mine")
    with pytest.raises(UserError, match=r"train\.parquet already exists"):
        make(tmp_path, SMALL["lgc-v2"])
    assert bytes_of(tmp_path) == {"train.parquet": b"mine"}


@pytest.mark.parametrize("damage", ["cut", "garbage", "header", "nothing"])
def test_a_partial_file_is_checked_and_continued(tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SMALL["lgc-v2"]
    make(tmp_path / "whole", settings)
    folder = interrupted(tmp_path / "part", settings, 30, monkeypatch)
    partial = folder / "partial.jsonl"
    text = partial.read_bytes()
    kept = text.count(b"\n") - 1
    if damage == "cut":
        partial.write_bytes(text[:-40])
    elif damage == "garbage":
        lines = text.splitlines(keepends=True)
        partial.write_bytes(b"".join([*lines[:20], b"\x00\xff\n", *lines[20:]]))
    elif damage == "header":
        partial.write_bytes(text[:15])
    _, drawn = generate(folder, settings, Workers(1), Console(quiet=True))
    assert drawn == {"cut": 61 - kept, "garbage": 41, "header": 60, "nothing": 60 - kept}[damage]
    assert bytes_of(folder) == bytes_of(tmp_path / "whole")


def test_a_partial_file_of_another_command_or_of_other_code_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = interrupted(tmp_path / "part", SMALL["lgc-v2"], 30, monkeypatch)
    with pytest.raises(UserError, match=r"other settings \(seed is 42 there, 43 here\)"):
        make(folder, Settings("lgc-v2", 60, seed=43))
    partial = folder / "partial.jsonl"
    lines = partial.read_text().splitlines(keepends=True)
    partial.write_text("".join([*lines[:-1], lines[-1].replace('"role": "user"', '"role": "system"')]))
    with pytest.raises(UserError, match="another version of this program"):
        make(folder, SMALL["lgc-v2"])


def interrupted(folder: Path, settings: Settings, rows: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Generate into a folder, and interrupt after `rows` draws."""
    tried = cases_of(settings.catalogue("train"))  # each case once, before anything is written
    real, left = drawing.row_of, [rows + tried]

    def row_of(*given: Any) -> dict[str, Any]:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return real(*given)

    with monkeypatch.context() as patched:
        patched.setattr(drawing, "row_of", row_of)
        patched.setattr("veritas_rl.datasets.generate.BATCH", 1)
        with pytest.raises(KeyboardInterrupt):
            make(folder, settings)
    assert [path.name for path in folder.iterdir()] == ["partial.jsonl"]
    return folder


def test_a_small_set_of_questions_ends_by_itself(tmp_path: Path) -> None:
    settings = Settings("openspiel", 1500, task_types="leduc_poker", val_ratio=0.2)
    report = make(tmp_path, settings)
    questions = [json.dumps(row["prompt"]) for name in FILES[:2] for row in read(tmp_path / name)]
    assert 500 < len(questions) < 1500
    assert len(set(questions)) == len(questions) == sum(report["files"][name]["rows"] for name in FILES[:2])


def test_without_a_share_for_validation_there_is_one_part(tmp_path: Path) -> None:
    report = make(tmp_path, Settings("lgc-v2", 20, val_ratio=0.0))
    assert set(report["files"]) == {"train.jsonl", "train.parquet"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"number": 0}, "--num-samples must be at least 1, not 0"),
        ({"val_ratio": 1.0}, r"val_ratio must be in \[0, 1\), not 1"),
        ({"env": "lgc"}, "unknown environment 'lgc': did you mean lgc-v2"),
        ({"task_types": "sudokus_of_letters"}, "unknown case 'sudokus_of_letters'"),
        ({"levels": "6"}, "levels go from 1"),
        ({"language": "tlh"}, "unknown language 'tlh'"),
        ({"prompt": "long"}, "unknown prompt 'long'"),
        ({"start_task_id": -1}, "--start-task-id must be at least 0, not -1"),
        ({"start_task_id": 99 * SEEDS}, "is of type 99, which does not exist"),
        ({"start_task_id": task_id_of(KIND, SEEDS - 5)}, "there are 5, not 10"),
        ({"start_task_id": task_id_of(KIND, 0), "val_ratio": 0.1}, "leave --val-ratio out"),
        ({"start_task_id": task_id_of(KIND, 0), "levels": "1"}, "leave --levels out"),
        (
            {"start_task_id": task_id_of(KIND, 0), "task_types": "other"},
            f"belongs to {KIND.name}: set --task-types={KIND.name}",
        ),
        ({"env": "trace", "start_task_id": 0}, "tasks of trace have no numbers; leave out --start-task-id"),
        ({"env": "trace", "language": "en"}, "unknown trace setting 'language'"),
        ({"env": "openspiel", "levels": "1"}, "unknown openspiel setting 'levels'"),
        ({"env": "openspiel", "config": (("mode", "episode"),)}, "leave mode=episode out"),
        ({"env": "openspiel", "task_types": "tic_tac_toe,kuhn_poker"}, "kuhn_poker is too small"),
    ],
)
def test_impossible_settings_are_one_line_and_leave_no_folder(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make(tmp_path / "out", Settings(**{"env": "lgc-v2", "number": 10, **changes}))
    assert not (tmp_path / "out").exists()
