"""The engine programs of this process: started once, locked, restarted after a crash, ended with the process.

An engine starts at its first request and keeps running. It processes the requests of several threads one at a time. A
forked child inherits no engine: it closes its copies of the pipes and starts its own engines. An engine ends with its
process: it is killed at exit, and if the process itself is killed, the engine reads the end of its input.
"""

import atexit
import importlib
import os
import select
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from veritas_rl.envs.openspiel.engines.spec import EngineSpec
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.errors import UserError

PATIENCE = 120.0
"""The seconds without an answer after which an engine with little work is considered to hang. Long work has more time,
see `LineProcess.ask`. This limit only detects hangs; it never limits a search."""

GAMES_FOLDERS = (Path("/usr/games"), Path("/usr/local/games"))
"""The folders in which Debian installs games; they are often not in PATH."""

T = TypeVar("T")


class EngineError(RuntimeError):
    """An engine crashed, hung, or gave an invalid answer."""


class Engine(Protocol):
    """A running engine."""

    def values(self, game: Game, state: State, player: int, scale: str) -> Mapping[int, float]:
        """The value in [0, 1] of each legal action of the player to move.

        Args:
            game: A case that the engine plays.
            state: The state of the decision.
            player: The player to move.
            scale: The scale from scores to values, see `Game.outcome`. It matters only if results are more than won,
                drawn and lost.

        Raises:
            EngineError: The engine failed.
        """
        ...

    def move(self, game: Game, state: State, player: int) -> int:
        """The engine's legal move.

        Raises:
            EngineError: The engine failed.
        """
        ...

    def close(self) -> None:
        """End the engine immediately."""
        ...

    def abandon(self) -> None:
        """Release the engine in a forked child, because it belongs to the parent."""
        ...


class HangError(EngineError):
    """An engine gave no answer within its time limit."""


class EnginePool:
    """The engines of this process, one for each name.

    Args:
        start: Starts the engine of a name.
    """

    def __init__(self, start: Callable[[EngineSpec], Engine]) -> None:
        self._start = start
        self._reset()
        self._abandoned: list[Engine] = []
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._abandon)

    def ask(self, spec: EngineSpec, request: Callable[[Engine], T]) -> T:
        """The answer of an engine. After a crash, the engine is restarted and the request is repeated once.

        Raises:
            EngineError: The engine failed twice, hung, or cannot be started.
        """
        with self._lock_of(spec):
            try:
                return request(self._running(spec))
            except EngineError as error:
                self._end(spec)
                if isinstance(error, HangError):
                    raise
            try:
                return request(self._running(spec))
            except EngineError:
                self._end(spec)
                raise

    def close(self) -> None:
        """End all engines of this process."""
        for engine in self._engines.values():
            engine.close()
        self._engines.clear()

    def _running(self, spec: EngineSpec) -> Engine:
        if spec not in self._engines:
            self._engines[spec] = self._start(spec)
        return self._engines[spec]

    def _end(self, spec: EngineSpec) -> None:
        engine = self._engines.pop(spec, None)
        if engine is not None:
            engine.close()

    def _lock_of(self, spec: EngineSpec) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault(spec, threading.Lock())

    def _reset(self) -> None:
        self._engines: dict[EngineSpec, Engine] = {}
        self._locks: dict[EngineSpec, threading.Lock] = {}
        self._guard = threading.Lock()

    def _abandon(self) -> None:
        # References are kept, so that garbage collection does not close the pipes a second time.
        self._abandoned += self._engines.values()
        for engine in self._engines.values():
            engine.abandon()
        # A lock that another thread had acquired at the fork would never be released in the child.
        self._reset()


class LineProcess:
    """A program that reads and writes lines.

    Args:
        command: The program and its arguments.
        name: The engine's name, for messages.
        environment: Environment variables in addition to the variables of this process.

    Raises:
        EngineError: The program cannot be started.
    """

    def __init__(self, command: Sequence[str], name: str, environment: dict[str, str] | None = None) -> None:
        self.name = name
        self._buffer = b""
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=os.environ | (environment or {}),
                # The engine ignores Ctrl-C, because this process ends it.
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"{name} cannot be started ({error})") from error

    def ask(self, text: str, is_last: Callable[[str], bool], work: float = 0.0) -> list[str]:
        """Send lines and read the answer.

        Args:
            text: The lines to send.
            is_last: Whether a line ends the answer.
            work: The seconds that the slowest machine may need; `PATIENCE` is added.

        Returns:
            The lines of the answer, including the last one.

        Raises:
            EngineError: The program ended, or gave no answer in time.
        """
        self._write(text.encode() + b"\n")
        deadline = time.monotonic() + PATIENCE + work
        lines = [self._line(deadline)]
        while not is_last(lines[-1]):
            lines.append(self._line(deadline))
        return lines

    def close(self) -> None:
        """Kill the program."""
        self._process.kill()
        self._process.wait()
        self.abandon()

    def abandon(self) -> None:
        """Close this process's ends of the pipes."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            while data:
                data = data[self._process.stdin.write(data) :]
        except (OSError, ValueError) as error:
            raise self._ended() from error

    def _line(self, deadline: float) -> str:
        assert self._process.stdout is not None
        readable = select.poll()  # unlike select.select, poll accepts file descriptors of any size
        readable.register(self._process.stdout, select.POLLIN)
        while b"\n" not in self._buffer:
            if not readable.poll(1000 * max(0.0, deadline - time.monotonic())):
                raise HangError(f"{self.name} hangs: it gave no answer and was killed")
            chunk = os.read(self._process.stdout.fileno(), 65536)
            if not chunk:
                raise self._ended()
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    def _ended(self) -> EngineError:
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return EngineError(f"{self.name} closed its output and was killed")
        return EngineError(f"{self.name} crashed (exit code {code})")


def find_program(spec: EngineSpec) -> str:
    """The path of an engine's program.

    Raises:
        UserError: The program is not installed.
    """
    kind = spec.kind
    folders = os.pathsep.join([os.environ.get("PATH", ""), *map(str, GAMES_FOLDERS)])
    found = shutil.which(kind.program, path=folders)
    if found is None:
        raise UserError(
            f"{kind.name} needs the program {kind.program}, which is not installed; install it: {kind.install}"
        )
    return found


def find_library(spec: EngineSpec, module: str) -> Any:
    """A module of the library that an engine needs.

    Raises:
        UserError: The library is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"{spec.kind.name} needs the Python package {spec.kind.library} ({error}); install it: "
            "bash train/scripts/setup.sh engines"
        ) from error
