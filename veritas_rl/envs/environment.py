"""The interface of an environment: its tasks, its sessions, and what training and judging need besides.

A new environment is a class like this in a folder, a line in `registry.ENVIRONMENTS` (or an entry point of the group
`veritas_rl.environments` in another package), and a node of the configuration that names it.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from veritas_rl.envs.audit import Audit
from veritas_rl.envs.base import Player, Session, Turn
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError, unknown


def accept(name: str, case: str) -> None:
    """The check of a player that can play every case."""


@dataclass(frozen=True)
class PlayerKind:
    """A kind of player that has a name, such as "mcts:50".

    Attributes:
        forms: How it is typed, for people: "mcts", "mcts:SIMS".
        pattern: A regular expression that matches the whole of each such name.
        description: What it does, in a line.
        make: Makes the player of a name, seeded. Raises `UserError` for a name that cannot work.
        check: Refuses a name and a case that do not fit, with a `UserError`.
        stand_in: Who plays, as an opponent in training, a case that it cannot play; "" for nobody.
        canonical: The one name of players that are the same, such as "mcts:50" of "mcts".
        level: How hard an opponent it is: "easy", "medium" or "hard".
        note: What a reader of results must know of its play in a case, as a sentence; "" for nothing.
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


@dataclass(frozen=True)
class TaskName:
    """By which columns a row of a data set names its task.

    Attributes:
        task_id: The task's id, or the whole number by which people know it.
        task_type: What kind of task it is.
        seed: The seed that it is made from.
    """

    task_id: int | str
    task_type: str
    seed: int


