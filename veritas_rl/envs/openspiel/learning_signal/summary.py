"""Aggregate the tasks of a case, and measure the cases of a configuration in order."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from typing import Any

from veritas_rl.envs.openspiel.catalogue import Catalogue
from veritas_rl.envs.openspiel.config import OpenSpielConfig
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.openspiel.learning_signal import statistics
from veritas_rl.envs.openspiel.learning_signal.measure import BATCHES, Job, TaskSignal, measure_task
from veritas_rl.envs.openspiel.task import OpenSpielTask
from veritas_rl.envs.registry import named_settings
from veritas_rl.envs.task import MODES, check_choice, check_least
from veritas_rl.errors import UserError
from veritas_rl.parallel import Workers

REWARDS = ("outcome", "optimal")
"""The rewards that value a move; "legal" pays the same for all."""


@dataclass(frozen=True)
class Settings:
    """The settings of a measurement, without the cases.

    Attributes:
        tasks: Tasks of each case.
        playouts: Fresh playouts of each move; a multiple of `BATCHES`.
        moves: The maximum number of measured legal moves of a task, evenly spread; None for all.
        reward: "outcome" or "optimal".
        mode: "move", or "episode" for decisions of whole games between random players.
        seed: The seed of the set of tasks.
        nodes: The maximum number of states in a search for the true values of a position.
        config: Other settings of the environment, by name.

    Raises:
        UserError: A value is invalid; the message names it and a valid one.
    """

    tasks: int = 200
    playouts: int = 128
    moves: int | None = None
    reward: str = "outcome"
    mode: str = "move"
    seed: int = 42
    nodes: int = 40_000
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_least("tasks", self.tasks, 1)
        check_least("nodes", self.nodes, 0)
        if self.moves is not None:
            check_least("moves", self.moves, 2)
        check_choice("reward", self.reward, REWARDS)
        check_choice("mode", self.mode, MODES)
        if self.playouts < BATCHES or self.playouts % BATCHES:
            raise UserError(f"playouts must be a multiple of {BATCHES}, {self.playouts} was given; 128 is usual")

    def catalogue(self, cases: Sequence[str]) -> Catalogue:
        """The training tasks of these cases, named as in GAME_TYPES; of all default cases if none is named.

        Raises:
            UserError: A case or a setting is wrong.
        """
        own = {
            "num_tasks_per_case": self.tasks,
            "reward": self.reward,
            "mode": self.mode,
            "seed": self.seed,
            "game_types": tuple(cases),
        }
        environment = OpenSpielEnvironment()
        given = named_settings(environment, self.config)
        for key in given:
            if key in own:
                raise UserError(f"--config {key} has an option of its own; leave it out of --config")
        config: OpenSpielConfig = environment.read_config(given | own)
        if config.allowed_game_indices or config.task_ids:
            raise UserError("tasks are chosen by --cases and --tasks; leave out allowed_game_indices and task_ids")
        environment.catalogue(config, "train")  # raises an error if no state is within the depth
        return Catalogue(config, "train")


@dataclass(frozen=True)
class Measures:
    """The measurements of at least one task. Package `learning_signal` defines the terms.

    Attributes:
        tasks: The number of measured tasks.
        forced: The number of tasks with one legal move.
        tested: The number of tasks decided by the test; the other unforced ones have exact values.
        differ: The number of tasks whose moves really differ.
        tested_differ: The number of tested tasks whose moves really differ.
        spread: The mean spread of the unforced tasks; None without any.
        halves: The correlation of two halves; None without tested tasks, or if a half never differs.
        known: The number of unforced tasks with known true values.
        mistakes: The share of best-paid moves that are mistakes, over the tasks with known values; None without any.
        regret: The mean loss of the best-paid move, in units of return; None if `mistakes` is None.
        fixed: The number of tasks in which all moves have the same `success`; None for whole games.
        always: The number of these in which every move succeeds; None for whole games.
        sources: The number of tasks by the source of their values.
        seconds: The mean CPU time of a task.
        worst: The longest CPU time of a task.
    """

    tasks: int
    forced: int
    tested: int
    differ: int
    tested_differ: int
    spread: float | None
    halves: float | None
    known: int
    mistakes: float | None
    regret: float | None
    fixed: int | None
    always: int | None
    sources: Mapping[str, int]
    seconds: float
    worst: float

    @property
    def share(self) -> float:
        """The share of all tasks, including forced ones, whose moves really differ."""
        return self.differ / self.tasks

    @property
    def error(self) -> float:
        """The standard error of `share`."""
        return statistics.error_of_share(self.differ, self.tasks)

    @property
    def false(self) -> float:
        """The expected number of false positives among the tasks that differ."""
        return statistics.expected_false(self.tested_differ, self.tested)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, including derived ones."""
        return asdict(self) | {"share": self.share, "error": self.error, "false": self.false}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Measures":
        """The inverse of `to_dict`."""
        own: dict[str, Any] = {name: values[name] for name in cls.__dataclass_fields__}
        return cls(**own)

    @classmethod
    def of(cls, signals: Sequence[TaskSignal]) -> "Measures":
        """The measures of these tasks."""
        unforced = [signal for signal in signals if not signal.forced]
        tested = [signal for signal in unforced if signal.tested]
        successes = [(signal.successes, signal.actions) for signal in signals if signal.successes is not None]
        return cls(
            tasks=len(signals),
            forced=len(signals) - len(unforced),
            tested=len(tested),
            differ=sum(signal.differs for signal in signals),
            tested_differ=sum(signal.differs for signal in tested),
            spread=_mean([signal.spread for signal in unforced]),
            halves=statistics.correlation(signal.halves for signal in tested if signal.halves is not None),
            known=sum(signal.truth for signal in signals),
            mistakes=_mean([signal.mistake for signal in unforced]),
            regret=_mean([signal.regret for signal in unforced]),
            fixed=sum(good in (0, actions) for good, actions in successes) if successes else None,
            always=sum(good == actions for good, actions in successes) if successes else None,
            sources=dict(sorted(Counter(signal.source for signal in signals).items())),
            seconds=math.fsum(signal.seconds for signal in signals) / len(signals),
            worst=max(signal.seconds for signal in signals),
        )


