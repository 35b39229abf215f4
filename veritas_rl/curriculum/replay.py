"""Failures that are asked again until they are mastered.

After prioritized experience replay (Schaul et al., 2016), with tasks in the place of transitions: the worse the newest
score of a task, the more often it comes back.
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
"""How many successes in a row a task leaves after."""

LEAST_PRIORITY = 0.1
"""Of a task that was solved once: at 0 it would not be asked a second time. It also bounds the tries of a draw."""


@dataclass(frozen=True)
class FailureReplayConfig:
    """The keys of `failure_replay`.

    Attributes:
        failure_threshold: A task that scores below it is a failure.
        capacity: How many failures are kept, the latest of them.
        probability: How often a task is drawn from them.

    Raises:
        UserError: A value cannot work; the message says which, and what would.
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
        task: It, with the number of its latest visit.
        stage: From which stage it was drawn when it failed.
        score: Its newest, in [0, 1].
        solved: How many times in a row, up to now.
        place: Where it stands among those that may be drawn; -1 while it is being played.
    """

    task: Task
    stage: str
    score: float
    solved: int = 0
    place: int = -1

    @property
    def priority(self) -> float:
        """How often it is drawn, beside others."""
        return max(1.0 - self.score, LEAST_PRIORITY)


class FailureBuffer:
    """The latest failures, by task key. Every operation costs the same, however many there are.

    A task that was drawn is not drawn again until its outcome is known: a batch would else hold a few tasks many times
    over, and two successes of the same moment would count as two in a row.

    Args:
        config: Its settings.
    """

    def __init__(self, config: FailureReplayConfig) -> None:
        self.config = config
        self.mastered = 0
        self.come_back = 0
        self._failures: OrderedDict[str, Failure] = OrderedDict()
        """By task key, the one that failed longest ago first."""
        self._ready: list[Failure] = []
        """Those that may be drawn."""
        self._left: OrderedDict[str, None] = OrderedDict()
        """The keys of the latest that were mastered, as many as are kept of failures."""

    def __len__(self) -> int:
        return len(self._failures)

    def draw(self, random: Random) -> Failure | None:
        """A task with a chance in proportion to its priority, or None if none may be drawn.

        By rejection: a place is chosen evenly and taken with the probability of its priority, which needs no sums. It
        takes `1 / LEAST_PRIORITY` tries on average at most.
        """
        if not self._ready:
            return None
        while True:
            failure = self._ready[random.randrange(len(self._ready))]
            if random.random() < failure.priority:
                self._withdraw(failure)
                return failure

    def record(self, task: Task, stage: str, score: float, solved: bool) -> None:
        """Take in how a task was played, whether it was drawn here or not.

        Args:
            task: It.
            stage: From which stage it was drawn.
            score: In [0, 1].
            solved: Whether that counts as a success.
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
        """How many there are, and how many were mastered and came back since the run began."""
        return {
            "failure_replay/size": len(self),
            "failure_replay/mastered": self.mastered,
            "failure_replay/come_back": self.come_back,
        }

    def state_dict(self) -> dict[str, Any]:
        """All that it holds, as plain values."""
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
        """Hold what a state holds; of more than the capacity, the latest."""
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
        """Take a failure out of those that may be drawn; the last of them takes its place."""
        last = self._ready.pop()
        if last is not failure:
            self._ready[failure.place] = last
            last.place = failure.place
        failure.place = -1
