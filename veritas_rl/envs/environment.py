"""The interface of an environment: its tasks, its sessions, and further information for training and judging.

A new environment needs a subclass of `Environment` in its own folder, a line in `registry.ENVIRONMENTS` (or an entry
point of the group `veritas_rl.environments` in another package), and a node of the configuration that names it.
"""

import dataclasses
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from veritas_rl.envs.audit import Audit
from veritas_rl.envs.base import Player, Session, Turn
from veritas_rl.envs.places import as_typed
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError, unknown


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


@dataclass(frozen=True)
class TaskName:
    """The columns of a dataset's row that name its task.

    Attributes:
        task_id: The task's id or number.
        task_type: The type of the task.
        seed: The seed of the task.
    """

    task_id: int | str
    task_type: str
    seed: int


class Environment(ABC):
    """An environment. A process has one instance, which has no state of a session."""

    name: ClassVar[str]

    config_type: ClassVar[type]
    """The settings of users, a frozen dataclass that validates itself.

    Every environment has the fields `cases`, `num_tasks_per_case`, `seed` and `prompt`. `cases` contains names of
    cases, as a list or a text with commas, which becomes a tuple; empty for all. Most environments have `reward`,
    `gamma` and `legal_share`."""

    user_keys: ClassVar[Mapping[str, str]] = {}
    """Users' names of fields of `config_type` with different names, such as {"reward_mode": "reward"}."""

    task_type: ClassVar[type[Task]] = Task
    """The class of the tasks; its annotations give the classes of the tasks' parts."""

    cases_key: ClassVar[str] = "cases"
    """The field of `config_type` for the cases that users name on a command line."""

    players: ClassVar[tuple[PlayerKind, ...]] = ()
    """The environment's own players, in addition to the players of every environment."""

    teacher: ClassVar[str] = "solution"
    """The name of the player that a fresh model imitates in the warm-up, which teaches the answer format."""

    expert: ClassVar[str] = "solution"
    """The name of the default player of demonstrations."""

    demonstrated: ClassVar[str] = ""
    """The default cases of demonstrations, as users name them; "" for all."""

    single: ClassVar[Mapping[str, Any]] = {}
    """The fields of `config_type` for single-answer tasks with the most exact values. The warm-up and the evaluation of
    a model use these tasks in every run."""

    judged: ClassVar[Mapping[str, Any]] = {}
    """Further fields of `config_type` for the held-out tasks that judge a run, which the run's own settings do not
    change."""

    stages: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    """The default stages of a curriculum, in the form of `curriculum.stages`."""

    selecting_keys: ClassVar[tuple[str, ...]] = ("cases",)
    """The fields of `config_type` that select cases. A stage that sets one of these fields inherits none of them."""

    answers, solved = "answers that could be read", "solved tasks"
    """The names of the reported rates: answers without a mistake, and successes."""

    estimated: ClassVar[str] = ""
    """The name of successes if values are estimates; "" if no value is an estimate."""

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

    def start_by_ids(self, task: Task) -> Session:
        """A new session of a task that is answered by action numbers, as affinetes' clients expect.

        Raises:
            UserError: As for `start`, or the environment has no such sessions, as by default.
        """
        raise UserError(f"{self.name} has no sessions that are answered by ids; use the protocol boxed")

    def prepare(self, tasks: Iterable[Task]) -> None:
        """Announce tasks that start soon, so that slow work can run in advance in the background.

        Args:
            tasks: The tasks; an iterator may make them lazily.
        """
        return

    def survey(self, tasks: Iterable[Task], progress: Callable[[str, int, int], None]) -> Sequence[str]:
        """Look through what tasks are made of, before they are used, and say what of it cannot be used.

        Args:
            tasks: The tasks, or some tasks of each case.
            progress: Called with the singular name of a thing, the number of things that were looked at, and their
                total.

        Returns:
            A line for each finding. By default there are none.

        Raises:
            UserError: A case has nothing that can be used.
        """
        return ()

    def questions(self, task: Task) -> int | None:
        """The number of different questions of a task's case and split; None if there are too many to count."""
        return None

    def group(self, task: Task) -> str:
        """The group of a task in the metrics, such as a game or a level. By default the case."""
        return task.case

    def name_of(self, task: Task) -> TaskName:
        """The columns that name a task in a dataset. By default its id, its case and the seed of the set of tasks."""
        return TaskName(task.id, task.case, task.seed)

    def settings_from(self, task_id: int, count: int) -> Mapping[str, Any]:
        """The fields of `config_type` for consecutive task numbers.

        Args:
            task_id: The number of the first task.
            count: The number of tasks.

        Raises:
            UserError: A number has no task; by default, tasks have no numbers.
        """
        raise UserError(f"tasks of {self.name} have no numbers; leave out --start-task-id and task_id")

    def words(self, cases: Iterable[str]) -> Sequence[str]:
        """The words in brief prompts and answers of some cases that need their own token, besides single characters.

        A fresh model has one token for each word. By default there are none.
        """
        return ()

    def players_of(self, task: Task) -> int:
        """The number of seats of a task. By default one."""
        return 1

    def equivalence_class(self, task: Task) -> str:
        """The class of tasks that are equal up to a symmetry. Statistics resample a class together.

        By default every task is its own class.
        """
        return task.id

    def audit(self) -> Audit:
        """The facts and checks for the linter, see `Audit`."""
        return Audit()

    def perturbations(self, task: Task) -> Mapping[str, str]:
        """The perturbations of a task, with descriptions. By default there are none.

        A perturbation shows a task differently without changing the problem. A model that memorized answers is worse on
        perturbed tasks.
        """
        return {}

    def start_perturbed(self, task: Task, name: str, seed: int | str = 0) -> Session:
        """A new session of a task in one of its `perturbations`, drawn from the seed if it is random.

        Raises:
            UserError: The task has no such perturbation.
        """
        raise unknown("perturbation", name, self.perturbations(task))

    def turn_class(self, task: Task, turn: Turn) -> str:
        """The `equivalence_class` of the single-answer task with the question of a turn of `task`.

        By default the class of the task itself.
        """
        return self.equivalence_class(task)

    def held_out(self, task: Task, turn: Turn) -> bool:
        """Whether the question of a turn of `task` belongs to validation, for any seed and up to a symmetry.

        By default whether the task belongs to validation.
        """
        return task.split == "val"

    @property
    def settings(self) -> frozenset[str]:
        """The names of the fields of `config_type`."""
        return frozenset(field.name for field in dataclasses.fields(self.config_type))

    def next_step(self, cases: Collection[str]) -> tuple[str, str]:
        """A suggestion after a training run, in words and as a command.

        Args:
            cases: The trained cases.
        """
        trainer = "bash train/scripts/openspiel-ppo-trainer.sh"
        return (
            "a longer run, on the same machine or on one with GPUs",
            f"{trainer} environment={shlex.quote(as_typed(self.name))} trainer.total_training_steps=200",
        )

    def trials(self, task: Task, model: str) -> Sequence[tuple[str, str]]:
        """What to try with a trained model, each in words and as a command.

        Args:
            task: A trained task.
            model: The model's folder.
        """
        options = f"--checkpoint {shlex.quote(model)} --env {shlex.quote(as_typed(self.name))}"
        options += f" --games {shlex.quote(task.case)}"
        return [("judge the trained model", f"python train/tools/evaluate.py {options} {asked_as(task)}")]

    def small_model_warnings(self, cases: Collection[str]) -> Sequence[str]:
        """A line for each case on which the small model of the CPU settings is known to learn nothing.

        Args:
            cases: The cases of the planned training.
        """
        return ()

    def small_model_steps(self, cases: Collection[str]) -> int | None:
        """The training steps of single moves for the small model of the CPU settings; None for the usual number.

        Args:
            cases: The cases of the planned training.
        """
        return None

    def read_config(self, values: Mapping[str, Any]) -> Any:
        """The configuration with these values of its fields, and defaults for the other fields.

        Raises:
            UserError: A key is unknown, or a value is invalid.
        """
        for key in values:
            if key not in self.settings:
                raise unknown(f"{self.name} setting", key, {*self.settings, *self.user_keys})
        return self.config_type(**values)
