"""The sandboxed server: a small clean interpreter that confines itself once, and forks a process for each program.

`veritas_rl.envs.trace.sandbox.client` starts it. It reads requests from standard input and writes answers to standard
output, in the form of `protocol`. In a pid namespace it is process 1: all processes that a program leaves behind become
its children, and one signal ends them.
"""

import _sitebuiltins
import builtins
import contextlib
import gc
import importlib
import mmap
import os
import resource
import signal
import sys
import time
from typing import NoReturn

from . import filter as system_calls
from . import kernel, probes, program, protocol, variant, watch

PRELOADED = [
    "abc",
    "bisect",
    "cmath",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "itertools",
    "json",
    "math",
    "operator",
    "random",
    "re",
    "statistics",
    "string",
    "textwrap",
    "types",
    "typing",
]
"""Modules that programs often use, imported once in the server instead of in each program's process."""

_MOST_FILES = 32
_REQUESTS, _ANSWERS = 30, 31
_PARENT_CHECK_SECONDS = 2.0


class Server:
    """Runs one program after another.

    Attributes:
        layers: The layers that the kernel accepted: 0 or 1 for each name, for Landlock its version.
    """

    def __init__(self, layers: dict[str, int], folders: list[str]) -> None:
        self.layers = layers
        self._report = mmap.mmap(-1, program.REPORT_BYTES)
        self._filter = system_calls.compile_filter() if layers["privileges"] else None
        self._watch = watch.forbid(folders, self._end_forbidden)

    def _end_forbidden(self, what: str) -> NoReturn:
        program.write_report(self._report, "forbidden", what)
        os._exit(0)

    def serve(self) -> None:
        """Answer requests until the client closes the pipe. In a program's process, return after the program."""
        while (request := protocol.read_request(_REQUESTS)) is not None:
            if not request.source:
                protocol.write(_ANSWERS, protocol.Answer("layers", probes.probe(self.layers, self._filter)).encode())
                continue
            answer = self._run(request)
            if answer is None:
                return
            protocol.write(_ANSWERS, answer.encode())

    def _run(self, request: protocol.Request) -> protocol.Answer | None:
        """Run a program in its own process.

        Returns:
            The answer; None in the program's process, after the program, when the interpreter may shut down.
        """
        program.clear_report(self._report)
        output = os.memfd_create("stdout")
        start = time.monotonic()
        child = os.fork()
        if child == 0:
            self._become_program(request, output)
            program.run(request.source, self._report)
            return None
        try:
            status, used = self._wait(child, request.wall)
            # A program that used the CPU for less than half of its time may have waited for a busy machine.
            busy = used < (time.monotonic() - start) / 2
            size = os.fstat(output).st_size
            stdout = os.pread(output, size, 0) if size <= request.output else None
        finally:
            os.close(output)
        return self._answer(request, status, used, busy, stdout)

    def _become_program(self, request: protocol.Request, output: int) -> None:
        """In the new process, set up the standard streams, then the limits, then the filter, then the audit hook."""
        os.dup2(output, 1)
        if request.stdin:
            given = os.memfd_create("stdin")
            protocol.write(given, request.stdin)
            os.lseek(given, 0, os.SEEK_SET)
            os.dup2(given, 0)
        os.closerange(3, _MOST_FILES)
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        set_limits(request)
        if self._filter is not None and not self._filter.install():
            os._exit(70)
        gc.enable()
        self._watch()

    def _wait(self, child: int, wall: float) -> tuple[int | None, float]:
        """Wait for a process, and kill all processes that it leaves behind.

        Returns:
            Its wait status, or None after a timeout, and its used CPU seconds.
        """
        deadline = time.monotonic() + wall
        over = False
        while True:
            # One SIGCHLD may report several processes, so wait4 checks for the program's own process id.
            signal.sigtimedwait((signal.SIGCHLD,), max(deadline - time.monotonic(), 0.0) if not over else 1.0)
            ended, status, usage = os.wait4(child, os.WNOHANG)
            if ended:
                self._kill_rest(child)
                return None if over else status, usage.ru_utime + usage.ru_stime
            if not over and time.monotonic() >= deadline:
                over = True
                os.kill(child, signal.SIGKILL)

    def _kill_rest(self, child: int) -> None:
        """Kill the remaining processes: all others of the pid namespace, or without one the child's process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.layers["pid"]:
                os.kill(-1, signal.SIGKILL)
            else:
                os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, 0 if self.layers["pid"] else os.WNOHANG)[0]:
                pass

    def _answer(
        self, request: protocol.Request, status: int | None, used: float, busy: bool, stdout: bytes | None
    ) -> protocol.Answer:
        """The result of the program, from its own report and from the wait status of its process."""
        reported, detail = program.read_report(self._report)
        if reported == "forbidden":
            return protocol.Answer(reported, detail)
        if status is None:
            detail = f"{request.wall:g} s of wall time, {used:.1f} s of it on the CPU"
            return protocol.Answer("timeout", detail, busy=busy)
        if stdout is None:
            return protocol.Answer("output", f"more than {request.output} bytes")
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number == signal.SIGXCPU or (number == signal.SIGKILL and used >= request.cpu):
                return protocol.Answer("timeout", f"{request.cpu} s of CPU time")
            if number == signal.SIGSYS:
                return protocol.Answer("forbidden", "a system call that the sandbox forbids")
            return protocol.Answer("killed", signal.Signals(number).name)
        code = os.WEXITSTATUS(status)
        if not reported:
            return protocol.Answer("killed", f"the process ended itself with code {code}")
        if reported == "ok" and code != 0:
            return protocol.Answer("error", f"code {code} while the interpreter shut down")
        hashes = program.may_use_hashes(self._report)
        return protocol.Answer(reported, detail, stdout if reported == "ok" else b"", hashes=hashes)


def set_limits(request: protocol.Request) -> None:
    """Set the kernel's limits on this process permanently."""
    for kind, soft, hard in (
        (resource.RLIMIT_CPU, request.cpu, request.cpu + 1),
        (resource.RLIMIT_AS, request.memory, request.memory),
        # One byte above the output limit shows that the limit was exceeded.
        (resource.RLIMIT_FSIZE, request.output + 1, request.output + 1),
        (resource.RLIMIT_NPROC, 0, 0),
    ):
        resource.setrlimit(kind, (soft, hard))