class Environment(ABC):
    """What is played. One instance serves a whole process; it holds no state of any session."""

    name: ClassVar[str]

    config_type: ClassVar[type]
    """A frozen dataclass that validates itself: what a person may configure.

    Every environment has the fields `cases` (names of cases, as a list or with commas, and afterwards a tuple; empty
    for all), `num_tasks_per_case`, `seed` and `prompt`. Most have `reward`, `gamma` and `legal_share`."""

    user_keys: ClassVar[Mapping[str, str]] = {}
    """Keys that people know for fields of `config_type` by another name: {"reward_mode": "reward"}."""

    task_type: ClassVar[type[Task]] = Task
    """The class of the tasks; its annotations say of which classes their parts are."""

    cases_key: ClassVar[str] = "cases"
    """The field of `config_type` that takes cases as people name them on a command line."""

    players: ClassVar[tuple[PlayerKind, ...]] = ()
    """Players of its own, beside those that play everything."""

    teacher: ClassVar[str] = "solution"
    """Whom a model imitates that is made on the spot and knows nothing, by the name of the player: a warm-up on its
    replies teaches the answer format."""

    expert: ClassVar[str] = "solution"
    """Who demonstrates where nobody is named, by the name of the player."""

    demonstrated: ClassVar[str] = ""
    """The cases that are demonstrated where none is named, as people name them; "" for all."""

    single: ClassVar[Mapping[str, Any]] = {}
    """The fields of `config_type` that make tasks of one answer each, valued as exactly as can be: what a model is
    warmed up on and judged by, whatever the run trains on."""

    stages: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    """The stages of a curriculum where none are named, as `curriculum.stages` takes them."""

    selecting_keys: ClassVar[tuple[str, ...]] = ("cases",)
    """The fields of `config_type` that say what is played. A stage that sets one takes over none of the others."""

    answers, solved = "answers that could be read", "solved tasks"
    """What is counted of a model: answers that are no mistake, and successes."""

    estimated: ClassVar[str] = ""
    """What successes are called where the value of an answer is an estimate; "" where none is."""

    @abstractmethod
    def catalogue(self, config: Any, split: str) -> Sequence[Task]:
        """The tasks that a configuration describes, lazily: opening costs nothing, whatever the length.

        Args:
            config: An instance of `config_type`.
            split: "train" or "val".
        """

    @abstractmethod
    def start(self, task: Task) -> Session:
        """A fresh session of a task. Raises `UserError` where the task names what does not exist."""

    def start_by_ids(self, task: Task) -> Session:
        """A fresh session of a task that is answered by the numbers of its actions, as affinetes' clients expect it.

        Raises:
            UserError: As `start`; by default the environment has no such sessions.
        """
        raise UserError(f"{self.name} has no sessions that are answered by ids")

    def prepare(self, tasks: Iterable[Task]) -> None:
        """A hint that these tasks are started soon. What takes long can be made ahead, in the background.

        Args:
            tasks: They are made as they are read.
        """
        return

    def group(self, task: Task) -> str:
        """By what metrics are grouped: a game, a level. By default the case."""
        return task.case

    def name_of(self, task: Task) -> TaskName:
        """How a data set names a task. By default by its id, its case and the seed of the set of tasks."""
        return TaskName(task.id, task.case, task.seed)

    def settings_from(self, task_id: int, count: int) -> Mapping[str, Any]:
        """The fields of `config_type` whose tasks are consecutive ones, from a whole number on that names a task.

        Args:
            task_id: The number of the first.
            count: How many there must be.

        Raises:
            UserError: No task has one of the numbers. By default tasks have none.
        """
        raise UserError(f"tasks of {self.name} have no numbers: leave --start-task-id out")

    def words(self, cases: Iterable[str]) -> Sequence[str]:
        """What the brief prompts and the answers of some cases are made of beside single characters.

        A model that is made on the spot reads each as one token. By default there are none.
        """
        return ()

    def players_of(self, task: Task) -> int:
        """How many seats a task has. By default one."""
        return 1

    def equivalence_class(self, task: Task) -> str:
        """Equal for tasks that ask the same up to a symmetry. Statistics resample such tasks together.

        By default every task stands alone.
        """
        return task.id

    def audit(self) -> Audit:
        """What a linter may ask; see `Audit`."""
        return Audit()

    def perturbations(self, task: Task) -> Mapping[str, str]:
        """The ways to show a task differently while it stays the same problem, each with what it changes, in words.

        A model that has learned answers by heart loses by them. By default there are none.
        """
        return {}

    def start_perturbed(self, task: Task, name: str, seed: int | str = 0) -> Session:
        """A fresh session of a task in one of its `perturbations`, which the seed may draw.

        Raises:
            UserError: The task has no such perturbation.
        """
        raise unknown("perturbation", name, self.perturbations(task))

    def turn_class(self, task: Task, turn: Turn) -> str:
        """`equivalence_class` of the single-answer task that would ask what a turn of `task` asks.

        By default that of the task itself.
        """
        return self.equivalence_class(task)

    def held_out(self, task: Task, turn: Turn) -> bool:
        """Whether validation asks, whatever its seed, what a turn of `task` asks, up to a symmetry.

        By default whether the task belongs to validation.
        """
        return task.split == "val"

    @property
    def settings(self) -> frozenset[str]:
        """The names of the fields of `config_type`."""
        return frozenset(field.name for field in dataclasses.fields(self.config_type))

    def next_step(self, cases: Collection[str]) -> tuple[str, str]:
        """What a person may try after a training run: in words, and the command.

        Args:
            cases: What was trained on.
        """
        trainer = "bash train/scripts/openspiel-ppo-trainer.sh"
        return (
            "a longer run, on the same machine or on one with GPUs",
            f"{trainer} data.custom_cls.config.env={self.name} trainer.total_training_steps=200",
        )

    def small_model_warnings(self, cases: Collection[str]) -> Sequence[str]:
        """A line for each case on which the small model of the CPU settings is known to learn nothing.

        Args:
            cases: What it would be trained on.
        """
        return ()

    def read_config(self, values: Mapping[str, Any]) -> Any:
        """The configuration with these values of its fields.

        Raises:
            UserError: A key is unknown, or a value is refused.
        """
        for key in values:
            if key not in self.settings:
                raise unknown(f"{self.name} setting", key, {*self.settings, *self.user_keys})
        return self.config_type(**values)
