"""One function applied to many items in several processes: the same results in any number of them.

    from veritas_rl.processes import map_in_processes
    lengths = map_in_processes(solve, tasks, processes=4)

The processes are spawned, so the function and the items must be picklable and the caller's main module must be safe to
import. Every item's randomness has to come from the item itself, see `veritas_rl.seeding`.
"""

import multiprocessing
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

CHUNKS_PER_PROCESS = 16
"""Into how many chunks a process's share is cut: enough to even out slow items, few enough to cost little."""
MOST_IN_A_CHUNK = 256
SHOWN_CHARACTERS = 200
"""How much of an item is quoted in an error."""


def available_cores() -> int:
    """How many CPU cores this process may run on."""
    return len(os.sched_getaffinity(0))


def map_in_processes(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    on_results: Callable[[Sequence[Result]], None] | None = None,
) -> list[Result]:
    """Apply a function to every item.

    Args:
        function: A function of a module; a lambda or a nested function cannot be sent to another process.
        items: What it is applied to.
        processes: How many processes to use, at most one for each item; 1 stays in this process. Default: one for each
            core that this process may run on.
        progress: Called in this process with the number of items done and the number of all of them.
        on_results: Called in this process with some results at a time, in the order of the items: each as soon as all
            before it are there. What it was called with is not lost when a later item fails.

    Returns:
        The results in the order of the items.

    Raises:
        Exception: What the function raised for the first item, in their order, for which it raised anything. A note
            names the item.
        RuntimeError: A process died, for example for lack of memory; the message names the item it was working on.
        ValueError: `processes` is less than 1.
    """
    if processes is not None and processes < 1:
        raise ValueError(f"processes must be at least 1, {processes} was given")
    everything = list(items)
    count = min(processes or available_cores(), len(everything))
    if count > 1:
        return _Pool(function, everything, progress, on_results).run(count)
    results = []
    for index, item in enumerate(everything):
        try:
            results.append(function(item))
        except Exception as error:
            error.add_note(_named(index, item))
            raise
        if on_results:
            on_results(results[-1:])
        if progress:
            progress(len(results), len(everything))
    return results


def _named(index: int, item: object) -> str:
    shown = repr(item)
    return f"at item {index}: {shown if len(shown) <= SHOWN_CHARACTERS else shown[:SHOWN_CHARACTERS] + '...'}"


@dataclass
class _Worker:
    """One process of a pool.

    Attributes:
        process: It.
        connection: This process's end of the pipe to it.
        current: A number in shared memory: the item it is working on, -1 before the first one.
        chunk: Where the chunk that it works on starts.
    """

    process: SpawnProcess
    connection: Connection
    current: Any
    chunk: int = -1


class _Pool:
    """The processes of one call of `map_in_processes`; chunks are handed out in order to whichever is free.

    Not `concurrent.futures`: its broken pool does not say which item a process died of.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        items: Sequence[Any],
        progress: Callable[[int, int], None] | None,
        on_results: Callable[[Sequence[Any]], None] | None,
    ) -> None:
        self._function = function
        self._items = items
        self._progress = progress
        self._on_results = on_results
        self._waiting: dict[int, int] = {}
        """How many results are there of each chunk that is not given to `on_results` yet, by where it starts."""
        self._given = 0
        self._results: list[Any] = [None] * len(items)
        self._failures: dict[int, Exception] = {}
        self._workers: list[_Worker] = []
        self._next = self._done = 0
        self._size = 1

    def run(self, count: int) -> list[Any]:
        """Do all items in so many processes. They have ended when this returns or raises."""
        self._size = max(1, min(MOST_IN_A_CHUNK, len(self._items) // (count * CHUNKS_PER_PROCESS)))
        try:
            for _ in range(count):
                self._workers.append(self._start())
            for worker in self._workers:
                self._hand_out(worker)
            while busy := [worker for worker in self._workers if self._is_needed(worker)]:
                ready = wait([worker.connection for worker in busy])
                for worker in busy:
                    if worker.connection in ready:
                        self._take(worker)
        finally:
            for worker in self._workers:
                worker.process.kill()
            for worker in self._workers:
                worker.process.join()
                worker.connection.close()
        if self._failures:
            raise self._failures[min(self._failures)]
        return self._results

    def _is_needed(self, worker: _Worker) -> bool:
        """Whether a process works on what may still matter: after a failure only items before it do."""
        return worker.chunk >= 0 and worker.chunk < min(self._failures, default=len(self._items))

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        current = context.RawValue("q", -1)
        process = context.Process(target=_work, args=(theirs, self._function, current), daemon=True)
        try:
            process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()  # with the other end held by the process alone, its death ends the pipe
        return _Worker(process, ours, current)

    def _hand_out(self, worker: _Worker) -> None:
        if self._failures or self._next >= len(self._items):
            worker.chunk = -1
            return
        worker.chunk, self._next = self._next, self._next + self._size
        try:
            worker.connection.send((worker.chunk, self._items[worker.chunk : self._next]))
        except OSError:
            raise self._death(worker) from None

    def _take(self, worker: _Worker) -> None:
        try:
            results, failure = worker.connection.recv()
        except (EOFError, OSError):
            raise self._death(worker) from None
        self._results[worker.chunk : worker.chunk + len(results)] = results
        self._done += len(results)
        if failure is not None:
            index, error = failure
            error.add_note(_named(index, self._items[index]))
            self._failures[index] = error
        self._give(worker.chunk, len(results))
        if results and self._progress:
            self._progress(self._done, len(self._items))
        self._hand_out(worker)

    def _give(self, chunk: int, count: int) -> None:
        """Give to `on_results` what is there without a gap, now that so many results of a chunk are."""
        if self._on_results is None:
            return
        self._waiting[chunk] = count
        while count := self._waiting.pop(self._given, 0):
            self._given += count
            self._on_results(self._results[self._given - count : self._given])

    def _death(self, worker: _Worker) -> RuntimeError:
        worker.process.join()
        code = worker.process.exitcode or 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        index = worker.current.value
        if index < 0:
            return RuntimeError(f"a process {how} before its first item")
        return RuntimeError(f"a process {how} {_named(index, self._items[index])}")


def _work(connection: Connection, function: Callable[[Any], Any], current: Any) -> None:
    """Take chunks and send back their results until the caller ends; runs in a process of a pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the caller ends its processes
    while True:
        try:
            start, items = connection.recv()
        except EOFError:
            return
        results, failure = [], None
        for current.value, item in enumerate(items, start):
            try:
                results.append(function(item))
            except Exception as error:
                failure = current.value, _portable(error)
                break
        try:
            connection.send((results, failure))
        except OSError:
            return
        except Exception:
            connection.send(_unsendable(start, results))


def _unsendable(start: int, results: Sequence[Any]) -> tuple[list[Any], tuple[int, Exception]]:
    """What is sent instead of results one of which cannot be pickled."""
    for index, result in enumerate(results, start):
        try:
            pickle.dumps(result)
        except Exception as error:
            return [], (index, _portable(error))
    raise RuntimeError("results that can each be pickled could not be sent together")


def _portable(error: Exception) -> Exception:
    """An exception that survives the way to another process, with its traceback as a note."""
    error.add_note("".join(traceback.format_exception(error)).rstrip())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
