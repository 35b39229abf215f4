"""How often a training run sees each of its tasks, and a note if that is often."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omegaconf import DictConfig

from veritas_rl.checkpoints.origin import TASKS
from veritas_rl.curriculum.mixture import open_sources
from veritas_rl.envs.abilities import CountsQuestions
from veritas_rl.envs.mixture import parts_of
from veritas_rl.envs.registry import get_environment, spread
from veritas_rl.envs.task import Task
from veritas_rl.launch.configuration import dataset_settings

OFTEN = 10
"""A run that sees a task more often than this gets a note."""


@dataclass(frozen=True)
class Visits:
    """How often a run sees the tasks of a case.

    Attributes:
        case: The case.
        draws: The draws of the case in the run.
        tasks: The tasks of the case in the dataset.
        questions: Its different questions; None if there are too many to count.
        cut: Whether `data.train_max_samples` leaves out some of its tasks.
    """

    case: str
    draws: float
    tasks: int
    questions: int | None
    cut: bool

    @property
    def times(self) -> float:
        """The visits of each question."""
        return self.draws / min(self.tasks, self.questions or self.tasks)

    def note(self, adapter: str) -> str:
        """A line that says it, and what to type.

        Args:
            adapter: The key of the settings of the case's environment.
        """
        seen = f"note: this run sees each training task of {self.case} about {self.times:.0f} times, because"
        if self.questions is not None and self.questions <= self.tasks:
            return (
                f"{seen} {self.case} has {self.questions} different ones: a small case can be learned by heart; for "
                "fresh tasks add other cases, or lower trainer.total_training_steps"
            )
        if self.cut:
            return f"{seen} data.train_max_samples leaves {self.tasks}: set data.train_max_samples=-1 for all"
        enough = 2 ** math.ceil(math.log2(self.draws))
        return f"{seen} there are {self.tasks}: set {adapter}.num_tasks_per_case={enough} for fresh tasks"


def notes(configuration: DictConfig, steps: int) -> Iterator[str]:
    """A line for each environment with a case whose tasks the run sees more than about `OFTEN` times.

    Draws of failure replay and of earlier stages do not count. A run may stay in any stage of a curriculum, so the
    stage whose tasks would be seen most often counts.

    Args:
        configuration: The resolved configuration.
        steps: The number of training steps.

    Raises:
        UserError: An environment, a stage or a setting is wrong.
    """
    settings, limit = dataset_settings(configuration), configuration.data.train_max_samples
    parts, sources = parts_of(settings), open_sources(settings).sources
    for part in parts:
        source = sources[part.env]
        fresh = max(0.0, 1 - source.past_share - source.replay_probability)
        share = fresh * part.weight / sum(other.weight for other in parts)
        draws = steps * configuration.data.train_batch_size * share
        most = max((_most_seen(tasks, draws, limit) for tasks in source.tasks.values()), key=lambda seen: seen.times)
        if most.times > OFTEN:
            short = settings.get("environments") is None
            yield most.note(f"{TASKS}.{'adapter_config' if short else f'environments.{part.env}.config'}")


def _most_seen(tasks: Sequence[Task], draws: float, limit: int) -> Visits:
    """The case whose tasks are seen most often, of a stage from which so many tasks are drawn."""
    cases = {task.case: task for task in spread(tasks)}
    kept = min(limit, len(tasks)) if limit >= 0 else len(tasks)
    each, cut = max(1, kept // len(cases)), kept < len(tasks)
    seen = [Visits(case, draws / len(cases), each, _questions(task), cut) for case, task in cases.items()]
    return max(seen, key=lambda visits: visits.times)


def _questions(task: Task) -> int | None:
    """The number of questions of a task's case, if its environment counts them."""
    environment = get_environment(task.env)
    return environment.questions(task) if isinstance(environment, CountsQuestions) else None
