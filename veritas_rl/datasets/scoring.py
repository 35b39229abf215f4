"""Score a file of answers to the tasks of a data set: pass rates by type and by level, with intervals.

An answer is scored like a model's reply in training, through the task's session. A task with several answers
counts with the mean of their scores. Invalid lines are reported, and a task without an answer counts as missing,
not as failed.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from veritas_rl.datasets.jsonl import Bad, BadLine, lines_of, record_of, text_of
from veritas_rl.envs.abilities import solved_by
from veritas_rl.envs.base import Reply, Score
from veritas_rl.envs.registry import get_environment, prepared, task_of
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.judging.held_out import EXACT
from veritas_rl.judging.statistics import Estimate, mean_score, rate

ANSWERS = ("answer", "response", "completion", "output")
"""The possible names of the answer's field. The first existing field counts."""

ALL = "all"


@dataclass(frozen=True)
class Asked:
    """A task of a data set.

    Attributes:
        name: Its task_id, as text.
        kind: Its task_type.
        task: The task.
    """

    name: str
    kind: str
    task: Task


@dataclass(frozen=True)
class Part:
    """The rates of all tasks, of a type, or of a group such as a level. Without answers the estimates are None.

    Attributes:
        name: "all", the type or the group.
        tasks: The number of tasks.
        missing: The number of tasks without an answer.
        answers: The number of scored answers.
        legal: The share of legal answers.
        success: The share of answers that solve their task.
        value: The mean value of an answer, with partial credit.
        solved: The share of tasks with at least one solving answer.
        reasons: The number of answers by reason.
    """

    name: str
    tasks: int
    missing: int
    answers: int
    legal: Estimate | None
    success: Estimate | None
    value: Estimate | None
    solved: Estimate | None
    reasons: Mapping[str, int]


@dataclass(frozen=True)
class Scored:
    """The result of scoring a file of answers.

    Attributes:
        all: The rates over all tasks.
        types: The rates by task_type.
        groups: The rates by the environment's group, such as a type and a level; empty if types are groups.
        missing: The task_ids without an answer.
        bad: Invalid lines.
        answers: The environment's name for what `Part.legal` counts.
        solved: The environment's name for what `Part.success` counts.
    """

    all: Part
    types: tuple[Part, ...]
    groups: tuple[Part, ...]
    missing: tuple[str, ...]
    bad: tuple[Bad, ...]
    answers: str
    solved: str


def read_data(path: Path) -> list[Asked]:
    """Read the tasks of a data set's file.

    Raises:
        UserError: The file is not a data set's file.
    """
    if path.suffix == ".parquet":
        try:
            rows = pq.read_table(path).to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise UserError(
                f"{path} cannot be read ({str(error)[:80]}): set --data to a .parquet or .jsonl file"
            ) from error
    elif path.suffix == ".jsonl":
        rows = []
        for number, line in lines_of(path, "--data"):
            try:
                rows.append(record_of(line))
            except BadLine as error:
                raise UserError(
                    f"{path}, line {number}: {error}: write the file again with generate_dataset.py"
                ) from error
    else:
        raise UserError(f"--data must be a .parquet or .jsonl file such as DIR/val.parquet, not {path}")
    found: dict[str, Asked] = {}
    for number, row in enumerate(rows, start=1):
        if not isinstance(row.get("extra_info"), dict) or row.get("task_id") is None:
            raise UserError(
                f"{path}, row {number} has no extra_info or no task_id: write the file with generate_dataset.py"
            )
        asked = Asked(str(row["task_id"]), str(row.get("task_type")), task_of(row["extra_info"]))
        if found.setdefault(asked.name, asked).task != asked.task:
            raise UserError(f"{path}, row {number}: the task_id {asked.name} belongs to two tasks")
    if not found:
        raise UserError(f"{path} has no task")
    return list(found.values())


def read_answers(path: Path, names: Iterable[str]) -> tuple[dict[str, list[str]], list[Bad]]:
    """The answers of a JSONL file by task_id, and its bad lines.

    Args:
        path: One JSON object per line, with `task_id` and one of `ANSWERS`.
        names: The task_ids that exist.

    Raises:
        UserError: The file cannot be read.
    """
    known = set(names)
    answers: dict[str, list[str]] = {}
    bad: list[Bad] = []
    for number, line in lines_of(path, "--answers"):
        try:
            name, answer = _answer_of(record_of(line), known)
            answers.setdefault(name, []).append(answer)
        except BadLine as error:
            bad.append(Bad(number, str(error)))
    return answers, bad


