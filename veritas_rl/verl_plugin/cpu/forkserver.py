"""Start the processes of a CPU run by forking a process that has already imported torch and transformers.

    python -m veritas_rl.verl_plugin.cpu.forkserver -m verl.trainer.main_ppo ...       # the server, and its first child
    python -I -S veritas_rl/verl_plugin/cpu/forkserver.py default_worker.py ...       # what Ray calls instead of Python

verl trains with about ten processes. Most wait for the previous process, and each imports the same modules for five
seconds. The server imports most of them once and then only forks: first the driver, then each Python worker of the
driver's Ray. Ray calls this script as `ray_init.runtime_env.py_executable`, and this client requests a worker over a
Unix socket. The worker gets the client's script, arguments, environment, folder and streams. The client stays alive,
because Ray knows its process id: it forwards signals, and exits with the worker's exit code.

All processes end together. The kernel kills the children with the server, the server kills a worker whose client has
ended and ends with the driver, and a client ends with its server. The server is only for CPUs, because CUDA does not
survive a fork, and it forks only while it has one thread. Otherwise processes start normally. A worker also starts
normally if its environment differs in variables that Python and libraries read at import, such as PYTHONHASHSEED.
"""

import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import select
import shlex
import signal
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

PRELOADED = (
    *("torch.distributed.fsdp", "tensordict", "transformers.models.qwen3.modeling_qwen3", "peft", "datasets", "pandas"),
    *("torchdata.stateful_dataloader", "hydra", "fastapi", "uvicorn", "requests", "pyspiel"),
)
"""The modules that take most of the time of `import verl`. verl is not included, because it imports Ray, which reads
the job at import."""

SOCKET = "VERITAS_RL_FORKSERVER"
"""The environment variable with the server's socket."""

WORKER_PYTHON = shlex.join([sys.executable, "-I", "-S", __file__])
"""The command that Ray calls instead of Python."""

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Variables that prevent numpy, scipy and pyarrow from starting threads at import. On x86-64 torch uses MKL, so the
limit for OpenBLAS does not slow it down."""

READ_AT_START = (
    "PYTHON",
    "LD_",
    "OMP_",
    "GOMP_",
    "OPENBLAS_",
    "MKL_",
    "CUDA_VISIBLE",
    "TORCH_",
    "HF_",
    "VERL_PLATFORM",
)
"""The prefixes of variables that the server's imports have read."""

REFUSED = b"0\n"
"""The answer to a client instead of a process id."""

DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""

HANDED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that must be equal in a worker and its server."""
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}


def same_user(peer: socket.socket) -> bool:
    """Whether the peer of a Unix socket is a process of this user. The name of the socket is not secret."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1] == os.getuid()


def exit_code(child: int) -> int:
    """Wait for a child, and return its exit code in the shell's convention."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


class Signals:
    """The signals that this process forwards.

    They arrive through a socket, because a Python handler does not run during a `select` that starts just after the
    signal.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno())
        for number in HANDED_ON:
            signal.signal(number, lambda *_: None)

    def fileno(self) -> int:
        """The file descriptor for `select`."""
        return self._reader.fileno()

    def hand_on(self, process: int) -> None:
        """Forward received signals to a process."""
        for number in self._reader.recv(64):
            os.kill(process, number)

    def stop(self) -> None:
        """Restore the default signal handling."""
        signal.set_wakeup_fd(-1)
        for number in HANDED_ON:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        self._reader.close()
        self._writer.close()


