"""What some environments can do beyond `Environment`. An environment has an ability if it has all of its methods."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from veritas_rl.envs.base import Session, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError


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


@runtime_checkable
class NamesTasks(Protocol):
    """Its tasks have names of their own in datasets."""

    def name_of(self, task: Task) -> TaskName:
        """The columns that name a task in a dataset."""
        ...


def name_of(environment: object, task: Task) -> TaskName:
    """The columns that name a task in a dataset. By default its id, its case and the seed of the set of tasks."""
    return environment.name_of(task) if isinstance(environment, NamesTasks) else TaskName(task.id, task.case, task.seed)


@runtime_checkable
class RefusesCases(Protocol):
    """It has cases, known by name, that cannot be used."""

    def refused(self) -> Mapping[str, str]:
        """The cases that cannot be used, or beginnings of their names, and why."""
        ...


def refused(environment: object) -> Mapping[str, str]:
    """The cases that cannot be used, and why."""
    return environment.refused() if isinstance(environment, RefusesCases) else {}


@runtime_checkable
class NumbersTasks(Protocol):
    """Its tasks have numbers."""

    def settings_from(self, task_id: int, count: int) -> Mapping[str, Any]:
        """The settings for consecutive task numbers.

        Args:
            task_id: The number of the first task.
            count: The number of tasks.

        Raises:
            UserError: A number has no task.
        """
        ...


@runtime_checkable
class AnsweredByIds(Protocol):
    """Its games can be answered by action numbers, as affinetes' clients expect."""

    def start_by_ids(self, task: Task) -> Session:
        """A new session of a task. Raises `UserError` as `Environment.start`, or if the task has no such session."""
        ...


@runtime_checkable
class Perturbs(Protocol):
    """It shows tasks differently without changing the problem. A model that memorized answers is then worse."""

    def perturbations(self, task: Task) -> Mapping[str, str]:
        """The perturbations of a task, with descriptions."""
        ...

    def start_perturbed(self, task: Task, name: str, seed: int | str = 0) -> Session:
        """A new session of a task in one of its `perturbations`, drawn from the seed if it is random."""
        ...


def perturbations(environment: object, task: Task) -> Mapping[str, str]:
    """The perturbations of a task, with descriptions; none without this ability."""
    return environment.perturbations(task) if isinstance(environment, Perturbs) else {}


@runtime_checkable
class Surveys(Protocol):
    """It can look through what tasks are made of before they are used, such as a user's programs."""

    def survey(self, tasks: Iterable[Task], progress: Callable[[str, int, int], None]) -> Sequence[str]:
        """Say what of the material of tasks cannot be used, in a line for each finding.

        Args:
            tasks: The tasks, or some tasks of each case.
            progress: Called with the singular name of a thing, the number of things that were looked at, and their
                total.

        Raises:
            UserError: A case has nothing that can be used.
        """
        ...


@runtime_checkable
class CountsQuestions(Protocol):
    """It knows how many questions a case has."""

    def questions(self, task: Task) -> int | None:
        """The number of different questions of a task's case and split; None if there are too many to count."""
        ...


@runtime_checkable
class ListsDecisions(Protocol):
    """It lists every decision of a small game, and values the answers to them under a policy."""

    def decisions(self, task: Task) -> Sequence[Session]:
        """A session of one turn for each decision of all seats of a whole game, always in the same order.

        Raises:
            UserError: The task's game is too large, or of a kind whose decisions have no values.
        """
        ...

    def valued(
        self, case: str, policy: Sequence[Sequence[float]]
    ) -> tuple[Sequence[Sequence[float]], Mapping[str, float]]:
        """The value of each answer to each decision, if all seats follow a policy, and what the policy is worth.

        Args:
            case: The case of a task of which `decisions` were listed.
            policy: For each decision the probability of each of its turn's answers. They sum to 1.

        Returns:
            For each decision the expected value in [0, 1] of each answer for its seat, given that the decision is
            reached; and measures of the policy by name.
        """
        ...


def listed(environment: Environment, task: Task) -> Sequence[Turn]:
    """The turn of a single move, or of every decision of a whole game against itself, with all legal answers.

    Raises:
        UserError: The decisions or the answers cannot be listed.
    """
    needed = "this algorithm trains on all answers to a decision, and"
    if task.mode == "move":
        sessions = [environment.start(task)]
    elif task.manner.opponent != "self":
        raise UserError(f"{needed} in whole games to all decisions of both seats: set adapter_config.opponent=self")
    elif isinstance(environment, ListsDecisions):
        sessions = environment.decisions(task)
    else:
        raise UserError(f"{needed} {task.env} cannot list the decisions of whole games: set algorithm=rae")
    turns = [turn for session in sessions for turn in session.turns()]
    if not all(turn.answers for turn in turns):
        raise UserError(f"{needed} the answers of {task.env}, {task.case}, cannot be listed: set algorithm=grpo")
    return turns


@runtime_checkable
class Estimates(Protocol):
    """Some of its values are estimates.

    Attributes:
        estimated: The name of successes among them.
    """

    estimated: str


def solved_by(environment: Environment | type[Environment], exact: bool) -> str:
    """The name of successes.

    Args:
        environment: The environment.
        exact: Whether no value is an estimate.
    """
    return environment.estimated if not exact and isinstance(environment, Estimates) else environment.solved


@runtime_checkable
class KnowsWords(Protocol):
    """It knows the words of its brief prompts and answers, each of which is one token of the small model."""

    def words(self, cases: Iterable[str]) -> Sequence[str]:
        """The words in brief prompts and answers of some cases that need their own token, besides single characters."""
        ...


@runtime_checkable
class WarnsOfSmallModels(Protocol):
    """It knows cases on which the small model of the CPU settings learns nothing."""

    def small_model_warnings(self, cases: Collection[str]) -> Sequence[str]:
        """A line for each case on which the small model is known to learn nothing."""
        ...


@runtime_checkable
class SetsSmallModelSteps(Protocol):
    """It knows how long the small model of the CPU settings learns its cases."""

    def small_model_steps(self, cases: Collection[str]) -> int | None:
        """The training steps of single moves for the small model; None for the usual number."""
        ...


@runtime_checkable
class SuggestsRuns(Protocol):
    """It suggests what to train next."""

    def next_step(self, cases: Collection[str]) -> tuple[str, str]:
        """A suggestion after a training run on some cases, in words and as a command."""
        ...


@runtime_checkable
class SuggestsTrials(Protocol):
    """It suggests what to try with a trained model, besides judging it."""

    def trials(self, task: Task, model: str) -> Sequence[tuple[str, str]]:
        """What else to try, each in words and as a command.

        Args:
            task: A trained task.
            model: The model's folder.
        """
        ...
