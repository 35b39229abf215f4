"""A file of answers, scored on the tasks of a data set: pass rates by type and by level, with intervals.

An answer is scored as a model's reply in training is: through the session of its task. A task may have several answers;
it counts by its mean. A line that cannot be used is named, and a task without an answer is counted as missing, not as
failed.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from veritas_rl.datasets.jsonl import Bad, BadLine, lines_of, record_of, text_of
from veritas_rl.envs.base import Reply, Score
from veritas_rl.envs.registry import get_environment, prepared, task_of
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.judging.held_out import EXACT
from veritas_rl.judging.statistics import Estimate, mean_score, rate

ANSWERS = ("answer", "response", "completion", "output")
"""The fields that an answer may stand in; the first that is there counts."""

ALL = "all"


@dataclass(frozen=True)
class Asked:
    """A task of a data set.

    Attributes:
        name: Its task_id, as text.
        kind: Its task_type.
        task: It.
    """

    name: str
    kind: str
    task: Task


@dataclass(frozen=True)
class Part:
    """All tasks, those of a type, or those of a group such as a level. Without an answer the estimates are None.

    Attributes:
        name: "all", the type or the group.
        tasks: How many there are.
        missing: How many of them have no answer.
        answers: How many answers were scored.
        legal: The share of answers that could be read and were allowed.
        success: The share of answers that solve their task.
        value: The mean value of an answer, which gives a part of it to some that do not.
        solved: The share of tasks that one answer at least solves.
        reasons: How many answers ended for which reason.
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
    """What became of a file of answers.

    Attributes:
        all: Over all tasks.
        types: By task_type.
        groups: By the environment's group, such as a type and a level; empty where types are groups.
        missing: The task_ids without an answer.
        bad: Lines that could not be used.
        answers: What `Part.legal` counts, in the environment's words.
        solved: What `Part.success` counts.
    """

    all: Part
    types: tuple[Part, ...]
    groups: tuple[Part, ...]
    missing: tuple[str, ...]
    bad: tuple[Bad, ...]
    answers: str
    solved: str


def read_data(path: Path) -> list[Asked]:
    """The tasks of a file of a data set.

    Raises:
        UserError: It is no file of a data set.
    """
    if path.suffix == ".parquet":
        try:
            rows = pq.read_table(path).to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise UserError(f"{path} cannot be read ({str(error)[:80]}): --data names a .parquet or .jsonl") from error
    elif path.suffix == ".jsonl":
        rows = []
        for number, line in lines_of(path, "--data"):
            try:
                rows.append(record_of(line))
            except BadLine as error:
                raise UserError(f"{path}, line {number}: {error}: write it again with generate_dataset.py") from error
    else:
        raise UserError(f"--data names a .parquet or .jsonl file such as DIR/val.parquet, {path} was given")
    found: dict[str, Asked] = {}
    for number, row in enumerate(rows, start=1):
        if not isinstance(row.get("extra_info"), dict) or row.get("task_id") is None:
            raise UserError(f"{path}, row {number}: no extra_info or no task_id: generate_dataset.py writes both")
        asked = Asked(str(row["task_id"]), str(row.get("task_type")), task_of(row["extra_info"]))
        if found.setdefault(asked.name, asked).task != asked.task:
            raise UserError(f"{path}, row {number}: the task_id {asked.name} stands for two tasks")
    if not found:
        raise UserError(f"{path} holds no task")
    return list(found.values())


def read_answers(path: Path, names: Iterable[str]) -> tuple[dict[str, list[str]], list[Bad]]:
    """The answers of a JSONL file by task_id, and its bad lines.

    Args:
        path: One JSON object a line, with `task_id` and one of `ANSWERS`.
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
        name = int(name)  # as pandas writes whole numbers of a column with gaps
    if name is None or isinstance(name, bool) or not isinstance(name, int | str):
        raise BadLine("no task_id")
    if str(name) not in known:
        raise BadLine(f"the data have no task_id {str(name)[:80]}")
    given = [field for field in ANSWERS if record.get(field) is not None]
    if not given:
        raise BadLine(f"no answer to {name}: one of {', '.join(ANSWERS)}")
    return str(name), text_of(record[given[0]], given[0])


def score(data: Sequence[Asked], answers: Mapping[str, Sequence[str]], bad: Sequence[Bad] = ()) -> Scored:
    """Score answers.

    Args:
        data: The tasks.
        answers: Of each task_id; none where it is missing.
        bad: What `read_answers` could not use.

    Raises:
        UserError: No task has an answer, or one needs more than one reply.
    """
    by_task = {asked.task: asked for asked in data if answers.get(asked.name)}
    if not by_task:
        raise UserError(f"no answer can be scored: {len(bad)} bad lines, and none of {len(data)} tasks has an answer")
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
        solved=environment.solved if exact else environment.estimated or environment.solved,
    )


def _scored(task: Task, answer: str) -> Score:
    session = get_environment(task.env).start(task)
    session.step({turn.seat: Reply(answer) for turn in session.turns()})
    if session.turns():
        raise UserError(f"{task.id} needs more than one reply: only tasks of a single answer can be scored from a file")
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
    """The mean with its interval: one that is right for few values where each is 0 or 1."""
    if not values:
        return None
    if set(values) <= {0.0, 1.0}:
        return rate([value == 1.0 for value in values], classes)
    return mean_score(values, classes)
