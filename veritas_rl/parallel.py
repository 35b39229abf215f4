"""Apply a function to many items in this process or on Ray. The results do not depend on the number of workers.

    with Workers(4) as workers:
        for length in workers.map(solve, tasks):
            ...

The function and the items must be picklable. Every item's randomness must come from the item itself, see
`veritas_rl.seeding`. Ray is started on this machine, with one CPU per worker, and ends with `Workers`. If `RAY_ADDRESS`
names a cluster, the workers join it. Output of the workers only goes to Ray's logs.
"""

import logging
import os
import pickle
import socket
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeVar

from veritas_rl.errors import UserError, last_line
from veritas_rl.node_versions import check_nodes
from veritas_rl.paths import has_token

Item = TypeVar("Item")
Result = TypeVar("Result")

AUTO = "auto"
ADDRESS = "RAY_ADDRESS"

PATIENCE = 10.0
"""Seconds that `auto` works in this process before it starts Ray, whose start also takes time."""

LEAST_CHUNK = 0.1
"""The minimum expected time of a chunk, in seconds."""

DRIVER_SECONDS = 0.002
"""The driver's time per chunk, in seconds. With more workers the chunks are larger."""

MOST_IN_A_CHUNK = 256
AHEAD = 16
"""The number of finished chunks per worker that may wait for an earlier chunk, so that a slow item does not block
other items."""

RETRIES = 1
"""How often Ray repeats a chunk whose worker died."""

OBJECT_STORE = 512 * 2**20
"""The size of Ray's object store on this machine, in bytes."""

CONNECT_SECONDS = 5.0
SHOWN_CHARACTERS = 200
"""How many characters of an item an error quotes."""


def available_cores() -> int:
    """The number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def read_workers(text: str) -> "Workers":
    """Parse the option --workers.

    Raises:
        UserError: The text is neither "auto" nor a number of at least 1.
    """
    if text == AUTO:
        return Workers(None)
    if not text.isdecimal() or not int(text):
        raise UserError(f"--workers must be {AUTO} or a number of at least 1, not {text!r}")
    return Workers(int(text))


class Workers:
    """Workers that share work. A context manager, at whose end the started processes end.

    Args:
        count: The number of workers; 1 works in this process without Ray. None: one per core of this machine after
            `PATIENCE` seconds of work in this process, or one per CPU of the cluster at `RAY_ADDRESS`.

    Raises:
        ValueError: `count` is less than 1.
    """

    def __init__(self, count: int | None = 1) -> None:
        if count is not None and count < 1:
            raise ValueError(f"the number of workers must be at least 1, not {count}")
        self._count = count
        self._patience = PATIENCE if count is None else 0.0
        self._remote: Any = None

    def __enter__(self) -> "Workers":
        """Join the cluster, if one is named.

        Raises:
            UserError: No cluster answers at `RAY_ADDRESS`, or one of its nodes has other versions.
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

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
        """Apply a function to every item.

        Args:
            function: A module-level function, or a partial of such a function.
            items: The items. They are read lazily, a little ahead of the results.

        Yields:
            The results in the order of the items.

        Raises:
            Exception: The function's exception, after the results of all earlier items. A note names the item.
            RuntimeError: A worker died, for example because memory ran out. The message names the item.
            UserError: Ray cannot be started, or a node of the cluster has other versions or cannot run this code.
        """
        numbered = enumerate(items)
        while head := list(islice(numbered, 2)):
            # A single item does not gain from another process.
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
        address = os.environ.get(ADDRESS) or "local"
        if address != "local":
            _check_address(address)
            if has_token():
                # A head requires its token by default, and a driver sends none. Ray reads this when imported.
                os.environ.setdefault("RAY_AUTH_MODE", "token")
        import ray

        own: dict[str, Any] = {}
        if address == "local":
            self._count = self._count or available_cores()
            own = {"num_cpus": self._count, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
            self._count = self._count or max(1, int(ray.cluster_resources().get("CPU", 1)))
        except Exception as error:  # Ray raises many types of errors
            ray.shutdown()
            where = "start" if address == "local" else f"let itself be joined at {ADDRESS}={address}"
            raise UserError(f"Ray does not {where} ({_reason(error)}): --workers 1 works without it") from error
        if address != "local":
            try:
                check_nodes()
            except BaseException:
                ray.shutdown()
                raise
        self._remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_work)


def _check_address(address: str) -> None:
    """Refuse an address without a listener, which Ray would try for a long time.

    Raises:
        UserError: The address is malformed, or nothing listens there.
    """
    if address == "auto":
        return
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal():
        raise UserError(
            f"{ADDRESS}={address} is not the address of a Ray cluster: use HOST:PORT, such as 10.0.0.1:6379"
        )
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"no Ray cluster answers at {ADDRESS}={address} ({error}): start its head with bash "
            f"train/scripts/ray-cluster.sh head, or unset {ADDRESS} to work on this machine"
        ) from None


@dataclass
class _Done:
    """A worker's results of a chunk.

    Attributes:
        results: The results of its items, up to the first failure.
        failure: The exception of the first failure.
        seconds: The time of the chunk.
    """

    results: list[Any]
    failure: Exception | None
    seconds: float


class _Shared:
    """One call of `Workers.map` on Ray. Each worker has one chunk at a time, and the driver orders the results."""

    def __init__(
        self, remote: Any, count: int, function: Callable[[Any], Any], items: Iterator[tuple[int, Any]]
    ) -> None:
        import ray

        self._remote = remote
        self._count = count
        self._function = ray.put(function)
        self._items = items
        self._again: list[list[tuple[int, Any]]] = []
        """Items of a chunk whose worker died. They are repeated one at a time."""
        self._working: dict[Any, list[tuple[int, Any]]] = {}
        self._done: dict[int, tuple[list[tuple[int, Any]], _Done]] = {}
        """Results that wait for earlier items, by their start."""
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
        from ray import exceptions

        chunk = self._working.pop(ready)
        try:
            done: _Done = ray.get(ready)
        except (
            exceptions.WorkerCrashedError,
            exceptions.NodeDiedError,
            exceptions.OutOfMemoryError,
        ) as error:
            if len(chunk) > 1:
                self._again += [[one] for one in chunk]
                return
            done = _Done([], RuntimeError(f"a worker died {_named(*chunk[0])} ({_reason(error)})"), 0.0)
        except exceptions.RayError as error:
            raise UserError(
                f"a worker cannot run this code ({_reason(error)}): use the same checkout under the same path on "
                "each node, and run bash train/scripts/setup.sh"
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
    """An exception that can be pickled, with its traceback as a note."""
    error.add_note("".join(traceback.format_exception(error)).rstrip())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _named(index: int, item: object) -> str:
    shown = repr(item)
    return f"at item {index}: {shown if len(shown) <= SHOWN_CHARACTERS else shown[:SHOWN_CHARACTERS] + '...'}"


def _reason(error: Exception) -> str:
    return last_line(str(error), type(error).__name__)
