"""An environment behind a server: `env=affinetes:http://127.0.0.1:8000`."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from veritas_rl.envs.abilities import TaskName
from veritas_rl.envs.affinetes.calls import call
from veritas_rl.envs.affinetes.config import AffinetesConfig
from veritas_rl.envs.affinetes.task import AffinetesParameters, AffinetesPay, AffinetesTask
from veritas_rl.envs.base import Session
from veritas_rl.envs.remote import RemoteEnvironment, RemoteManner, RemoteSession, Shown
from veritas_rl.envs.single import CaseTasks
from veritas_rl.envs.task import SPLITS, Task, check_choice
from veritas_rl.errors import UserError


class AffinetesEnvironment(RemoteEnvironment):
    """The sessions of a server.

    Args:
        address: The address of the default server.
    """

    name: ClassVar[str] = "affinetes"
    config_type = AffinetesConfig
    task_type: ClassVar[type[Task]] = AffinetesTask

    def catalogue(self, config: AffinetesConfig, split: str) -> Sequence[Task]:
        """The tasks: `num_tasks_per_case` of each server, server by server."""
        check_choice("split", split, SPLITS)
        parameters, pay = config.part(AffinetesParameters), config.part(AffinetesPay)
        manner = config.part(RemoteManner, seat=0)

        def make(case: str, k: int) -> AffinetesTask:
            return AffinetesTask(
                self.name,
                case,
                k,
                mode="episode",
                seed=config.seed,
                split=split,
                parameters=parameters,
                manner=manner,
                pay=pay,
            )

        return CaseTasks(config.cases, config.num_tasks_per_case, make)

    def start(self, task: Task) -> Session:
        """A new session on the server.

        Raises:
            UserError: The task belongs to another environment, or the server starts no session.
        """
        if not isinstance(task, AffinetesTask):
            raise UserError(f"{task.id} is no task of a server")
        return RemoteSession(task, task.manner, _Played(task))

    def name_of(self, task: Task) -> TaskName:
        """The server's number of the task, the server's address, and the seed."""
        assert isinstance(task, AffinetesTask)
        return TaskName(task.task_id, task.case, task.seed)


class _Played:
    """A session on a server, by affinetes' calls.

    Args:
        task: The task.
    """

    def __init__(self, task: AffinetesTask) -> None:
        self._task, self._seconds, self._name = task, task.manner.seconds, ""

    def reset(self) -> Shown:
        task = self._task
        chosen = {"opponent": task.parameters.rival} if task.parameters.rival else {}
        shown = call(task.case, "reset", self._seconds, again=True, task_id=task.task_id, seed=task.seed, **chosen)
        self._name = str(shown.get("episode_id") or "")
        if not self._name and not shown.get("done"):
            said = str(shown.get("observation", ""))[:200]
            raise UserError(f"the environment at {task.case} started no session: {said}")
        return _shown(shown)

    def step(self, reply: str) -> Shown:
        return _shown(call(self._task.case, "step", self._seconds, again=False, action=reply, episode_id=self._name))

    def stop(self) -> None:
        call(self._task.case, "stop", self._seconds, again=True, episode_id=self._name)


def _shown(sent: Mapping[str, Any]) -> Shown:
    info = sent.get("info")
    error = info.get("error") or info.get("rejected") if isinstance(info, Mapping) else None
    return Shown(
        text=str(sent.get("observation", "")),
        done=bool(sent.get("done")),
        reward=sent.get("reward"),
        truncated=bool(sent.get("truncated")),
        rejected=bool(error),
    )
