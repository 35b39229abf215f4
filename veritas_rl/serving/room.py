"""The sessions of one environment on a server: what each protocol plays with."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, TypeVar

import httpx
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from veritas_rl.envs.base import Reply
from veritas_rl.serving.episodes import Episode, Episodes, Refused
from veritas_rl.serving.limits import Limits
from veritas_rl.serving.model_client import Asked
from veritas_rl.serving.offer import Offer, Start

T = TypeVar("T")


class Workers:
    """What all rooms of a server share: threads, the places of evaluations, a client for models.

    Args:
        limits: How many of each.
        client: Asks models.
    """

    def __init__(self, limits: Limits, client: httpx.AsyncClient) -> None:
        self.limits = limits
        self.client = client
        # What is given up runs on to its end and keeps its thread meanwhile, so there are never more.
        self._threads = ThreadPoolExecutor(limits.threads, "session")
        self._evaluations = asyncio.Semaphore(limits.evaluations)

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Run a function in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    def close(self) -> None:
        """Wait for nothing that still runs."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def evaluation(self, run: Callable[[], Awaitable[T]]) -> T:
        """Run an evaluation once there is a place for one."""
        async with self._evaluations:
            return await run()


class Room:
    """One environment that is served.

    Args:
        offer: Its tasks.
        episodes: The open sessions; several rooms may share them.
        workers: Shared by all rooms.
    """

    def __init__(self, offer: Offer, episodes: Episodes, workers: Workers) -> None:
        self.offer = offer
        self.episodes = episodes
        self._workers = workers

    async def open(self, start: Start, notes: list[str]) -> tuple[str, Episode]:
        """Open a session.

        Raises:
            Refused: Too many are open, or it took too long.
            UserError: There is no such task.
        """
        return await self._within(lambda: self.episodes.open(lambda: self._make(start, notes)))

    async def answer(self, name: str, reply: Reply) -> Episode:
        """Answer the turn that a session shows.

        Raises:
            Refused: The session is gone, over, or busy; or it took too long.
        """
        if self.episodes.look(name).is_quick:  # a thread would take longer than the step
            return self.episodes.answer(name, reply)
        return await self._within(lambda: self.episodes.answer(name, reply))

    async def once(self, start: Start, reply: Reply | None = None) -> Episode:
        """A task that is begun, and perhaps answered once; nothing of it is kept.

        Raises:
            Refused: It took too long.
            UserError: There is no such task.
        """

        def play() -> Episode:
            episode = self._make(start, [])
            if reply is not None:
                episode.answer(reply)
            return episode

        return await self._within(play)

    async def evaluate(
        self,
        run: Callable[..., Awaitable[dict[str, Any]]],
        start: Start,
        asked: Asked,
        seconds: float | None,
        notes: list[str],
    ) -> dict[str, Any]:
        """Let a model play a task: `evaluation.evaluate` with what the server has.

        Raises:
            UserError: There is no such task, or the address of the model is none.
        """
        longest = self._workers.limits.seconds
        within = min(seconds or longest, longest)
        return await self._workers.evaluation(
            lambda: run(lambda: self._make(start, notes), asked, self._workers.client, self._workers.in_thread, within)
        )

    def _make(self, start: Start, notes: list[str]) -> Episode:
        task, more = self.offer.task(start)
        return Episode(task, self.offer.session(task, start), [*notes, *more])

    async def _within(self, function: Callable[[], T]) -> T:
        seconds = self._workers.limits.seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._workers.in_thread(function)
        except TimeoutError as error:
            raise Refused(HTTPStatus.GATEWAY_TIMEOUT, f"it took more than {seconds:g} s") from error


def described(error: ValidationError | RequestValidationError) -> str:
    """What is wrong with a request, as one line, without what was sent."""
    found = [f"{'.'.join(map(str, problem['loc'])) or 'the body'}: {problem['msg']}" for problem in error.errors()]
    return "; ".join(found[:5])
