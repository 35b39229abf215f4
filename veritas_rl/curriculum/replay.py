"""Replay of failed tasks until they are mastered.

As in prioritized experience replay (Schaul et al., 2016), but with tasks instead of transitions: the lower the newest
score of a task, the more often it is drawn.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from veritas_rl.curriculum.checks import probability, whole
from veritas_rl.envs.registry import task_from_dict
from veritas_rl.envs.task import Task

MASTERED_AFTER = 2
"""A task is mastered after this many successes in a row."""

LEAST_PRIORITY = 0.1
"""The priority of a task that was solved once. With 0 it would not be drawn again. The priority also bounds the
tries of a draw."""


@dataclass(frozen=True)
class FailureReplayConfig:
    """The keys of `failure_replay`.

    Attributes:
        failure_threshold: A task with a lower score is a failure.
        capacity: The maximum number of stored failures. The latest failures are kept.
        probability: The probability that a task is drawn from the failures.

    Raises:
        UserError: A value is invalid. The message names the key and what is valid.
    """

    failure_threshold: float = 0.5
    capacity: int = 1000
    probability: float = 0.3

    def __post_init__(self) -> None:
        probability("failure_replay.failure_threshold", self.failure_threshold)
        whole("failure_replay.capacity", self.capacity)
        probability("failure_replay.probability", self.probability)


@dataclass
class Failure:
    """A task that failed.

    Attributes:
        task: The task, with the number of its latest visit.
        stage: The stage from which the task was drawn when it failed.
        score: Its newest score, in [0, 1].
        solved: The current number of successes in a row.
        place: The task's index among the tasks that may be drawn; -1 while the task is being played.
    """

    task: Task
    stage: str
    score: float
    solved: int = 0
    place: int = -1

    @property
    def priority(self) -> float:
        """The weight of the task in a draw."""
        return max(1.0 - self.score, LEAST_PRIORITY)


class FailureBuffer:
    """The latest failures, by task key. Every operation takes constant time.

    A task is not drawn again until its outcome is known. Otherwise a batch could contain a few tasks many times,
    and simultaneous successes would count as successes in a row.

    Args:
        config: The settings.
    """

    def __init__(self, config: FailureReplayConfig) -> None:
        self.config = config
        self.mastered = 0
        self.come_back = 0
        self._failures: OrderedDict[str, Failure] = OrderedDict()
        """Failures by task key, the oldest failure first."""
        self._ready: list[Failure] = []
        """Failures that may be drawn."""
        self._left: OrderedDict[str, None] = OrderedDict()
        """The keys of the latest mastered tasks, at most `capacity`."""

    def __len__(self) -> int:
        return len(self._failures)

    def draw(self, random: Random) -> Failure | None:
        """Draw a task with a probability proportional to its priority; None if no task may be drawn.

        Uses rejection sampling, which needs at most `1 / LEAST_PRIORITY` tries on average.
        """
        if not self._ready:
            return None
        while True:
            failure = self._ready[random.randrange(len(self._ready))]
            if random.random() < failure.priority:
                self._withdraw(failure)
                return failure

    def record(self, task: Task, stage: str, score: float, solved: bool) -> None:
        """Record the outcome of a task from any source.

        Args:
            task: The task.
            stage: The stage from which it was drawn.
            score: Its score in [0, 1].
            solved: Whether the outcome is a success.
        """
        failed = score < self.config.failure_threshold
        failure = self._failures.get(task.key)
        if failure is None:
            if not failed:
                return
            if task.key in self._left:
                self.come_back += 1
                del self._left[task.key]
            failure = self._failures[task.key] = Failure(task, stage, score)
        if task.visit > failure.task.visit:
            failure.task = task
        failure.score = score
        failure.solved = failure.solved + 1 if solved else 0
        if failed:
            self._failures.move_to_end(task.key)
        if failure.place < 0:
            failure.place = len(self._ready)
            self._ready.append(failure)
        if failure.solved >= MASTERED_AFTER:
            self.mastered += 1
            self._remove(task.key)
            self._left[task.key] = None
            if len(self._left) > self.config.capacity:
                self._left.popitem(last=False)
        elif len(self._failures) > self.config.capacity:
            self._remove(next(iter(self._failures)))

    def metrics(self) -> dict[str, float]:
        """The number of failures, and of the tasks that were mastered or failed again since the run started."""
        return {
            "failure_replay/size": len(self),
            "failure_replay/mastered": self.mastered,
            "failure_replay/come_back": self.come_back,
        }

    def state_dict(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "mastered": self.mastered,
            "come_back": self.come_back,
            "left": list(self._left),
            "failures": [
                {
                    "task": failure.task.to_dict(),
                    "stage": failure.stage,
                    "score": failure.score,
                    "solved": failure.solved,
                    "place": failure.place,
                }
                for failure in self._failures.values()
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state. If it exceeds the capacity, the latest failures are kept."""
        self.mastered, self.come_back = state["mastered"], state["come_back"]
        self._left = OrderedDict.fromkeys(state["left"])
        failures = [Failure(**{**values, "task": task_from_dict(values["task"])}) for values in state["failures"]]
        self._failures = OrderedDict((failure.task.key, failure) for failure in failures)
        self._ready = sorted((failure for failure in failures if failure.place >= 0), key=lambda failure: failure.place)
        while len(self._failures) > self.config.capacity:
            self._remove(next(iter(self._failures)))

    def _remove(self, key: str) -> None:
        failure = self._failures.pop(key)
        if failure.place >= 0:
            self._withdraw(failure)

    def _withdraw(self, failure: Failure) -> None:
        """Remove a failure from `_ready` by moving the last failure to its index."""
        last = self._ready.pop()
        if last is not failure:
            self._ready[failure.place] = last
            last.place = failure.place
        failure.place = -1
