"""Draw the tasks of a data set, and make a row of each. A draw gives the same row in any process.

train.parquet contains tasks of the training split and val.parquet of the validation split, which the environment
separates up to symmetry. With consecutive ids, the environment assigns each task to a file.
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from veritas_rl.configs import split_list
from veritas_rl.datasets.rows import check_share, rl_row
from veritas_rl.envs.abilities import NumbersTasks, name_of
from veritas_rl.envs.base import Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.registry import get_environment, named_settings, prepare
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.seeding import digest

VAL_RATIO = 0.1

PER_CASE = 10**9
"""Tasks of each case to draw from, more than any data set needs. A catalogue is lazy."""

STALE_DRAWS = 2048
"""After this many draws in a row without a new question, drawing ends."""


@dataclass(frozen=True)
class Settings:
    """The settings of a data set. Equal settings give equal files.

    Attributes:
        env: The environment's name.
        number: The number of rows of both files together.
        task_types: Cases, separated by commas; "" for the environment's default.
        levels: Levels, separated by commas, if the environment has levels; "" for all.
        start_task_id: The first of consecutive task ids; None to draw tasks by the seed.
        seed: The seed of the set of tasks.
        val_ratio: The share of validation rows; None for `VAL_RATIO`, and with consecutive ids.
        prompt: The prompt style, see `Manner`.
        language: The language of the questions, if the environment has several; "" for its default.
        config: Further settings of the environment, as pairs of key and value.

    Raises:
        UserError: A value is invalid.
    """

    env: str
    number: int
    task_types: str = ""
    levels: str = ""
    start_task_id: int | None = None
    seed: int = 42
    val_ratio: float | None = None
    prompt: str = "full"
    language: str = ""
    config: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.number < 1:
            raise UserError(f"--num-samples must be at least 1, not {self.number}")
        check_share(VAL_RATIO if self.val_ratio is None else self.val_ratio)
        if self.start_task_id is None:
            return
        if self.start_task_id < 0:
            raise UserError(f"--start-task-id must be at least 0, not {self.start_task_id}")
        if self.val_ratio is not None:
            raise UserError(
                "--val-ratio has no effect with --start-task-id, because each task's form decides its file: leave "
                "--val-ratio out"
            )
        if self.levels:
            raise UserError(
                "--levels has no effect with --start-task-id, because the ids determine the levels: leave --levels out"
            )

    @property
    def environment(self) -> Environment:
        return get_environment(self.env)

    def catalogue(self, split: str) -> Sequence[Task]:
        """The tasks of a split.

        Raises:
            UserError: A name or a value is invalid, or the tasks need more than one reply each.
        """
        environment, kind = self.environment, self.environment.config_type
        given: dict[str, Any] = {"prompt": self.prompt, "seed": self.seed}
        cases = self.task_types or ("" if self.levels else kind.demonstrated)
        if self.start_task_id is not None:
            if not isinstance(environment, NumbersTasks):
                raise UserError(f"tasks of {environment.name} have no numbers; leave out --start-task-id")
            numbered = environment.settings_from(self.start_task_id, self.number)
            given |= numbered
            found = str(numbered.get(kind.cases_key, ""))
            if self.task_types and split_list(self.task_types, "task-types") != (found,):
                raise UserError(
                    f"task id {self.start_task_id} belongs to {found}: set --task-types={found}, or leave it out"
                )
        elif cases:
            given[kind.cases_key] = cases
        if self.levels:
            given["levels"] = self.levels
        if self.language:
            given["language"] = self.language
        values = {**named_settings(environment, given), **kind.single}
        values |= named_settings(environment, dict(self.config))
        tasks = environment.catalogue(environment.read_config({**values, "num_tasks_per_case": PER_CASE}), split)
        if tasks[0].mode != "move":
            raise UserError("a data set needs tasks with a single answer: leave mode=episode out")
        return tasks

    def streams(self) -> list["Stream"]:
        """The streams to draw from, in order."""
        if self.start_task_id is not None:
            return [Stream("train", self.number)]
        wanted = round((VAL_RATIO if self.val_ratio is None else self.val_ratio) * self.number)
        return [Stream("val", wanted), Stream("train", self.number - wanted)]

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "config": dict(self.config)}


class Stream(NamedTuple):
    """Draws from one split, of which `wanted` rows are kept."""

    split: str
    wanted: int


class Drawn(NamedTuple):
    """The result of one draw.

    Attributes:
        draw: Its number in its stream, from 0.
        part: The row's file, "train" or "val".
        question: Equal for draws with the same question.
        group: The equivalence class of the question. No class is in both files.
        row: The row, without its index.
    """

    draw: int
    part: str
    question: int
    group: str
    row: dict[str, Any]


def draw(settings: Settings, split: str, numbers: Sequence[int]) -> list[Drawn]:
    """The rows of some draws of a stream; fewer rows than numbers if the tasks are used up.

    Raises:
        UserError: A setting is invalid, or a case is too small for held-out questions.
    """
    environment, catalogue = settings.environment, settings.catalogue(split)
    cases = cases_of(catalogue)
    places = [number % cases * PER_CASE + number // cases for number in numbers]
    tasks = [catalogue[place] for place in places if place < len(catalogue)]
    prepare(tasks)
    found = []
    for number, task in zip(numbers, tasks, strict=False):
        (turn,) = environment.start(task).turns()
        part = split
        if environment.held_out(task, turn):
            if settings.start_task_id is not None:
                part, task = "val", task.replace(split="val")
            elif split == "train":
                raise UserError(
                    f"{task.case} is too small for a data set, because validation uses all its questions: choose "
                    "another case"
                )
        question = digest(*(text for message in turn.messages for text in message.values()))
        found.append(
            Drawn(number, part, question, environment.equivalence_class(task, turn), row_of(environment, task, turn))
        )
    return found


def cases_of(catalogue: Sequence[Task]) -> int:
    """The number of cases in a catalogue, which lists all tasks of the first case first."""
    return max(1, len(catalogue) // PER_CASE)


def row_of(environment: Environment, task: Task, turn: Turn) -> dict[str, Any]:
    """The row of a task. Its columns are the same in all environments, so that files of several can be joined."""
    name = name_of(environment, task)
    extra = {"env": task.env, "case": task.case, "task_id": task.id, "task": json.dumps(task.to_dict())}
    return rl_row(turn.messages, task.id, task.env, extra, str(name.task_id), name.task_type, name.seed)
