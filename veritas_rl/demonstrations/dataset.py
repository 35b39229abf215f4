"""Demonstrations as parquet: the rows, the split into train and val, and the check for leaked validation tasks.

    FOLDER/train.parquet  FOLDER/val.parquet  FOLDER/demonstrations.json

demonstrations.json is written last. It records how the files were made, and the result of their check.
"""

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.datasets.rows import sft_row, validation_rows, write_parquet
from veritas_rl.demonstrations.generate import Counts, Settings
from veritas_rl.demonstrations.questions import Demonstration
from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.registry import get_environment, prepare, task_of
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.seeding import digest

FILES = ("train.parquet", "val.parquet")
REPORT = "demonstrations.json"

EVALUATION_TASKS = 2_000
"""The maximum number of validation tasks of each case with which a written file is compared."""

ALL_EVALUATION_TASKS = 4_000
"""The maximum number of validation tasks in total, because some environments need long to make a task."""


def row_of(demonstration: Demonstration, index: int, settings: Settings) -> dict[str, Any]:
    """The row of a demonstration.

    `extra_info` contains the task as plain values, as the reward function reads it, and the earlier replies
    of the session.
    """
    task = demonstration.task
    extra: dict[str, Any] = {**task.to_dict(), "task_id": task.id, "index": index}
    extra |= {"said": json.dumps(demonstration.said), "expert": settings.expert, "value": demonstration.value}
    return sft_row(demonstration.messages, demonstration.response, task.env, extra)


def split_rows(
    rows: Sequence[dict[str, Any]], groups: Sequence[str], val_ratio: float, seed: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Split rows into a training part and a validation part. Rows of a group stay together.

    Whole groups, in a random order drawn from `seed`, go to the second part until it has `val_ratio` of the rows.

    Raises:
        UserError: `val_ratio` is not in [0, 1).
    """
    numbers = np.array([group_number(group, seed) for group in groups], np.uint64)
    chosen = validation_rows(numbers, val_ratio).tolist()
    pairs = list(zip(rows, chosen, strict=True))
    return [row for row, is_chosen in pairs if not is_chosen], [row for row, is_chosen in pairs if is_chosen]


def group_number(group: str, seed: int) -> int:
    """The random number of a group of rows, see `validation_rows`."""
    return digest("val", seed, group)


def write(
    folder: Path, settings: Settings, demonstrations: Sequence[Demonstration], counts: Counts, val_ratio: float
) -> dict[str, Any]:
    """Write both files, read them again, check them, and write the report beside them.

    Returns:
        The report.

    Raises:
        UserError: The folder cannot be written, or the check failed.
    """
    rows = [row_of(demonstration, index, settings) for index, demonstration in enumerate(demonstrations)]
    parts = split_rows(rows, [demonstration.group for demonstration in demonstrations], val_ratio, settings.seed)
    report: dict[str, Any] = {
        "settings": settings.values(),
        "counts": dataclasses.asdict(counts),
        "files": write_parts(folder, parts),
        "check": check(folder, settings),
    }
    if report["check"]["rows_in_evaluation_set"] or report["check"]["rows_that_differ"]:
        raise UserError(f"the check of {folder} failed: {report['check']}")
    write_whole(folder / REPORT, json.dumps(report, indent=2) + "\n")
    return report


def write_parts(
    folder: Path, parts: Sequence[Collection[Any] | np.ndarray], write: Callable[[Path, Any], str] = write_parquet
) -> dict[str, dict[str, Any]]:
    """Write train.parquet and val.parquet. An empty part gets no file, and its older file is removed.

    Args:
        folder: The folder, which is created.
        parts: The rows of both.
        write: Writes a part, and returns the SHA-256 of its file.

    Returns:
        The number of rows and the SHA-256 of each file.

    Raises:
        UserError: The folder cannot be written.
    """
    written: dict[str, dict[str, Any]] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REPORT).unlink(missing_ok=True)  # the report describes older files
        for name, rows in zip(FILES, parts, strict=True):
            if len(rows):
                written[name] = {"rows": len(rows), "sha256": write(folder / name, rows)}
            else:
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error}); give another folder") from error
    return written


def check(folder: Path, settings: Settings) -> dict[str, int]:
    """Rebuild the turn of every row of the written files, and compare the classes of the rows with the
    validation classes.

    Args:
        folder: The folder of the files.
        settings: The settings of the validation tasks. Tasks are made with and without their `config`, because a
            setting that restricts tasks, such as a depth, must not restrict the comparison.

    Returns:
        The number of "rows"; of "rows_that_differ" from the turn of their session; of "evaluation_tasks" and
        "evaluation_classes" in the comparison; and of "rows_in_evaluation_set", whose class is one of the evaluation
        classes or is held out by the environment.
    """
    environment = get_environment(settings.env)
    chosen = [settings, dataclasses.replace(settings, config=())] if settings.config else [settings]
    cases = len({task.case for task in settings.catalogue("val", 1, "move")})
    per_case = max(1, min(EVALUATION_TASKS, ALL_EVALUATION_TASKS // cases))
    tasks = [task for each in chosen for task in each.catalogue("val", per_case, "move")]
    prepare(tasks)
    held = {environment.equivalence_class(task) for task in tasks}
    rows = differing = inside = 0
    for name in FILES:
        if not (folder / name).exists():
            continue
        for row in pd.read_parquet(folder / name).to_dict("records"):
            rows += 1
            task, turn = ask_again(row["extra_info"])
            differing += [dict(message) for message in row["messages"][:-1]] != [*turn.messages]
            inside += environment.equivalence_class(task, turn) in held or environment.held_out(task, turn)
    return {
        "rows": rows,
        "rows_that_differ": differing,
        "evaluation_tasks": len(tasks),
        "evaluation_classes": len(held),
        "rows_in_evaluation_set": inside,
    }


def ask_again(extra_info: Mapping[str, Any]) -> tuple[Task, Turn]:
    """The task and the turn of a row, rebuilt from its `extra_info`."""
    task = task_of(extra_info)
    session = get_environment(task.env).start(task)
    for said in json.loads(extra_info.get("said", "[]")):
        session.step({turn.seat: Reply(said) for turn in session.turns()})
    return task, session.turns()[0]