class Server:
    """Forks this process for every request.

    Attributes:
        name: The name of its abstract socket, which leaves no file behind.
    """

    def __init__(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind("")
        self._listener.listen()
        self.name = self._listener.getsockname()[1:].decode()
        self._children: dict[int, tuple[int, socket.socket]] = {}
        """The process id and the client of each worker, by its pidfd."""
        self._signals = Signals()
        self._environment = read_at_start(os.environ)
        self._process = os.getpid()

    def serve(self, first: int) -> int | list[str]:
        """Answer requests until the driver ends.

        Args:
            first: The process id of the driver.

        Returns:
            The driver's exit code. In each forked process, the script and arguments to run.
        """
        last = os.pidfd_open(first)
        while True:
            watched: dict[Any, int] = {asker: ended for ended, (_, asker) in self._children.items()}
            watched |= {ended: ended for ended in self._children}
            ready, _, _ = select.select([last, self._signals, self._listener, *watched], [], [])
            if last in ready:
                return exit_code(first)
            if self._signals in ready:
                self._signals.hand_on(first)
            for ended in {watched[file] for file in ready if file in watched}:
                self._finish(ended)
            if self._listener in ready:
                arguments = self._answer(self._listener.accept()[0])
                if arguments is not None:
                    os.close(last)
                    return arguments

    def fork(self) -> int:
        """Fork. Returns the child's id in the server, and 0 in the child. The child dies with the server and closes the
        server's files."""
        child = os.fork()
        if child == 0:
            ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
            if os.getppid() != self._process:
                os._exit(1)
            self._listener.close()
            for ended, (_, asker) in self._children.items():
                os.close(ended)
                asker.close()
            self._signals.stop()
            # New processes have random seeds. Python reseeds its own generator after a fork.
            sys.modules["numpy"].random.seed()
            sys.modules["torch"].default_generator.seed()
        return child

    def _answer(self, asker: socket.socket) -> list[str] | None:
        """Fork for a client, or refuse, so that the client starts Python itself. In the child, returns as `serve`."""
        request, streams = self._read(asker)
        child = self.fork() if request else None
        if child == 0:
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            os.chdir(request["folder"])
            os.environ.clear()
            os.environ.update(request["environment"])
        for stream in streams:
            os.close(stream)
        if child == 0:
            asker.close()
            return request["arguments"]
        with contextlib.suppress(OSError):
            asker.sendall(b"%d\n" % child if child else REFUSED)
        if child:
            self._children[os.pidfd_open(child)] = child, asker
        else:
            asker.close()
        return None

    def _read(self, asker: socket.socket) -> tuple[dict[str, Any], list[int]]:
        """Read a client's request and streams; both are empty if the request is refused."""
        streams: list[int] = []
        with contextlib.suppress(OSError, ValueError):
            if same_user(asker):
                message, streams, _, _ = socket.recv_fds(asker, 1 << 16, 3)
                with asker.makefile("rb") as rest:
                    request = json.loads(message if message.endswith(b"\n") else message + rest.readline())
                if read_at_start(request["environment"]) == self._environment:
                    return request, streams
        return {}, streams

    def _finish(self, ended: int) -> None:
        child, asker = self._children.pop(ended)
        os.kill(child, signal.SIGKILL)
        with contextlib.suppress(OSError):
            asker.sendall(b"%d\n" % exit_code(child))
        asker.close()
        os.close(ended)


def ask(arguments: list[str]) -> NoReturn:
    """Let the server run a script, and exit with its exit code. Without a server, replace this process with Python.

    Args:
        arguments: The script and its arguments.
    """
    request = {"arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ)}
    replies = io.BytesIO(REFUSED)
    server = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(KeyError, OSError):
        server.connect("\0" + os.environ[SOCKET])
        if same_user(server):
            message = json.dumps(request).encode() + b"\n"
            sent = socket.send_fds(server, [message], [0, 1, 2])
            server.sendall(message[sent:])
            replies = server.makefile("rb")
    said = replies.readline()
    if said == REFUSED:
        os.execv(sys.executable, [sys.executable, *arguments])
    if not said:  # The server was killed, and the worker with it.
        os._exit(128 + signal.SIGKILL)
    signals = Signals()
    while server not in select.select([server, signals], [], [])[0]:
        signals.hand_on(int(said))
    os._exit(int(replies.readline() or 128 + signal.SIGKILL))


def preload() -> bool:
    """Import the modules if this run uses the server, and return whether this process may be forked.

    Raises:
        UserError: VERITAS_RL_CPU_PATCHES, which can turn the server off, is malformed.
    """
    from veritas_rl.verl_plugin.cpu import switch

    if os.environ.get("VERL_PLATFORM") != "cpu" or os.uname().machine != "x86_64":
        return False
    if switch.FORK_SERVER in switch.left_off():
        return False
    os.environ.update({**ONE_THREAD, **os.environ})
    for name in PRELOADED:
        importlib.import_module(name)
    # Frozen objects are ignored by the children's garbage collectors, which would otherwise copy their pages.
    gc.freeze()
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:  # Linux before 5.3
        return False
    return len(list(Path("/proc/self/task").iterdir())) == 1 and "ray" not in sys.modules


def main(arguments: list[str]) -> None:
    """Run a module in a child, and fork for its workers. If that is not safe, run the module directly.

    Args:
        arguments: `-m`, the module, and its arguments.
    """
    if preload():
        server = Server()
        os.environ[SOCKET] = server.name
        if first := server.fork():
            outcome = server.serve(first)
            if isinstance(outcome, int):
                sys.exit(outcome)
            sys.argv, sys.path[0] = outcome, str(Path(outcome[0]).parent)
            runpy.run_path(outcome[0], run_name="__main__")
            return
    sys.argv = arguments[1:]
    runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    (main if sys.argv[1] == "-m" else ask)(sys.argv[1:])
