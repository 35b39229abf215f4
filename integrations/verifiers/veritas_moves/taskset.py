"""Single moves, puzzles and programs of a veritas-rl server: one prompt, one reply, one reward in [0, 1].

The server keeps no session for them: its /reset shows a task, and its /step scores a reply to it.
"""

from collections.abc import Iterator
from typing import Any

import httpx
import verifiers.v1 as vf

SECONDS = 120.0
"""The most seconds for an answer of the server."""


class MovesData(vf.TaskData):
    """One task.

    Attributes:
        url: The server.
        start: By what the server names the task.
    """

    url: str
    start: dict[str, Any]


class MovesTask(vf.Task[MovesData]):
    """A task that the server scores."""

    @vf.reward(weight=1.0)
    async def reward(self, trace: vf.Trace) -> float:
        """What the reply is worth, in [0, 1]."""
        body = {**self.data.start, "action": {"text": trace.last_reply or ""}}
        async with httpx.AsyncClient(timeout=SECONDS) as client:
            answer = await client.post(f"{self.data.url}/step", json=body)
        answer.raise_for_status()
        return float(answer.json()["reward"])


class MovesConfig(vf.TasksetConfig):
    """Which tasks.

    Attributes:
        url: The server, with the environment's name where it serves several.
        case: A case that it serves; "" for tasks of all cases.
        num_tasks: How many.
        first: The number of the first.
        split: "train" or "val".
        seed: In games the seed of deals.
    """

    url: str = "http://127.0.0.1:8000"
    case: str = ""
    num_tasks: int = 100
    first: int = 0
    split: str = "val"
    seed: int = 42


class MovesTaskset(vf.Taskset[MovesTask, MovesConfig]):
    """The tasks of a server, each asked for when it is needed."""

    def load(self) -> Iterator[MovesTask]:
        """Every task, with its prompt."""
        config, url = self.config, self.config.url.rstrip("/")
        with httpx.Client(timeout=SECONDS) as client:
            served = client.get(f"{url}/metadata")
            served.raise_for_status()
            games = bool(served.json().get("games"))
            for k in range(config.first, config.first + config.num_tasks):
                start: dict[str, Any] = {"split": config.split}
                if games:
                    start |= {"mode": "move", "seed": config.seed}
                # Without a case the number is also the seed by which the server draws one.
                start |= {"case": config.case, "k": k} if config.case else {"seed": k}
                shown = client.post(f"{url}/reset", json=start)
                shown.raise_for_status()
                observation = shown.json()["observation"]
                prompt = "\n\n".join(message["content"] for message in observation["messages"])
                name = observation["metadata"]["task"]
                yield MovesTask(MovesData(id=name, name=name, prompt=prompt, url=url, start=start), config.task)


class MovesEnvConfig(vf.EnvConfig):
    """One agent that chats, on this machine: it runs no code."""

    agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})


class MovesEnv(vf.Env[MovesEnvConfig]):
    """One agent answers one task."""

    async def run(self, task: MovesTask, agents: vf.Agents) -> None:
        """Ask it once."""
        await agents.agent.run(task)
