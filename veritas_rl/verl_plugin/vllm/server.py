"""verl's server of a vLLM engine, with what that lacks. `plugin` registers `VllmReplica` under verl's name "vllm"."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import ray
from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer, vLLMReplica

from veritas_rl.verl_plugin.patching import mends
from veritas_rl.verl_plugin.vllm.shared_names import remove_names
from veritas_rl.verl_plugin.vllm.weight_sync import POLL_SECONDS


class VllmServer(vLLMHttpServer):
    """A server of one engine, in a process of its own."""

    @mends(vLLMHttpServer.collective_rpc, "        await self.engine.collective_rpc(")
    async def collective_rpc(
        self,
        method: Any,
        timeout: float | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """verl drops its workers' answers, and waits forever for a dead engine: return them, or raise."""
        return await self._answer(self.engine.collective_rpc(method=method, timeout=timeout, args=args, kwargs=kwargs))

    @mends(vLLMHttpServer.generate, "async for output in generator:")
    async def generate(self, *args: Any, **kwargs: Any) -> Any:
        """vLLM can forget a request that comes while its engine dies, so verl waits for it forever: raise."""
        return await self._answer(super().generate(*args, **kwargs))

    @mends(vLLMHttpServer.launch_server, '"distributed_executor_backend": "mp"')
    async def run_server(self, args: Any) -> None:
        """Ray and the launcher kill an engine, whose queues then stay in /dev/shm, 400 MB: remove their names before.

        When the server runs, every process of its engine has opened them.
        """
        await super().run_server(args)
        remove_names()

    async def _answer(self, call: Coroutine[Any, Any, Any]) -> Any:
        """The answer of a call of the engine, which may die before."""
        answer = asyncio.ensure_future(call)
        try:
            while not (await asyncio.wait([answer], timeout=POLL_SECONDS))[0]:
                if self.engine.errored:
                    raise self.engine.dead_error
            return answer.result()
        finally:
            answer.cancel()

    def _get_worker_extension_cls(self) -> str:
        return "veritas_rl.verl_plugin.vllm.extension.WorkerExtension"


class VllmReplica(vLLMReplica):
    """Servers of one copy of the model."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.server_class = ray.remote(VllmServer)
