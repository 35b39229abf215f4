"""Tests each layer of the sandbox in a process with that layer and as few other layers as possible."""

import errno
import os
import resource
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from . import filter as system_calls

_UNROUTED = ("192.0.2.1", 9)
"""An address that RFC 5737 reserves for documentation."""
_HELD, _OPEN = 0, 1
_MEMORY = 1 << 30


def probe(layers: dict[str, int], code: system_calls.Filter | None) -> str:
    """Test the layers.

    Args:
        layers: The kernel's results when the layers were set up, as in `Server.layers`.
        code: The filter of system calls; None without a filter.

    Returns:
        The names of the active layers, separated by spaces; Landlock with its version: `limits landlock:7`.
    """
    held = {
        "limits": _holds(_memory_is_limited) and _holds(_output_is_limited),
        "processes": _holds(_forks_are_limited),
        "user": bool(layers["user"]),
        "network": bool(layers["net"]) and _holds(_network_is_unreachable),
        "pid": os.getpid() == 1,
        "root": bool(layers["root"]) and not Path("/etc/passwd").exists() and _holds(_root_is_read_only),
        "privileges": bool(layers["privileges"]) and _holds(_root_cannot_change),
        "seccomp": code is not None and _ended_by(lambda: _open_socket(code)) == signal.SIGSYS,
    }
    names = [name for name, holds in held.items() if holds]
    if layers["landlock"] and _holds(_root_is_unreadable):
        names.append(f"landlock:{layers['landlock']}")
    return " ".join(names)


def _fork(action: Callable[[], int]) -> int:
    """The wait status of a child process that calls `action` and exits with its result."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(action())
        except BaseException:
            os._exit(_OPEN)
    return os.waitpid(child, 0)[1]


def _holds(action: Callable[[], int]) -> bool:
    status = _fork(action)
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == _HELD


def _ended_by(action: Callable[[], int]) -> int:
    status = _fork(action)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def _memory_is_limited() -> int:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    try:
        bytearray(2 * _MEMORY)
    except MemoryError:
        return _HELD
    return _OPEN


def _output_is_limited() -> int:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
    return _refused(errno.EFBIG, lambda: os.pwrite(os.memfd_create("probe"), b"x", 1))


def _forks_are_limited() -> int:
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    try:
        if os.fork() == 0:
            os._exit(0)
    except BlockingIOError:
        return _HELD
    return _OPEN


def _network_is_unreachable() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        return _refused(errno.ENETUNREACH, lambda: connection.connect(_UNROUTED))


def _root_is_read_only() -> int:
    return _refused((errno.EROFS, errno.EACCES), Path("/probe").mkdir)


def _root_is_unreadable() -> int:
    return _refused(errno.EACCES, lambda: os.open("/", os.O_RDONLY | os.O_DIRECTORY))


def _root_cannot_change() -> int:
    return _refused(errno.EPERM, lambda: os.chroot("/"))


def _open_socket(code: system_calls.Filter) -> int:
    if not code.install():
        return _OPEN
    socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    return _OPEN


def _refused(number: int | tuple[int, ...], action: Callable[[], object]) -> int:
    try:
        action()
    except OSError as error:
        return _HELD if error.errno in (number if isinstance(number, tuple) else (number,)) else _OPEN
    return _OPEN
