"""Run-time patches of verl's vLLM rollout, see `patching`."""

import asyncio
import contextlib
import functools
import re
from pathlib import Path
from typing import Any

import psutil

from veritas_rl.verl_plugin.patching import patch_of, require_fault

POLL_SECONDS = 1.0
"""How often a call of workers asks whether the engine still lives, and a weight sync whether its receiver does."""


@patch_of("verl.workers.rollout.vllm_rollout.vllm_async_server")
def answers_of_workers(module: Any) -> None:
    """The vLLM server drops its workers' answers, and waits forever for a dead engine: return them, or raise.

    vLLM ends the generation of a dead engine, but not the calls of its workers.
    """
    server = module.vLLMHttpServer
    original = server.collective_rpc
    require_fault(original, "        await self.engine.collective_rpc(")

    @functools.wraps(original)
    async def collective_rpc(
        self: Any,
        method: Any,
        timeout: float | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        call = asyncio.ensure_future(
            self.engine.collective_rpc(method=method, timeout=timeout, args=args, kwargs=kwargs)
        )
        while not (await asyncio.wait([call], timeout=POLL_SECONDS))[0]:
            if self.engine.errored:
                call.cancel()
                raise self.engine.dead_error
        return call.result()

    server.collective_rpc = collective_rpc


SHARED = re.compile(r"/dev/shm/(?:psm_|sem\.mp-)\w+$", re.MULTILINE)
"""Shared memory and semaphores of Python in `/proc/PID/maps`, which marks that without a name as "(deleted)"."""


def remove_names() -> None:
    """Remove the names of shared memory and semaphores of all children of this process.

    They go with their last process.
    """
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(OSError):  # it has ended
            for name in SHARED.findall(Path(f"/proc/{process.pid}/maps").read_text()):
                Path(name).unlink(missing_ok=True)


@patch_of("verl.workers.rollout.vllm_rollout.vllm_async_server")
def names_of_queues(module: Any) -> None:
    """Ray and the launcher kill an engine, whose queues then stay in /dev/shm, 400 MB: remove their names before.

    When the server runs, every process of its engine has opened them.
    """
    server = module.vLLMHttpServer
    original = server.run_server
    require_fault(server.launch_server, '"distributed_executor_backend": "mp"')

    @functools.wraps(original)
    async def run_server(self: Any, args: Any) -> None:
        await original(self, args)
        remove_names()

    server.run_server = run_server


@patch_of("verl.workers.rollout.vllm_rollout.utils")
def adapter_of_vllm(module: Any) -> None:
    """A vLLM worker cannot report its adapter: add a method that returns the adapter's digests.

    The method is added to the class that verl makes each worker inherit from.
    """
    extension = module.vLLMColocateWorkerExtension
    require_fault(extension._update_weights, "lora_int_id=VLLM_LORA_INT_ID")

    def adapter_digests(self: Any, dtype: str) -> dict[str, int]:
        from veritas_rl.verl_plugin.adapter_delivery import served_by_vllm

        return served_by_vllm(self, module.VLLM_LORA_INT_ID, dtype)

    extension.adapter_digests = adapter_digests


@patch_of("verl.workers.rollout.vllm_rollout.vllm_rollout")
def failed_weight_sync(module: Any) -> None:
    """The sender of weights waits forever for a receiver that failed or died: end the run with the receiver's error.

    A receiver that is only slow has as much time as it needs. The segment of shared memory through which weights go on
    a CPU loses its name as soon as both sides have it open, so whatever ends the run leaves nothing in /dev/shm.
    """
    from veritas_rl.verl_plugin import weight_sync

    adapter, sender = module.ServerAdapter, module.BucketedWeightSender
    execute = adapter._execute_method
    require_fault(sender.async_send_weights, "self.socket.recv()")
    require_fault(sender._cleanup, "self.shm.unlink()")
    require_fault(adapter.update_weights, "await sender.async_send_weights(weights)")
    watched = weight_sync.watched(sender, POLL_SECONDS)

    @functools.wraps(execute)
    async def execute_method(self: Any, method: str, non_block: bool = False, **arguments: Any) -> Any:
        answer = await execute(self, method, non_block, **arguments)
        if non_block:
            # A process has one adapter, whose calls without waiting are those of receivers.
            watched.receiver = None if answer is None else answer.future()
        return answer

    adapter._execute_method = execute_method
    module.BucketedWeightSender = watched


@patch_of("verl.workers.rollout.vllm_rollout.bucketed_weight_transfer")
def error_of_receiver(module: Any) -> None:
    """The clean-up of a receiver that failed raises "cannot close exported pointers exist": raise its first error."""
    receiver = module.BucketedWeightReceiver
    original = receiver.receive_weights
    require_fault(receiver._cleanup, "self.shm.close()")

    @functools.wraps(original)
    def receive_weights(self: Any, on_bucket_received: Any) -> None:
        try:
            original(self, on_bucket_received)
        except BufferError as error:
            raise error.__context__ or error from None

    receiver.receive_weights = receive_weights