def _answer_of(record: Mapping[str, Any], known: set[str]) -> tuple[str, str]:
    name = record.get("task_id")
    if isinstance(name, float) and name.is_integer():
        name = int(name)  # pandas writes integers of a column with gaps as floats
    if name is None or isinstance(name, bool) or not isinstance(name, int | str):
        raise BadLine("no task_id")
    if str(name) not in known:
        raise BadLine(f"the data set has no task_id {str(name)[:80]}")
    given = [field for field in ANSWERS if record.get(field) is not None]
    if not given:
        raise BadLine(f"no answer to {name}: add one of the fields {', '.join(ANSWERS)}")
    return str(name), text_of(record[given[0]], given[0])


def score(data: Sequence[Asked], answers: Mapping[str, Sequence[str]], bad: Sequence[Bad] = ()) -> Scored:
    """Score answers.

    Args:
        data: The tasks.
        answers: The answers by task_id. Tasks may be missing.
        bad: The invalid lines of `read_answers`.

    Raises:
        UserError: No task has an answer, or a task needs more than one reply.
    """
    by_task = {asked.task: asked for asked in data if answers.get(asked.name)}
    if not by_task:
        raise UserError(
            f"no answer can be scored: the file has {len(bad)} bad lines, and no answer to any of {len(data)} tasks"
        )
    scores: dict[str, list[Score]] = {}
    for task in prepared(by_task):
        name = by_task[task].name
        scores[name] = [_scored(task, answer) for answer in answers[name]]
    environment = get_environment(data[0].task.env)
    exact = all(drawn.details.get("value_source", EXACT[0]) in EXACT for each in scores.values() for drawn in each)
    types = _parts(data, scores, lambda asked: asked.kind)
    groups = _parts(data, scores, lambda asked: get_environment(asked.task.env).group(asked.task))
    return Scored(
        all=_part(ALL, data, scores),
        types=types,
        groups=groups if [part.tasks for part in groups] != [part.tasks for part in types] else (),
        missing=tuple(asked.name for asked in data if asked.name not in scores),
        bad=tuple(bad),
        answers=environment.answers,
        solved=solved_by(environment, exact),
    )


def _scored(task: Task, answer: str) -> Score:
    session = get_environment(task.env).start(task)
    session.step({turn.seat: Reply(answer) for turn in session.turns()})
    if session.turns():
        raise UserError(
            f"{task.id} needs more than one reply: only tasks with a single answer can be scored from a file"
        )
    return next(iter(session.scores().values()))


def _parts(
    data: Sequence[Asked], scores: Mapping[str, Sequence[Score]], key: Callable[[Asked], str]
) -> tuple[Part, ...]:
    members: dict[str, list[Asked]] = {}
    for asked in data:
        members.setdefault(key(asked), []).append(asked)
    return tuple(_part(name, members[name], scores) for name in sorted(members))


def _part(name: str, data: Sequence[Asked], scores: Mapping[str, Sequence[Score]]) -> Part:
    answered = [asked for asked in data if asked.name in scores]
    drawn = [scores[asked.name] for asked in answered]
    classes = [get_environment(asked.task.env).equivalence_class(asked.task) for asked in answered]

    def mean(of: Callable[[Score], float]) -> Estimate | None:
        return _estimate([sum(map(of, each)) / len(each) for each in drawn], classes)

    return Part(
        name=name,
        tasks=len(data),
        missing=len(data) - len(answered),
        answers=sum(map(len, drawn)),
        legal=mean(lambda score: float(score.legal)),
        success=mean(lambda score: float(score.success)),
        value=mean(lambda score: score.value),
        solved=_estimate([float(any(score.success for score in each)) for each in drawn], classes),
        reasons=dict(sorted(Counter(str(score.reason) for each in drawn for score in each).items())),
    )


def _estimate(values: Sequence[float], classes: Sequence[Hashable]) -> Estimate | None:
    """The mean with its interval. Binary values use an interval that is exact for few values."""
    if not values:
        return None
    if set(values) <= {0.0, 1.0}:
        return rate([value == 1.0 for value in values], classes)
    return mean_score(values, classes)
