"""The interface of an environment: its tasks, its sessions, and further information for training and judging.

What only some environments can do is in `abilities.py`.

A new environment needs a subclass of `Environment` in its own folder, a line in `registry.ENVIRONMENTS` (or an entry
point of the group `veritas_rl.environments` in another package), and a node of the configuration that names it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from veritas_rl.envs.audit import Audit
from veritas_rl.envs.base import Player, Session, Turn
from veritas_rl.envs.settings import Settings
from veritas_rl.envs.task import Task
from veritas_rl.errors import unknown


def accept(name: str, case: str) -> None:
    """A check for players that can play every case: accept the case."""


@dataclass(frozen=True)
class PlayerKind:
    """A kind of named player, such as "mcts:50".

    Attributes:
        forms: The forms of the name, for users: "mcts", "mcts:SIMS".
        pattern: A regular expression that matches complete names.
        description: A description in one line.
        make: Makes the player of a name with a seed. Raises `UserError` for an invalid name.
        check: Raises `UserError` if the player of a name cannot play a case.
        stand_in: The opponent in training for a case that this kind cannot play; "" for none.
        canonical: The common name of equal players, such as "mcts:50" for "mcts".
        level: The level of an opponent: "easy", "medium" or "hard".
        note: A note on its play in a case, as a sentence; "" for none.
    """

    forms: tuple[str, ...]
    pattern: str
    description: str
    make: Callable[[str, int | str], Player]
    check: Callable[[str, str], None] = accept
    stand_in: str = ""
    canonical: Callable[[str], str] = str
    level: Callable[[str], str] = lambda name: "hard"
    note: Callable[[str, str], str] = lambda name, case: ""


def context_of(task: Task) -> tuple[tuple[str, str], ...]:
    """The setting of a task's context, as a pair of key and value; empty if it is the default."""
    context = task.manner.context
    return (("context", context),) if context != type(task.manner).context else ()


def asked_as(task: Task) -> str:
    """The options with which tools ask a model as a task does."""
    return " ".join([f"--prompt {task.manner.prompt}", *(f"--config {key}={value}" for key, value in context_of(task))])


class Environment(ABC):
    """An environment. A process has one instance, which has no state of a session."""

    name: ClassVar[str]

    config_type: ClassVar[type[Settings]]
    """The settings of users."""

    task_type: ClassVar[type[Task]] = Task
    """The class of the tasks; its annotations give the classes of the tasks' parts."""

    players: ClassVar[tuple[PlayerKind, ...]] = ()
    """The environment's own players, in addition to the players of every environment."""

    teacher: ClassVar[str] = "solution"
    """The name of the player that a fresh model imitates in the warm-up, which teaches the answer format."""

    expert: ClassVar[str] = "solution"
    """The name of the default player of demonstrations."""

    stages: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    """The default stages of a curriculum, in the form of `curriculum.stages`."""

    answers, solved = "answers that could be read", "solved tasks"
    """The names of the reported rates: answers without a mistake, and successes."""

    @abstractmethod
    def catalogue(self, config: Any, split: str) -> Sequence[Task]:
        """The tasks of a configuration, as a lazy sequence, which is cheap to open at any length.

        Args:
            config: An instance of `config_type`.
            split: "train" or "val".
        """

    @abstractmethod
    def start(self, task: Task) -> Session:
        """A new session of a task. Raises `UserError` if a value of the task does not exist."""

    def prepare(self, tasks: Iterable[Task]) -> None:
        """Announce tasks that start soon, so that slow work can run in advance in the background.

        Args:
            tasks: The tasks; an iterator may make them lazily.
        """
        return

    def group(self, task: Task) -> str:
        """The group of a task in the metrics, such as a game or a level. By default the case."""
        return task.case

    def players_of(self, task: Task) -> int:
        """The number of seats of a task. By default one."""
        return 1

    def equivalence_class(self, task: Task, turn: Turn | None = None) -> str:
        """The class of tasks that are equal up to a symmetry. Statistics resample a class together.

        By default every task is its own class.

        Args:
            task: The task.
            turn: A turn of the task: the class is then that of the single-answer task with the turn's question.
        """
        return task.id

    def audit(self) -> Audit:
        """The facts and checks for the linter, see `Audit`."""
        return Audit()

    def held_out(self, task: Task, turn: Turn) -> bool:
        """Whether the question of a turn of `task` belongs to validation, for any seed and up to a symmetry.

        By default whether the task belongs to validation.
        """
        return task.split == "val"

    def read_config(self, values: Mapping[str, Any]) -> Any:
        """The settings with these values, and defaults for the others.

        Raises:
            UserError: A key is unknown, or a value is invalid.
        """
        known = self.config_type.model_fields
        for key in values:
            if key not in known:
                raise unknown(f"{self.name} setting", key, {*known, *self.config_type.user_keys})
        return self.config_type(**values)
