"""Makes servers differ in conditions that the output of a program must not depend on.

A program's output is accepted as the truth only if at least two servers agree on it. Servers differ in the hash seed
(set by the client), the addresses of objects, the clock and the process ids.
"""

import builtins
import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

_ADDRESS = (1 << 20) + (1 << 12)
_BALLAST = 3 << 20
_DAYS = 397.4
_PID = 100_000


def apply(number: int) -> None:
    """Change this interpreter into variant `number`, before `datetime` is imported. Variant 0 changes nothing.

    A variant's clock is `397.4 * number` days ahead. The C version of `datetime` reads the system clock, so the
    standard library's pure Python version replaces it, which reads the clock of the `time` module.
    """
    if number == 0:
        return
    _ballast.append(bytearray(_BALLAST * number))
    _ballast.extend(object() for _ in range(1000 * number))
    own_id = id
    # The interpreter's own objects, such as "x", have fixed addresses where it is built without -pie, as Debian's is.
    builtins.id = lambda thing: own_id(thing) + _ADDRESS * number
    sys.modules["_datetime"] = None  # type: ignore[assignment]
    shift = _DAYS * 86400 * number
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + shift
    time.time_ns = lambda: now_ns() + int(shift * 1e9)
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, _with_shifted_default(getattr(time, name), time.time))
    time.strftime = _with_default_tuple(time.strftime)
    time.asctime = _with_default_tuple(time.asctime)
    own_pid = os.getpid
    os.getpid = lambda: own_pid() + _PID * number
    if (posix := sys.modules.get("posix")) is not None:
        posix.getpid = os.getpid  # type: ignore[attr-defined]


_ballast: list[object] = []
"""Objects that only shift later objects to other addresses, in case the kernel does not randomize addresses."""


def _with_shifted_default(function: Callable[[float], Any], now: Callable[[], float]) -> Callable[..., Any]:
    @functools.wraps(function)
    def shifted(seconds: float | None = None) -> Any:
        return function(now() if seconds is None else seconds)

    return shifted


def _with_default_tuple(function: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(function)
    def shifted(*arguments: Any) -> str:
        wanted = 2 if function.__name__ == "strftime" else 1
        return function(*arguments) if len(arguments) >= wanted else function(*arguments, time.localtime())

    return shifted
