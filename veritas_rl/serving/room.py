"""The sessions of one environment on a server, for all protocols."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from veritas_rl.envs.base import Reply
from veritas_rl.players.chat_client import Asked, ChatClient
from veritas_rl.serving.episodes import Episode, Episodes, Refused
from veritas_rl.serving.limits import Limits
from veritas_rl.serving.offer import Offer, Start

T = TypeVar("T")

CHUNK_SECONDS = 60.0
"""The maximum number of seconds between two chunks of a model's reply."""


class Workers:
    """The resources that all rooms of a server share: threads, slots for evaluations, and the client of models.

    Args:
        limits: The limits of the server.

    Raises:
        UserError: The proxy of the environment cannot be used.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.client = ChatClient(limits.evaluations, CHUNK_SECONDS, stream=True, tries=limits.tries)
        # A function that timed out keeps its thread until it ends, so the number of threads stays bounded.
        self._threads = ThreadPoolExecutor(limits.threads, "session")
        self._evaluations = asyncio.Semaphore(limits.evaluations)

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Run a function in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    def close(self) -> None:
        """Close without waiting for running functions."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def evaluation(self, run: Callable[[], Awaitable[T]]) -> T:
        """Run an evaluation when a slot is free."""
        async with self._evaluations:
            return await run()


class Room:
    """One served environment.

    Args:
        offer: The tasks of the environment.
        episodes: The open sessions; several rooms may share them.
        workers: The shared resources.
    """

    def __init__(self, offer: Offer, episodes: Episodes, workers: Workers) -> None:
        self.offer = offer
        self.episodes = episodes
        self._workers = workers

    async def open(self, start: Start, notes: list[str]) -> tuple[str, Episode]:
        """Open a session.

        Raises:
            Refused: Too many sessions are open, or the start took too long.
            UserError: There is no such task.
        """
        return await self._within(lambda: self.episodes.open(lambda: self._make(start, notes)))

    async def answer(self, name: str, reply: Reply) -> Episode:
        """Answer the current turn of a session.

        Raises:
            Refused: The session does not exist, is over or busy, or the step took too long.
        """
        if self.episodes.look(name).is_quick:  # starting a thread would take longer than the step
            return self.episodes.answer(name, reply)
        return await self._within(lambda: self.episodes.answer(name, reply))

    async def once(self, start: Start, reply: Reply | None = None) -> Episode:
        """Start a task and optionally answer its first turn, without keeping the session.

        Raises:
            Refused: The request took too long.
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
        """Let a model play a task, see `evaluation.evaluate`.

        Raises:
            UserError: The task does not exist, or the model's address is invalid.
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
            raise Refused(HTTPStatus.GATEWAY_TIMEOUT, f"the request took more than {seconds:g} s") from error


def described(error: ValidationError | RequestValidationError) -> str:
    """The errors of a request as one line, without the content of the request."""
    found = [f"{'.'.join(map(str, problem['loc'])) or 'the body'}: {problem['msg']}" for problem in error.errors()]
    return "; ".join(found[:5])
