"""An environment behind a server of OpenEnv: `env=openenv:http://127.0.0.1:8000`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from veritas_rl.configs import split_list
from veritas_rl.envs.abilities import TaskName
from veritas_rl.envs.base import Session
from veritas_rl.envs.openenv.connection import Connection, Refused
from veritas_rl.envs.openenv.schema import action_field, check_seeds, question_of
from veritas_rl.envs.remote import RemoteConfig, RemoteEnvironment, RemoteManner, RemoteSession, Shown
from veritas_rl.envs.settings import at_least
from veritas_rl.envs.single import CaseTasks
from veritas_rl.envs.task import SPLITS, Parameters, Pay, Task, check_choice, check_least
from veritas_rl.errors import UserError

PAID = ("last", "sum")


def _reset(given: Any) -> str:
    """The data of a reset as JSON, from a mapping, JSON, or a text such as "case=hex,opponent=random"."""
    if isinstance(given, str) and not given.lstrip().startswith("{"):
        pairs = [pair.partition("=") for pair in split_list(given, "reset")]
        given = {key.strip(): value.strip() for key, _, value in pairs}
    try:
        known = json.loads(given) if isinstance(given, str) else dict(given or {})
    except (ValueError, TypeError):
        known = None
    if not isinstance(known, dict) or not all(known) or "seed" in known:
        raise UserError(
            f"reset must have fields of a reset other than seed, such as case=hex,opponent=random; {given!r} was given"
        )
    return json.dumps(known, sort_keys=True) if known else ""


@dataclass(frozen=True)
class OpenEnvParameters(Parameters):
    """The environment's own part of the identity.

    Attributes:
        reset: Further data of each reset, as JSON; "" for none.
    """

    reset: str = ""


@dataclass(frozen=True)
class OpenEnvManner(RemoteManner):
    """The fields of actions and observations, and the limits.

    Attributes:
        action_field: The field of an action that is the reply; "" for the only text that an action must have.
        question_field: The field of an observation that is the question; "" for the usual one, see
            `schema.question_of`.
        ignores_seeds: 1 if equal seeds need not be equal tasks.
        steps: The steps after which a session is over; 0 if the server ends it.
    """

    action_field: str = ""
    question_field: str = ""
    ignores_seeds: int = 0
    steps: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least("steps", self.steps, 0)


@dataclass(frozen=True)
class OpenEnvPay(Pay):
    """The pay of a session, which the server decides.

    Attributes:
        paid: Whether the "last" reward or their "sum" is paid.
    """

    rewards: ClassVar[tuple[str, ...]] = ("outcome",)

    paid: str = "last"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("paid", self.paid, PAID)


@dataclass(frozen=True)
class OpenEnvTask(Task):
    """One session of a server; its case is the server's address."""

    mode: str = "episode"
    parameters: OpenEnvParameters = OpenEnvParameters()
    manner: OpenEnvManner = OpenEnvManner()
    pay: OpenEnvPay = OpenEnvPay()


class OpenEnvConfig(RemoteConfig):
    """The settings of the sessions of a server.

    Attributes:
        cases: The addresses of servers, as a list or a text with commas.
        seed: The seed of the set of tasks. Each task has a seed of its own, which is sent with its reset.
        prompt: Only "full", because the server writes the prompts.
        context: "conversation" is one growing chat; "turn" trains each reply separately, with the earlier chat as its
            prompt.
        reset: Further fields of each reset, such as case=hex,opponent=random, or a mapping.
        action_field: The field of an action that is the reply; "" for the only text that an action must have.
        question_field: The field of an observation that is the question; "" for text, prompt, question, content or
            message, the only text, or all fields as JSON.
        paid: "last": the last reward of a session, clipped to [0, 1]; "sum": the sum of its rewards.
        ignores_seeds: Whether a server is used whose tasks differ for equal seeds. Its sessions cannot be played again
            after a lost connection.
        seconds: The most seconds for one call of the server.
        most_steps: The most steps of a session; a longer session ends as unfinished and pays 0.
        steps: The steps after which a session is over and paid, for a server that ends none; 0 if the server ends it.
        reward: Only "outcome".
        gamma: The discount of the reward for each later reply.

    Raises:
        UserError: A value is invalid; the message names a valid one.
    """

    protocol: ClassVar[str] = "openenv"
    part_types = (OpenEnvParameters, OpenEnvManner, OpenEnvPay)

    reset: Annotated[str, BeforeValidator(_reset)] = ""
    action_field: str = ""
    question_field: str = ""
    paid: str = "last"
    ignores_seeds: bool = False
    steps: Annotated[int, at_least(0)] = 0


class OpenEnvEnvironment(RemoteEnvironment):
    """The sessions of a server of OpenEnv.

    Args:
        address: The address of the default server.
    """

    name: ClassVar[str] = "openenv"
    config_type = OpenEnvConfig
    task_type: ClassVar[type[Task]] = OpenEnvTask

    def catalogue(self, config: OpenEnvConfig, split: str) -> Sequence[Task]:
        """The tasks: `num_tasks_per_case` of each server, server by server."""
        check_choice("split", split, SPLITS)
        parameters, pay = config.part(OpenEnvParameters), config.part(OpenEnvPay)
        manner = config.part(OpenEnvManner, seat=0, ignores_seeds=int(config.ignores_seeds))

        def make(case: str, k: int) -> OpenEnvTask:
            parts: dict[str, Any] = {"parameters": parameters, "manner": manner, "pay": pay}
            return OpenEnvTask(self.name, case, k, seed=config.seed, split=split, **parts)

        return CaseTasks(config.cases, config.num_tasks_per_case, make)

    def start(self, task: Task) -> Session:
        """A new session on the server.

        Raises:
            UserError: The task belongs to another environment; the server starts no session, takes no text, or shows
                another task for the same seed.
        """
        if not isinstance(task, OpenEnvTask):
            raise UserError(f"{task.id} is no task of a server of OpenEnv")
        return RemoteSession(task, task.manner, _Played(task))

    def name_of(self, task: Task) -> TaskName:
        """The seed of the task's reset, and the server's address."""
        assert isinstance(task, OpenEnvTask)
        return TaskName(task.k, task.case, task.library_seed)


class _Played:
    """A session on a server.

    Args:
        task: The task.
    """

    def __init__(self, task: OpenEnvTask) -> None:
        manner, reset = task.manner, task.parameters.reset
        self._task = task
        self._field = action_field(task.case, manner.action_field)
        if not manner.ignores_seeds:
            check_seeds(task.case, reset, manner.seconds)
        data = {**json.loads(reset or "{}"), "seed": task.library_seed}
        self._connection = Connection(task.case, data, manner.seconds, again=not manner.ignores_seeds)
        self._paid, self._steps = 0.0, 0

    def reset(self) -> Shown:
        return self._shown(self._connection.start())

    def step(self, reply: str) -> Shown:
        try:
            sent = self._connection.step({self._field: reply})
        except Refused:
            return Shown(refused=True)
        self._steps += 1
        return self._shown(sent)

    def stop(self) -> None:
        self._connection.close()

    def _shown(self, sent: Mapping[str, Any]) -> Shown:
        reward, most = sent.get("reward"), self._task.manner.steps
        done = bool(sent.get("done")) or 0 < most <= self._steps
        if self._task.pay.paid == "sum" and self._steps:
            reward = self._paid = self._paid + (reward if isinstance(reward, int | float) else 0.0)
        if done:
            self._connection.close()
        # The last observation may have another form.
        wanted = "" if done else self._task.manner.question_field
        return Shown(question_of(sent["observation"], wanted), done, reward)
