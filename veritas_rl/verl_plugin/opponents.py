"""The other seats of a whole game: bots that play in Ray actors of their own, so that no thinking stalls a game.

A search holds Python's global lock while it runs, so a thread would not do. What several games ask at about the same
time is sent in one call.
"""

import asyncio
import os
from typing import Any

import ray

from veritas_rl.envs.base import Player, Reply, Turn
from veritas_rl.players.opponents import make_bot

GATHER_SECONDS = 0.002
"""How long a first turn waits for others to be sent with it."""
CORES_PER_SERVER = 4


@ray.remote(num_cpus=0)
class OpponentServer:
    """Answers turns as one player."""

    def __init__(self, name: str) -> None:
        self._player: Player = make_bot(name)

    def act(self, turns: list[Turn]) -> list[Reply]:
        """One reply for each turn, in order."""
        return list(self._player.act(turns))


class Opponent:
    """One player of that name, asked by many games at once.

    Args:
        name: As in `veritas_rl.players.opponents`.
    """

    def __init__(self, name: str) -> None:
        # A random move takes less than the way to another process.
        self._here = make_bot(name) if name == "random" else None
        count = 0 if self._here else max(1, (os.cpu_count() or 1) // CORES_PER_SERVER)
        self._servers: list[Any] = [OpponentServer.remote(name) for _ in range(count)]
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
