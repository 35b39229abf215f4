"""One function over many items, in this process or on Ray: the same results in order, with any number of workers.

    with Workers(4) as workers:
        for length in workers.map(solve, tasks):
            ...

The function and the items must be picklable. Every item's randomness has to come from the item itself, see
`veritas_rl.seeding`. Ray is started on this machine, with as many CPUs as there are workers, and ended with `Workers`;
where `RAY_ADDRESS` names a cluster, it is joined. What the workers print goes to Ray's logs alone.
"""

import logging
import os
import pickle
import socket
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeVar

from veritas_rl.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")

AUTO = "auto"
ADDRESS = "RAY_ADDRESS"

PATIENCE = 10.0
"""How many seconds `auto` works in this process before it starts Ray, which itself takes some."""

LEAST_CHUNK = 0.1
"""The least seconds for which a worker is given items, by what earlier ones took."""

DRIVER_SECONDS = 0.002
"""What a chunk of items may take of the driver: the more workers there are, the larger are their chunks."""

MOST_IN_A_CHUNK = 256
AHEAD = 16
"""So many chunks of each worker may wait for an earlier one, so that one slow item holds up nobody."""

RETRIES = 1
"""How often Ray repeats a chunk whose worker died, as with the node that it was on."""

OBJECT_STORE = 512 * 2**20
"""Bytes of the memory through which Ray's own processes on this machine share what is large."""

CONNECT_SECONDS = 5.0
SHOWN_CHARACTERS = 200
"""How much of an item is quoted in an error."""


def available_cores() -> int:
    """How many CPU cores this process may run on."""
    return len(os.sched_getaffinity(0))


def read_workers(text: str) -> "Workers":
    """The workers that a person asked for.

    Raises:
        UserError: It is neither "auto" nor a number of at least 1.
    """
    if text == AUTO:
        return Workers(None)
    if not text.isdecimal() or not int(text):
        raise UserError(f"--workers takes {AUTO} or a number of at least 1, {text!r} was given")
    return Workers(int(text))