def main(number: int) -> None:
    """Set up the layers and serve.

    Args:
        number: The number of the variant, see `variant`.
    """
    os.dup2(0, _REQUESTS)
    os.dup2(1, _ANSWERS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST_FILES, _MOST_FILES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = os.getppid()
    folders = kernel.readable_folders()
    namespaces = kernel.enter_namespaces()
    server = os.fork()
    if server:
        _guard(server, parent)
    kernel.die_with_parent()
    variant.apply(number)
    # Module `site`, which the server starts without, would define them.
    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    for name in PRELOADED:
        importlib.import_module(name)
    sys.path[:] = [path for path in sys.path if path.startswith(tuple(folders))]
    sys.argv[:] = ["program.py"]
    for name in [name for name in sys.modules if name.partition(".")[0] == __name__.partition(".")[0]]:
        del sys.modules[name]
    layers = {name: int(name in namespaces) for name in ("user", "net", "mount", "pid", "ipc", "uts")}
    layers["root"] = int("mount" in namespaces and kernel.leave_file_system(folders))
    layers["landlock"] = kernel.restrict_files(folders)
    layers["privileges"] = int(kernel.drop_privileges())
    instance = Server(layers, folders)
    os.dup2(0, 2)
    gc.collect()
    gc.freeze()
    gc.disable()
    protocol.write(_ANSWERS, protocol.Answer("ready").encode())
    instance.serve()


def _guard(server: int, parent: int) -> NoReturn:
    """Wait for the server, which is this process's child, and end both when the client's process has ended.

    The server also ends when the request pipe is closed, but a process that the client forked may keep the pipe open.
    """
    os.closerange(_REQUESTS, _ANSWERS + 1)
    while os.getppid() == parent:
        signal.sigtimedwait((signal.SIGCHLD,), _PARENT_CHECK_SECONDS)
        if os.waitpid(server, os.WNOHANG)[0]:
            break
    os._exit(0)
