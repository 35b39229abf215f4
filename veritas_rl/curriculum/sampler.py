"""The source of training tasks: the current stage, failed tasks, and earlier stages.

A run without a curriculum has one stage that is never passed. A draw depends only on the seed, the number of earlier
draws, and the recorded outcomes.
"""

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from veritas_rl.configs import make_config
from veritas_rl.curriculum.replay import FailureBuffer, FailureReplayConfig
from veritas_rl.curriculum.stages import EVERYTHING, STAGE_KEYS, Curriculum, CurriculumConfig, Stage
from veritas_rl.envs.registry import get_environment, named_settings, open_catalogue, task_from_dict
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError, unknown
from veritas_rl.permutation import Permutation
from veritas_rl.seeding import generator

FRESH, REPLAY, PAST = "fresh", "replay", "past"
ORIGINS = (FRESH, REPLAY, PAST)
"""The origin of a task: the current stage, the failures, or an earlier stage."""


@dataclass(frozen=True)
class Draw:
    """A drawn task.

    Attributes:
        number: The number of earlier draws, under which the outcome is recorded.
        task: The task.
        origin: One of `ORIGINS`.
        stage: The name of the task's stage.
    """

    number: int
    task: Task
    origin: str
    stage: str


class TaskSource:
    """Draws tasks and records their outcomes, both in constant time.

    Each stage goes through its tasks in its own seeded order, and starts again after the last task. `Task.visit` is the
    round in which a task was drawn. The round increases each time that a failed task is replayed.

    Args:
        catalogues: The tasks of each stage, by its name.
        curriculum: The stages.
        failures: The failures; None without failure replay.
        seed: Seeds every order and every draw.
        past_share: The share of draws from earlier stages.
        limit: The maximum number of tasks of each stage; -1 for all.

    Raises:
        UserError: A stage has no tasks, or fresh tasks would never be drawn.
    """

    def __init__(
        self,
        catalogues: Mapping[str, Sequence[Task]],
        curriculum: Curriculum,
        failures: FailureBuffer | None = None,
        seed: object = 42,
        past_share: float = 0.0,
        limit: int = -1,
    ) -> None:
        self.curriculum = curriculum
        self.failures = failures
        self.seed = seed
        self.past_share = past_share
        self.replay_probability = 0.0 if failures is None else failures.config.probability
        if len(curriculum.stages) > 1 and past_share + self.replay_probability >= 1:
            raise UserError(
                f"curriculum.past_share={past_share} and failure_replay.probability={self.replay_probability} leave no "
                "fresh games, without which no stage is passed: choose values whose sum is less than 1"
            )
        self.tasks = dict(catalogues)
        self._lengths: dict[str, int] = {}
        self._orders: dict[str, Permutation] = {}
        for name, tasks in self.tasks.items():
            length = len(tasks) if limit < 0 else min(limit, len(tasks))
            if length < 1:
                raise UserError(f"stage {name} has no task: add a game to it, and set num_tasks_per_case to at least 1")
            self._lengths[name] = length
            self._orders[name] = Permutation(len(tasks), seed, "fresh", name)
        self.drawn = 0
        self._seen = dict.fromkeys(self.tasks, 0)
        self._played: dict[str, int] = dict.fromkeys(ORIGINS, 0)
        self._waiting: dict[int, Draw] = {}
        self._again: deque[Draw] = deque()
        self._in_play: set[int] = set()

    def __len__(self) -> int:
        return sum(self._lengths.values())

    def next(self) -> Draw:
        """The next task."""
        while self._again:
            draw = self._again.popleft()
            if draw.number not in self._in_play:
                return draw
        random, number = generator(self.seed, "draw", self.drawn), self.drawn
        self.drawn += 1
        chance, past = random.random(), self.curriculum.past
        draw = None
        if chance < self.past_share:
            if past:
                draw = self._from_stage(number, random.choice(past), PAST)
        elif chance < self.past_share + self.replay_probability and self.failures is not None:
            failure = self.failures.draw(random)
            if failure is not None:
                again = dataclasses.replace(failure.task, visit=failure.task.visit + 1)
                draw = Draw(number, again, REPLAY, failure.stage)
        if draw is None:
            draw = self._from_stage(number, self.curriculum.stage, FRESH)
        self._waiting[number] = draw
        return draw

    def record(self, number: int, score: float, success: float) -> str | None:
        """Record the outcome of a task.

        Args:
            number: The draw's number.
            score: The score in [0, 1], for a group of games the mean.
            success: 1 or 0, or the share of a group's games. For failure replay, a group succeeds if all its games do.

        Returns:
            A line if the outcome passes a stage, else None.

        Raises:
            KeyError: No draw with this number waits for its outcome.
        """
        draw = self._waiting.pop(number)
        self._played[draw.origin] += 1
        if self.failures is not None:
            self.failures.record(draw.task, draw.stage, score, solved=success == 1)
        if draw.origin == PAST:
            self.curriculum.record_past(draw.stage, success)
        if draw.origin == FRESH:
            return self.curriculum.record_fresh(draw.stage, success)
        return None

    def upcoming(self, count: int) -> Iterator[Task]:
        """The next `count` tasks of the current stage. Failures and earlier stages may come before them."""
        name = self.curriculum.stage.name
        seen = self._seen[name]
        yield from (self._task(name, draw) for draw in range(seen, seen + min(count, self._lengths[name])))

    def metrics(self) -> dict[str, float]:
        """The metrics of curriculum and failure replay; empty without both."""
        made = self.curriculum.metrics()
        if self.failures is not None:
            made |= self.failures.metrics()
            made["failure_replay/share"] = self._played[REPLAY] / max(1, sum(self._played.values()))
        return made

    def state_dict(self) -> dict[str, Any]:
        """The state of the draws, as plain values."""
        return {
            "drawn": self.drawn,
            "seen": dict(self._seen),
            "played": dict(self._played),
            "waiting": [{**vars(draw), "task": draw.task.to_dict()} for draw in self._waiting.values()],
            "curriculum": self.curriculum.state_dict(),
            "failures": None if self.failures is None else self.failures.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the state that `state_dict` returned.

        Drawn tasks without a known outcome are drawn again first, except those passed to `go_on_with`.

        Raises:
            UserError: The state has other stages. The message names the difference.
        """
        self.curriculum.load_state_dict(state["curriculum"])
        if self.failures is not None and state["failures"] is not None:
            self.failures.load_state_dict(state["failures"])
        self.drawn, self._seen, self._played = state["drawn"], dict(state["seen"]), dict(state["played"])
        draws = [Draw(**{**values, "task": task_from_dict(values["task"])}) for values in state["waiting"]]
        self._waiting = {draw.number: draw for draw in draws}
        self._again = deque(draws)

    def go_on_with(self, numbers: Iterable[int]) -> None:
        """Mark draws as still being played, so that `load_state_dict` does not draw them again."""
        self._in_play.update(numbers)

    def _from_stage(self, number: int, stage: Stage, origin: str) -> Draw:
        seen = self._seen[stage.name]
        self._seen[stage.name] = seen + 1
        return Draw(number, self._task(stage.name, seen), origin, stage.name)

    def _task(self, stage: str, draw: int) -> Task:
        """The task of a stage's draw, counted from 0, with its visit."""
        visit, place = divmod(draw, self._lengths[stage])
        return dataclasses.replace(self.tasks[stage][self._orders[stage][place]], visit=visit)


def open_source(settings: Mapping[str, Any], seed: object = 42, limit: int = -1) -> TaskSource:
    """The tasks of a training run in one environment.

    Args:
        settings: The settings of `open_catalogue`. `curriculum` and `failure_replay` contain the fields of
            `CurriculumConfig` and `FailureReplayConfig`, or are None.
        seed: Seeds every order and every draw.
        limit: The maximum number of tasks of each stage; -1 for all.

    Raises:
        UserError: A key or a value is invalid. For a stage, the message starts with its name.
    """
    failures = None
    if settings.get("failure_replay") is not None:
        config = make_config(FailureReplayConfig, _mapping("failure_replay", settings), "failure_replay")
        failures = FailureBuffer(config)
    if settings.get("curriculum") is None:
        source = {EVERYTHING.name: open_catalogue(settings, "train")}
        return TaskSource(source, Curriculum([EVERYTHING]), failures, seed, limit=limit)
    config = make_config(CurriculumConfig, _mapping("curriculum", settings), "curriculum")
    stages = config.stages_of(get_environment(settings["env"]))
    return TaskSource(
        {stage.name: _open_stage(settings, stage) for stage in stages},
        Curriculum(stages, config.window, config.min_games),
        failures,
        seed,
        config.past_share,
        limit,
    )


def _mapping(name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    values = settings[name]
    if not isinstance(values, Mapping):
        raise UserError(f"{name} must be null or a mapping, such as {{}} for the defaults, not {values!r}")
    return values


def _open_stage(settings: Mapping[str, Any], stage: Stage) -> Sequence[Task]:
    environment = get_environment(settings["env"])
    known = environment.config_type.model_fields
    for key in stage.settings:
        if key not in known:
            raise unknown(f"key of stage {stage.name}", key, {*STAGE_KEYS, *known, *environment.config_type.user_keys})
    # None counts as unset.
    adapter = {**named_settings(environment, settings.get("adapter_config")), **stage.settings}
    try:
        return open_catalogue({**settings, "adapter_config": adapter}, "train")
    except UserError as error:
        raise UserError(f"stage {stage.name}: {error}") from error
