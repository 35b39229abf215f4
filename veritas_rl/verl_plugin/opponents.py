"""The opponents of a whole game: players in separate Ray actors, so that they do not block games.

A search holds Python's global interpreter lock, so a thread is not enough. Simultaneous requests of several games are
sent in one call.
"""

import asyncio
import dataclasses
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
"""Seconds that a turn waits for turns of other games, to be sent with them."""
CORES_PER_SERVER = 4


def servers_of(cores: int, workers: int) -> int:
    """The number of processes that each agent-loop worker on this machine starts for an opponent."""
    return max(1, cores // CORES_PER_SERVER // workers)


@dataclass(frozen=True)
class ModelSettings:
    """The settings of opponents that are models.

    Attributes:
        checkpoints: The run's checkpoint folder.
        base: The run's start model.
        replies: The settings of their replies.
    """

    checkpoints: Path
    base: str
    replies: ReplySettings

    def open(self, name: str, env: str) -> Player:
        """Open a player by its name."""
        if name == PAST:
            # This imports torch (350 MB), which a process that only searches does not need.
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
    """A player that many games ask at once.

    Args:
        name: The player's name in `veritas_rl.players.registry`.
        env: The environment that the player plays.
        models: The settings of an opponent that is a model.
        workers: The number of agent-loop workers of this machine, each with its own opponent.
    """

    def __init__(self, name: str, env: str, models: ModelSettings | None = None, workers: int = 1) -> None:
        # A random move is cheaper than a call to another process.
        self._here = make_bot(name, env) if name == "random" else None
        self._is_model = models is not None
        # A model already uses all cores.
        count = 0 if self._here else 1 if models else servers_of(len(os.sched_getaffinity(0)), workers)
        self._servers: list[Any] = [OpponentServer.remote(name, env, models) for _ in range(count)]
        self._waiting: list[tuple[Turn, asyncio.Future[Reply]]] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def act(self, turn: Turn) -> Reply:
        """The reply to one turn."""
        if self._here:
            if turn.answers:
                return self._here.act([turn])[0]
            return (await asyncio.to_thread(self._here.act, [turn]))[0]  # an answer has to be found
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        self._waiting.append((turn, future))
        if len(self._waiting) == 1:
            loop.call_later(GATHER_SECONDS, self._send)
        return await future

    def _sent(self, turn: Turn) -> Turn:
        return dataclasses.replace(turn, view=None) if self._is_model else turn

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for index, server in enumerate(self._servers):
            if share := waiting[index :: len(self._servers)]:
                sending = asyncio.create_task(self._ask(server, share))
                self._sending.add(sending)
                sending.add_done_callback(self._sending.discard)

    async def _ask(self, server: Any, share: list[tuple[Turn, asyncio.Future[Reply]]]) -> None:
        try:
            # What bots see may not be sent to another process, and models do not read it.
            replies = await server.act.remote([self._sent(turn) for turn, _ in share])
            for (_, future), reply in zip(share, replies, strict=True):
                future.set_result(reply)
        except Exception as error:  # every caller gets the server's error
            for _, future in share:
                if not future.done():
                    future.set_exception(error)
