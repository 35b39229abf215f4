"""Whole games of a veritas-rl server between two seats, each an agent of its own.

The server keeps the game: it shows each seat what that seat may know, reads the replies, and pays both at the end.
"""

from collections.abc import Iterator
from typing import Any

import httpx
import verifiers.v1 as vf

SECONDS = 120.0
"""The most seconds for an answer of the server."""

SEATS = 2


class GamesData(vf.TaskData):
    """One game.

    Attributes:
        url: The server.
        start: By what the server names the game.
    """

    url: str
    start: dict[str, Any]


class GamesTask(vf.Task[GamesData]):
    """A game; the environment pays its seats."""


class GamesConfig(vf.TasksetConfig):
    """Which games.

    Attributes:
        url: The server, with the environment's name where it serves several.
        case: A case that it serves; "" for games of all cases.
        num_tasks: How many games.
        first: The seed of the first; each has the next one.
        split: "train" or "val".
    """

    url: str = "http://127.0.0.1:8000"
    case: str = ""
    num_tasks: int = 100
    first: int = 0
    split: str = "val"


class GamesTaskset(vf.Taskset[GamesTask, GamesConfig]):
    """Games by their seeds."""

    def load(self) -> Iterator[GamesTask]:
        """Every game."""
        config = self.config
        for seed in range(config.first, config.first + config.num_tasks):
            start: dict[str, Any] = {"seed": seed, "split": config.split, "mode": "episode", "opponent": "none"}
            if config.case:
                start["case"] = config.case
            data = GamesData(name=f"game#{seed}", prompt=None, url=config.url.rstrip("/"), start=start)
            yield GamesTask(data, config.task)


class GamesEnvConfig(vf.EnvConfig):
    """Two agents that chat, on this machine: they run no code."""

    player0: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})
    player1: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})


class GamesEnv(vf.Env[GamesEnvConfig]):
    """Two agents play one game."""

    async def run(self, task: GamesTask, agents: vf.Agents) -> None:
        """Relay the turns of the game to the agents, and pay each what the server says."""
        async with httpx.AsyncClient(timeout=SECONDS) as client:
            shown = await _call(client, task.data.url, "reset", **task.data.start)
            name = shown["episode_id"]
            try:
                traces, last, stopped = await self._play(client, task, agents, name, shown)
            finally:
                await _call(client, task.data.url, "stop", episode_id=name)
        rewards = last["info"].get("rewards", {})
        for seat, trace in enumerate(traces):
            # An agent that wrote no more has lost; that is no merit of the other.
            trace.record_reward("result", float(rewards.get(str(seat), 0.0)))
            trace.record_metric("stopped", float(stopped == seat))
            trace.info["veritas"] = {
                "seat": seat,
                "task": last["info"]["task"],
                "scores": last["info"].get("scores", {}),
            }

    async def _play(
        self, client: httpx.AsyncClient, task: GamesTask, agents: vf.Agents, name: str, shown: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any], int]:
        """The traces of both seats, what the server showed last, and who wrote no more, or -1."""
        silent = vf.Task(vf.TaskData(idx=task.data.idx, prompt=None))
        stopped = -1
        async with (
            agents.player0.interaction(silent) as player0,
            agents.player1.interaction(silent.with_data()) as player1,
        ):
            players = (player0, player1)
            while not shown["done"]:
                seat = shown["info"]["seat"]
                if seat >= SEATS:
                    raise ValueError(
                        f"{shown['info']['case']} has more than {SEATS} seats, the most that this environment supports"
                    )
                segment = await players[seat].turn(shown["observation"])
                if segment.terminated:
                    stopped = seat
                    break
                shown = await _call(client, task.data.url, "step", action=segment.last_reply, episode_id=name)
            return [player.trace for player in players], shown, stopped


async def _call(client: httpx.AsyncClient, url: str, method: str, **kwargs: Any) -> dict[str, Any]:
    """The result of a method of the server."""
    answer = await client.post(f"{url}/call", json={"method": method, "kwargs": kwargs})
    if answer.status_code != httpx.codes.OK:
        raise ValueError(f"the server at {url} refused {method}: {answer.text[:300]}")
    return answer.json()["result"]
