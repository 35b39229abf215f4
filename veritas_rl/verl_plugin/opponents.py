"""The other seats of a whole game: players in Ray actors of their own, so that no thinking stalls a game.

A search holds Python's global lock while it runs, so a thread would not do. What several games ask at about the same
time is sent in one call.
"""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray

from veritas_rl.envs.base import Player, Reply, Turn
from veritas_rl.players.loading import ReplySettings, open_player
from veritas_rl.players.registry import CHECKPOINT, PAST, make_bot

GATHER_SECONDS = 0.002
"""How long a first turn waits for others to be sent with it."""
CORES_PER_SERVER = 4


def servers_of(cores: int, workers: int) -> int:
    """How many processes each of several agent-loop workers gives to one player on a machine with so many cores."""
    return max(1, cores // CORES_PER_SERVER // workers)


@dataclass(frozen=True)
class ModelSettings:
    """What the opponents that are models are made with.

    Attributes:
        checkpoints: Where the run saves its checkpoints.
        base: The model that the run began with.
        replies: How they write.
    """

    checkpoints: Path
    base: str
    replies: ReplySettings

    def open(self, name: str, env: str) -> Player:
        """The player of that name."""
        if name == PAST:
            # It imports torch: 350 MB, which a process that only searches does not need.
            from veritas_rl.players.past import PastPlayer

            return PastPlayer(self.checkpoints, self.base, env, self.replies)
        with TemporaryDirectory(prefix="opponent-") as merged:
            return open_player(name.removeprefix(CHECKPOINT), env, self.replies, Path(merged)).player


@ray.remote(num_cpus=0)
class OpponentServer:
    """Answers turns as one player."""

    def __init__(self, name: str, env: str, models: ModelSettings | None) -> None:
        self._player: Player = models.open(name, env) if models else make_bot(name, env)

    def act(self, turns: list[Turn]) -> list[Reply]:
        """One reply for each turn, in order."""
        return list(self._player.act(turns))


class Opponent:
    """One player of that name, asked by many games at once.

    Args:
        name: As in `veritas_rl.players.registry`.
        env: The environment that it plays.
        models: For an opponent that is a model.
        workers: How many agent-loop workers this machine has, each with an opponent of its own.
    """

    def __init__(self, name: str, env: str, models: ModelSettings | None = None, workers: int = 1) -> None:
        # A random move takes less than the way to another process.
        self._here = make_bot(name, env) if name == "random" else None
        # A model computes on all cores as it is.
        count = 0 if self._here else 1 if models else servers_of(len(os.sched_getaffinity(0)), workers)
        self._servers: list[Any] = [OpponentServer.remote(name, env, models) for _ in range(count)]
        self._waiting: list[tuple[Turn, asyncio.Future[Reply]]] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def act(self, turn: Turn) -> Reply:
        """The reply to one turn."""
        if self._here:
            return self._here.act([turn])[0]
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        self._waiting.append((turn, future))
        if len(self._waiting) == 1:
            loop.call_later(GATHER_SECONDS, self._send)
        return await future

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for index, server in enumerate(self._servers):
            if share := waiting[index :: len(self._servers)]:
                sending = asyncio.create_task(self._ask(server, share))
                self._sending.add(sending)
                sending.add_done_callback(self._sending.discard)

    @staticmethod
    async def _ask(server: Any, share: list[tuple[Turn, asyncio.Future[Reply]]]) -> None:
        try:
            replies = await server.act.remote([turn for turn, _ in share])
            for (_, future), reply in zip(share, replies, strict=True):
                future.set_result(reply)
        except Exception as error:  # whatever the server met is what each of its callers meets
            for _, future in share:
                if not future.done():
                    future.set_exception(error)