class Workers:
    """Those who share work. A context: what was started for them ends with it.

    Args:
        count: How many; 1 works in this process and needs no Ray. None: one for each core of this machine, once the
            work has taken `PATIENCE` seconds in this process, or one for each CPU of the cluster at `RAY_ADDRESS`.

    Raises:
        ValueError: `count` is less than 1.
    """

    def __init__(self, count: int | None = 1) -> None:
        if count is not None and count < 1:
            raise ValueError(f"there is one worker at least, {count} was given")
        self._count = count
        self._patience = PATIENCE if count is None else 0.0
        self._remote: Any = None

    def __enter__(self) -> "Workers":
        """Join the cluster, where one is named.

        Raises:
            UserError: There is none at `RAY_ADDRESS`.
        """
        if os.environ.get(ADDRESS, "local") != "local" and self._count != 1:
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._remote is not None:
            import ray

            self._remote = None
            ray.shutdown()

    @property
    def several(self) -> bool:
        """Whether the work may be shared with other processes."""
        return (self._count or available_cores()) > 1

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply a function to every item.

        Args:
            function: A function of a module, or a partial of one.
            items: What it is applied to. They are read as they are needed, a little ahead of the results.

        Yields:
            The results in the order of the items.

        Raises:
            Exception: What the function raised, after the results of all items before. A note names the item.
            RuntimeError: A worker died, for example for lack of memory; the message names the item.
            UserError: Ray cannot be started, or its workers cannot run this code.
        """
        numbered = enumerate(items)
        while head := list(islice(numbered, 2)):
            # One item alone takes as long here.
            if len(head) == 2 and self.several and self._patience <= 0:
                if self._remote is None:
                    self._start()
                yield from _Shared(self._remote, self._count or 1, function, chain(head, numbered)).results()
                return
            for index, item in head:
                started = time.monotonic()
                try:
                    result = function(item)
                except Exception as error:
                    error.add_note(_named(index, item))
                    raise
                self._patience -= time.monotonic() - started
                yield result

    def _start(self) -> None:
        import ray

        address = os.environ.get(ADDRESS) or "local"
        own: dict[str, Any] = {}
        if address == "local":
            self._count = self._count or available_cores()
            own = {"num_cpus": self._count, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
        else:
            _check_address(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
            self._count = self._count or max(1, int(ray.cluster_resources().get("CPU", 1)))
        except Exception as error:  # whatever Ray raises, of which there is much
            ray.shutdown()
            where = "start" if address == "local" else f"let itself be joined at {ADDRESS}={address}"
            raise UserError(f"Ray does not {where} ({_last_line(error)}): --workers 1 works without it") from error
        self._remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_work)


def _check_address(address: str) -> None:
    """Refuse an address at which nobody listens: Ray would ask there for a long time.

    Raises:
        UserError: It has another form, or there is nobody.
    """
    if address == "auto":
        return
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal():
        raise UserError(f"{ADDRESS}={address} is no address of a Ray cluster: HOST:PORT, such as 10.0.0.1:6379")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"no Ray answers at {ADDRESS}={address} ({error}): start its head with bash train/scripts/ray-cluster.sh "
            f"head, or unset {ADDRESS} to work on this machine"
        ) from None


@dataclass
class _Done:
    """What a worker made of a chunk.

    Attributes:
        results: Those of its items, up to the first that failed.
        failure: What that one raised.
        seconds: How long it took.
    """

    results: list[Any]
    failure: Exception | None
    seconds: float


class _Shared:
    """One call of `Workers.map` on Ray: each worker has one chunk at a time, and the driver puts them in order."""

    def __init__(
        self, remote: Any, count: int, function: Callable[[Any], Any], items: Iterator[tuple[int, Any]]
    ) -> None:
        import ray

        self._remote = remote
        self._count = count
        self._function = ray.put(function)
        self._items = items
        self._again: list[list[tuple[int, Any]]] = []
        """What is given out once more, an item at a time, because a worker died of a chunk with it."""
        self._working: dict[Any, list[tuple[int, Any]]] = {}
        self._done: dict[int, tuple[list[tuple[int, Any]], _Done]] = {}
        """What waits for earlier items, by where it starts."""
        self._seconds, self._number = 0.0, 0
        self._stopped = False

    def results(self) -> Iterator[Any]:
        """The results in order."""
        import ray

        following: int | None = None
        try:
            while True:
                self._give_out()
                if following is None:
                    following = min((chunk[0][0] for chunk in self._working.values()), default=0)
                if not self._working:
                    return
                working = list(self._working)
                ray.wait(working, num_returns=1, fetch_local=False)
                for ready in ray.wait(working, num_returns=len(working), timeout=0)[0]:
                    self._take(ready)
                self._give_out()
                while following in self._done:
                    chunk, done = self._done.pop(following)
                    yield from done.results
                    following += len(done.results)
                    if done.failure is not None:
                        done.failure.add_note(_named(*chunk[len(done.results)]))
                        raise done.failure
        finally:
            for ready in self._working:
                with suppress(Exception):
                    ray.cancel(ready)

    def _give_out(self) -> None:
        while len(self._working) < self._count:
            chunk = self._again.pop(0) if self._again else self._next()
            if not chunk:
                return
            self._working[self._remote.remote(self._function, [item for _, item in chunk])] = chunk

    def _next(self) -> list[tuple[int, Any]]:
        if self._stopped or len(self._done) >= AHEAD * self._count:
            return []
        size = 1
        if self._number:
            wanted = max(LEAST_CHUNK, self._count * DRIVER_SECONDS)
            size = max(1, min(MOST_IN_A_CHUNK, int(wanted * self._number / max(self._seconds, 1e-9))))
        return list(islice(self._items, size))

    def _take(self, ready: Any) -> None:
        import ray

        chunk = self._working.pop(ready)
        try:
            done: _Done = ray.get(ready)
        except (
            ray.exceptions.WorkerCrashedError,
            ray.exceptions.NodeDiedError,
            ray.exceptions.OutOfMemoryError,
        ) as error:
            if len(chunk) > 1:
                self._again += [[one] for one in chunk]
                return
            done = _Done([], RuntimeError(f"a worker died {_named(*chunk[0])} ({_last_line(error)})"), 0.0)
        except ray.exceptions.RayError as error:
            raise UserError(
                f"a worker cannot run this code ({_last_line(error)}): each node needs the same checkout under the "
                "same path, and bash train/scripts/setup.sh"
            ) from error
        self._stopped |= done.failure is not None
        self._number += len(done.results)
        self._seconds += done.seconds
        self._done[chunk[0][0]] = chunk, done


def _work(function: Callable[[Any], Any], items: Sequence[Any]) -> _Done:
    """Apply a function to some items; runs in a worker."""
    started, results = time.monotonic(), []
    for item in items:
        try:
            result = function(item)
            results.append(result)
        except Exception as error:
            return _Done(results, _portable(error), time.monotonic() - started)
    return _Done(results, None, time.monotonic() - started)


def _portable(error: Exception) -> Exception:
    """An exception that survives the way to another process, with its traceback as a note."""
    error.add_note("".join(traceback.format_exception(error)).rstrip())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _named(index: int, item: object) -> str:
    shown = repr(item)
    return f"at item {index}: {shown if len(shown) <= SHOWN_CHARACTERS else shown[:SHOWN_CHARACTERS] + '...'}"


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
