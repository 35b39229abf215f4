"""The agent loop's client of the rollout `transformers`, which sends requests to the servers in batches."""

import asyncio
from collections.abc import Sequence
from typing import Any

import ray
from verl.workers.rollout.replica import TokenOutput

from veritas_rl.seeding import digest

GATHER_SECONDS = 0.002
"""Seconds that a request waits for other requests, to be sent with them."""


def server_name(replica_rank: int) -> str:
    """The Ray name of a replica's `GenerationServer`."""
    return f"transformers_server_{replica_rank}"


def joined(parts: Sequence[TokenOutput]) -> TokenOutput:
    """Join the parts of a reply. All parts except the last were aborted."""
    written = [part for part in parts if part.token_ids] or parts[-1:]
    first, last = written[0].extra_fields, written[-1].extra_fields
    return parts[-1].model_copy(
        update={
            "token_ids": [token for part in parts for token in part.token_ids],
            "log_probs": [logprob for part in parts for logprob in part.log_probs or ()],
            "extra_fields": {**last, "min_global_steps": first.get("min_global_steps")},
        }
    )


class BatchingClient:
    """Sends simultaneous requests in one call to each server. verl would make three calls per reply.

    Args:
        servers: The number of servers. Requests go to the servers in turn.
    """

    def __init__(self, servers: int) -> None:
        self._servers: list[Any] = []
        self._count = servers
        self._first = 0
        """The server that gets the next request."""
        self._waiting: list[tuple[list[int], dict[str, Any], asyncio.Future[TokenOutput]]] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        """As `GenerationServer.generate`. A reply that is aborted for new weights continues with the new weights."""
        limit, parts = sampling_params["max_tokens"], list[TokenOutput]()
        while not parts or parts[-1].stop_reason == "aborted":
            said = [token for part in parts for token in part.token_ids]
            params = {**sampling_params, "max_tokens": limit - len(said)}
            if said and params.get("seed") is not None:
                # The server counts the tokens of each request from 0, and the same seed would repeat the numbers.
                params["seed"] = digest("continuation", params["seed"], len(said))
            parts.append(await self._ask([*prompt_ids, *said], params))
        return joined(parts)

    async def _ask(self, prompt_ids: list[int], sampling_params: dict[str, Any]) -> TokenOutput:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[TokenOutput] = loop.create_future()
        self._waiting.append((prompt_ids, sampling_params, future))
        if len(self._waiting) == 1:
            loop.call_later(GATHER_SECONDS, self._send)
        return await future

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not self._servers:
            self._servers = [ray.get_actor(server_name(rank)) for rank in range(self._count)]
        first, self._first = self._first, (self._first + len(waiting)) % self._count
        for rank, server in enumerate(self._servers):
            if share := waiting[(rank - first) % self._count :: self._count]:
                sending = asyncio.create_task(self._send_to(server, share))
                self._sending.add(sending)
                sending.add_done_callback(self._sending.discard)

    @staticmethod
    async def _send_to(server: Any, share: list[tuple[list[int], dict[str, Any], asyncio.Future[TokenOutput]]]) -> None:
        futures = [future for _, _, future in share]
        try:
            requests = [(prompt, params) for prompt, params, _ in share]
            async for some in server.generate_batch.options(num_returns="streaming").remote(requests):
                for index, output in await some:
                    futures[index].set_result(output)
        except Exception as error:  # every caller gets the server's error
            for future in futures:
                if not future.done():
                    future.set_exception(error)