@dataclass(frozen=True)
class CaseSignal:
    """The measurements of a case.

    Attributes:
        case: The case.
        whole: The measures of all its tasks.
        thirds: The measures of the tasks in each third of the game; None for a third without tasks.
    """

    case: str
    whole: Measures
    thirds: tuple[Measures | None, ...]

    def to_dict(self) -> dict[str, Any]:
        """The case as plain values: the measures of all its tasks, and under `thirds` the measures of each third."""
        thirds = [part and part.to_dict() for part in self.thirds]
        return {"case": self.case} | self.whole.to_dict() | {"thirds": thirds}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "CaseSignal":
        """The case that `to_dict` wrote."""
        thirds = tuple(None if part is None else Measures.from_dict(part) for part in values["thirds"])
        return cls(values["case"], Measures.from_dict(values), thirds)


def sum_up(case: str, signals: Sequence[TaskSignal]) -> CaseSignal:
    """The measurements of a case from at least one task."""
    parts = [[signal for signal in signals if signal.third == third] for third in range(3)]
    return CaseSignal(case, Measures.of(signals), tuple(Measures.of(part) if part else None for part in parts))


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are not None; None without any."""
    there = [value for value in values if value is not None]
    return math.fsum(there) / len(there) if there else None


def jobs_of(settings: Settings, cases: Sequence[str]) -> dict[str, list[Job]]:
    """The tasks to measure, by case.

    Raises:
        UserError: As `Settings.catalogue`.
    """
    jobs: dict[str, list[Job]] = {}
    for task in settings.catalogue(cases):
        jobs.setdefault(task.case, []).append(
            Job(OpenSpielTask.of(task), settings.playouts, settings.nodes, settings.moves)
        )
    return jobs


def measure(
    jobs: Mapping[str, Sequence[Job]], workers: Workers, advance: Callable[[], None] = lambda: None
) -> Iterator[CaseSignal]:
    """Measure cases in order. Only the seconds depend on the number of workers.

    Args:
        jobs: The tasks of each case.
        workers: The workers that share all tasks.
        advance: Called with each finished task.
    """
    signals = workers.map(measure_task, chain.from_iterable(jobs.values()))
    for case, of in jobs.items():
        measured = []
        for signal in islice(signals, len(of)):
            measured.append(signal)
            advance()
        yield sum_up(case, measured)
