"""A sender of weights to vLLM that notices if its receiver fails or dies. verl's waits forever."""

import concurrent.futures
import uuid
from multiprocessing.shared_memory import SharedMemory
from typing import Any, ClassVar

import torch
import zmq
from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightSender

from veritas_rl.announcements import WEIGHTS_REFUSED

Receiver = concurrent.futures.Future[Any]
"""The answer of the call in which a rollout receives weights."""


POLL_SECONDS = 1.0
"""How often a weight sync asks whether its receiver still lives, and a call of workers whether the engine does."""


class _Socket:
    """A ZMQ socket whose blocking calls end if the receiver's call has ended with an error."""

    def __init__(self, socket: Any, receiver: Receiver | None) -> None:
        self._socket, self._receiver = socket, receiver

    def send_pyobj(self, message: Any) -> None:
        self._wait_for(zmq.POLLOUT)
        self._socket.send_pyobj(message)

    def recv(self) -> bytes:
        self._wait_for(zmq.POLLIN)
        return self._socket.recv()

    def close(self) -> None:
        # A message that nobody receives must not keep the process alive.
        self._socket.close(linger=0)

    def _wait_for(self, event: int) -> None:
        while not self._socket.poll(round(1000 * POLL_SECONDS), event):
            if self._receiver is not None and self._receiver.done() and (error := self._receiver.exception()):
                cause = " ".join(str(getattr(error, "cause", error)).split())
                print(f"{WEIGHTS_REFUSED}{cause:.500}", flush=True)
                raise RuntimeError(f"{WEIGHTS_REFUSED}{cause}") from error


class WatchedSender(BucketedWeightSender):
    """Sends weights to the receiver whose call is `receiver`; None on a rank that called none."""

    receiver: ClassVar[Receiver | None] = None
    _segment: SharedMemory | None = None

    def _init_socket(self) -> None:
        super()._init_socket()
        self.socket = _Socket(self.socket, self.receiver)

    def _init_buffer(self) -> None:
        if not self.use_shm:
            super()._init_buffer()
            return
        segment = SharedMemory(f"verl_weights_{uuid.uuid4().hex}", create=True, size=self.bucket_size)
        try:
            self.socket.send_pyobj({"name": segment.name, "size": self.bucket_size})
            self.socket.recv()
        finally:
            # Both sides have it open, or the sync has failed. From here on no death leaves it in /dev/shm.
            segment.unlink()
        self.buffer, self._segment = torch.frombuffer(segment.buf, dtype=torch.uint8), segment

    def _cleanup(self) -> None:
        super()._cleanup()
        if self._segment is not None:
            self._segment.close()
