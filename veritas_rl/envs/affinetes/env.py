"""An environment behind a server: `env=affinetes:http://127.0.0.1:8000`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from veritas_rl.envs.abilities import TaskName
from veritas_rl.envs.affinetes.calls import call
from veritas_rl.envs.affinetes.config import AffinetesConfig
from veritas_rl.envs.affinetes.task import AffinetesManner, AffinetesParameters, AffinetesPay, AffinetesTask
from veritas_rl.envs.base import Message, Reason, Reply, Score, Session, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.single import CaseTasks
from veritas_rl.envs.task import SPLITS, Task, check_choice
from veritas_rl.errors import UserError

MOST_CHARACTERS = 200_000
"""The most characters of a reply; a longer reply is not sent."""


class AffinetesEnvironment(Environment):
    """The sessions of a server.

    Args:
        address: The address of the default server.
    """

    name: ClassVar[str] = "affinetes"
    config_type = AffinetesConfig
    task_type: ClassVar[type[Task]] = AffinetesTask
    answers, solved = "replies that were accepted", "solved tasks"

    def __init__(self, address: str = "") -> None:
        self._address = address

    def read_config(self, values: Mapping[str, Any]) -> Any:
        """The configuration. The default server is the address in the environment's name."""
        return super().read_config({"cases": self._address, **values})

    def catalogue(self, config: AffinetesConfig, split: str) -> Sequence[Task]:
        """The tasks: `num_tasks_per_case` of each server, server by server."""
        check_choice("split", split, SPLITS)
        parameters, pay = config.part(AffinetesParameters), config.part(AffinetesPay)
        manner = config.part(AffinetesManner, seat=0)

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
        return AffinetesSession(task)

    def name_of(self, task: Task) -> TaskName:
        """The server's number of the task, the server's address, and the seed."""
        assert isinstance(task, AffinetesTask)
        return TaskName(task.task_id, task.case, task.seed)


class AffinetesSession(Session):
    """One session of a server, from the reset to its end.

    The server writes the prompts, parses the replies, and pays at the end: the last reward, clipped to [0, 1].
    """

    def __init__(self, task: AffinetesTask) -> None:
        self.task = task
        self._manner = task.manner
        self._chat: list[Message] = []
        self._steps = 0
        self._score: Score | None = None
        chosen = {"opponent": task.parameters.rival} if task.parameters.rival else {}
        shown = call(
            task.case, "reset", task.manner.seconds, again=True, task_id=task.task_id, seed=task.seed, **chosen
        )
        self._name = str(shown.get("episode_id") or "")
        self._show(shown)
        self._opening = len(self._chat) if task.manner.context == "conversation" else 0

    def turns(self) -> Sequence[Turn]:
        if self._score is not None:
            return []
        return [
            Turn(
                seat=0,
                messages=tuple(self._chat),
                answers=(),
                opening=self._opening,
                dice=(self.task.chance_seed, self._steps, 0),
            )
        ]

    def step(self, replies: Mapping[int, Reply]) -> None:
        if self._score is not None:
            raise RuntimeError("the session is over")
        reply = replies[0]
        self._steps += 1
        self.rejected = {}
        cut = (
            Reason.OVERLONG
            if reply.overlong or len(reply.text) > MOST_CHARACTERS
            else Reason.TRUNCATED
            if reply.truncated
            else None
        )
        if cut is not None:
            self._end(0.0, cut)
            return
        self._chat.append({"role": "assistant", "content": reply.text})
        seconds = self._manner.seconds
        shown = call(self.task.case, "step", seconds, again=False, action=reply.text, episode_id=self._name)
        info = shown.get("info")
        error = info.get("error") or info.get("rejected") if isinstance(info, Mapping) else None
        if error and not shown.get("done"):
            self.rejected = {0: Reason.UNPARSEABLE}
        self._show(shown)

    def scores(self) -> dict[int, Score]:
        if self._score is None:
            raise RuntimeError("the session is not over")
        return {0: self._score}

    def board(self, seat: int) -> str:
        return self._chat[-1]["content"] if self._chat else ""

    def _show(self, shown: Mapping[str, Any]) -> None:
        """Add the server's observation to the chat, and set the score if the session is over."""
        self._chat.append({"role": "user", "content": str(shown.get("observation", ""))})
        if shown.get("done"):
            paid = shown.get("reward")
            known = isinstance(paid, int | float) and not isinstance(paid, bool) and math.isfinite(paid)
            if not known:
                raise UserError(f"the environment at {self.task.case} returned a reward that is no number: {paid!r}")
            value = min(1.0, max(0.0, float(paid or 0.0)))
            if shown.get("truncated"):
                self._score = Score(0.0, False, Reason.UNFINISHED, {"steps": self._steps})
            else:
                won = value > 0.5
                self._score = Score(value, won, Reason.CORRECT if won else Reason.WRONG, {"steps": self._steps})
        elif not self._name:
            raise UserError(f"the environment at {self.task.case} started no session: {self.board(0)[:200]}")
        elif self._steps >= self._manner.most_steps:
            self._end(0.0, Reason.UNFINISHED)

    def _end(self, value: float, reason: Reason) -> None:
        """Set the score of an unfinished session, and stop it on the server."""
        if reason.is_mistake:
            self.rejected = {0: reason}
        self._score = Score(value, False, reason, {"steps": self._steps})
        call(self.task.case, "stop", self._manner.seconds, again=True, episode_id=self._name)
