"""Starts sandboxed servers and asks them to run programs."""

import atexit
import contextlib
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Self

from veritas_rl.envs.trace.sandbox.inside import protocol
from veritas_rl.envs.trace.sandbox.outcomes import Limits, Outcome, Status

_START_SECONDS = 60.0
_GRACE_SECONDS = 15.0
"""The extra time for a server's answer on a busy machine, in addition to the program's wall time."""

_BOOT = "import sys; sys.path[0] = sys.argv[1]; from inside import server; server.main(int(sys.argv[2]))"


class SandboxError(RuntimeError):
    """No sandboxed server starts on this machine."""


class _Gone(Exception):
    """The server ended or did not answer in time."""


class Sandbox:
    """A sandboxed server. It starts at the first request and is restarted if it has ended.

    Threads may share a sandbox; their requests run one at a time. After a fork, the child starts its own server.
    """

    def __init__(self, limits: Limits | None = None, variant: int = 0, optimize: bool = False) -> None:
        """Make a client without starting a process.

        Args:
            limits: The limits of each program.
            variant: The number of the variant. Variants differ in hash seed, addresses, clock and process ids.
            optimize: Whether programs run as under `python -O`, without assertions.
        """
        self.limits = limits or Limits()
        self.variant = variant
        self.optimize = optimize
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        _sandboxes.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, source: str, stdin: str = "") -> Outcome:
        """Run a program.

        Args:
            source: The program's text.
            stdin: The text of its standard input.

        Returns:
            The complete output, or the reason why there is none.

        Raises:
            SandboxError: No server starts.
        """
        try:
            program, given = source.encode(), stdin.encode()
        except UnicodeEncodeError:
            return Outcome(Status.SYNTAX, detail="the program or its input has a lone surrogate")
        if len(program) > self.limits.source:
            return Outcome(
                Status.SYNTAX, detail=f"the program has {len(program)} bytes, more than {self.limits.source}"
            )
        limits = self.limits
        # An empty source would request the layers.
        request = protocol.Request(program or b"\n", given, limits.cpu, limits.wall, limits.memory, limits.output)
        with self._lock:
            for _ in range(2):
                try:
                    answer = self._ask(request)
                    break
                except _Gone:
                    self._stop()
            else:
                return Outcome(Status.KILLED, detail="the sandbox itself ended twice", busy=True)
        status = Status(answer.status)
        if status is not Status.OK:
            return Outcome(status, detail=answer.detail, busy=answer.busy)
        try:
            return Outcome(status, stdout=answer.stdout.decode(), hashes=answer.hashes)
        except UnicodeDecodeError:
            return Outcome(Status.ENCODING, detail="the output is not UTF-8")

    def held_layers(self) -> dict[str, int]:
        """The active layers, as tested in the server, by name. The value is 1, or for Landlock its version."""
        with self._lock:
            try:
                answer = self._ask(protocol.Request(b"", b"", 1, _START_SECONDS, 0, 0))
            except _Gone as error:
                self._stop()
                raise SandboxError("the sandbox ended during the test of its layers") from error
        held = (word.partition(":") for word in answer.detail.split())
        return {name: int(version or 1) for name, _, version in held}

    def close(self) -> None:
        """End the server. The next `run` starts a new one."""
        with self._lock:
            self._stop()

    def _forget(self) -> None:
        """In a forked child, release the parent's server and replace the lock, which the parent may have locked."""
        self._lock = threading.Lock()
        process, self._process = self._process, None
        if process is not None:
            _close_streams(process)
            process.returncode = 0  # not a child of this process, so Popen must not wait for it

    def _ask(self, request: protocol.Request) -> protocol.Answer:
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            protocol.write(self._process.stdin.fileno(), request.encode())
        except OSError as error:
            raise _Gone from error
        return self._read_answer(request.wall + _GRACE_SECONDS)

    def _start(self) -> None:
        seed = str(1 + 7919 * self.variant)
        environment = {"PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8:strict", "PYTHONUTF8": "1", "LC_ALL": "C"}
        folder = str(Path(__file__).parent)
        self._process = subprocess.Popen(
            [
                sys.executable,
                *(["-O"] if self.optimize else []),
                "-S",
                "-s",
                "-B",
                "-c",
                _BOOT,
                folder,
                str(self.variant),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd="/",
            bufsize=0,
            start_new_session=True,
        )
        try:
            self._read_answer(_START_SECONDS)
        except _Gone as error:
            assert self._process.stderr is not None
            self._process.kill()
            said = self._process.stderr.read().decode(errors="replace").strip().splitlines()
            self._stop()
            raise SandboxError(
                f"the sandboxed server cannot start: {said[-1] if said else 'it ended at once'}"
            ) from error
        assert self._process.stderr is not None
        self._process.stderr.close()

    def _read_answer(self, seconds: float) -> protocol.Answer:
        deadline = time.monotonic() + seconds
        header = self._read(protocol.ANSWER_HEADER, deadline)
        words, stdout = protocol.answer_size(header)
        texts = self._read(words + stdout, deadline)
        return protocol.decode_answer(header, texts[:words], texts[words:])

    def _read(self, count: int, deadline: float) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        pieces: list[bytes] = []
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        while count:
            if not poll.poll(max(deadline - time.monotonic(), 0.0) * 1000):
                raise _Gone
            piece = os.read(handle, count)
            if not piece:
                raise _Gone
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            _close_streams(process)
            process.kill()
            process.wait()


def _close_streams(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


_sandboxes: weakref.WeakSet[Sandbox] = weakref.WeakSet()


@atexit.register
def _kill_all() -> None:
    """End all servers without their locks, because a thread may hold a lock during a long run."""
    for sandbox in list(_sandboxes):
        process = sandbox._process
        if process is not None:
            process.kill()


def _forget_all() -> None:
    for sandbox in list(_sandboxes):
        sandbox._forget()


os.register_at_fork(after_in_child=_forget_all)
