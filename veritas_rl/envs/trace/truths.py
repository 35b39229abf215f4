"""Computes the exact output of programs by running each in several different sandboxes.

The sandboxes differ in conditions that the output must not depend on, such as the hash seed. `Truths` runs programs in
its own threads, each with its own sandboxed processes. It stores the results in a cache that all processes of the
machine share, and can compute truths in advance.
"""

import ast
import contextlib
import hashlib
import itertools
import os
import sys
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import astuple, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from veritas_rl.envs.trace.nodes import parse, walk
from veritas_rl.envs.trace.sandbox import Limits, Sandbox, Status
from veritas_rl.envs.trace.truth_cache import TruthCache
from veritas_rl.paths import cache_folder

DIFFERS = "differs"
"""The reason for refusing a program with different outputs; the other reasons are the values of `Status`."""

_RULES = 3
"""A part of each key of the cache. Increase it if a change of the code changes the results of programs."""

RUNS = 2
CAREFUL_RUNS = 8
"""The runs of a program that uses sets or hashes. Two strings of a set have the same order in half of all pairs of
runs, so two runs are too few."""

Maker = Callable[[], tuple[str, str] | None]
"""Makes a program and its standard input; None if there is none."""

_HASH_NAMES = frozenset(("set", "frozenset", "hash", "id", "object"))
_MOST_REMEMBERED = 10_000


@dataclass(frozen=True)
class Truth:
    """The output of a program.

    Attributes:
        stdout: The complete output.
    """

    stdout: str


@dataclass(frozen=True)
class Refused:
    """A program that has no truth.

    Attributes:
        reason: A value of `Status`, or `DIFFERS` for a program with different outputs.
        detail: Details of the reason, such as the exception's name.
    """

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class _Job:
    key: bytes
    source: str
    stdin: str
    result: "Future[Truth | Refused]"


class Truths:
    """Computes truths of programs. Threads may share an instance; a forked child starts its own sandboxes."""

    def __init__(self, limits: Limits | None = None, threads: int | None = None, folder: Path | None = None) -> None:
        """Make the instance. Threads and sandboxes start at their first use.

        Args:
            limits: The limits of each run of a program.
            threads: The number of programs that run at a time; by default one for each CPU of this process.
            folder: The folder of the shared cache; by default `cache_folder`.
        """
        self.limits = limits or Limits()
        self.threads = threads or len(os.sched_getaffinity(0))
        self._cache = TruthCache((folder or cache_folder()) / "truths.sqlite")
        self._settings = repr((_RULES, sys.version, sys.platform, RUNS, CAREFUL_RUNS, astuple(self.limits)))
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        self._wake = threading.Condition()
        self._jobs: OrderedDict[bytes, Future[Truth | Refused]] = OrderedDict()
        self._needed: deque[_Job] = deque()
        self._ahead: deque[_Job] = deque()
        self._makers: deque[Maker] = deque()
        self._workers: list[threading.Thread] = []
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def truth_of(self, source: str, stdin: str = "") -> Truth | Refused:
        """The output of a program, or the reason why it has no truth.

        Args:
            source: The program.
            stdin: The text of its standard input.

        Raises:
            SandboxError: No sandbox starts on this machine.
        """
        return self._ask(source, stdin, self._needed).result()

    def truths_of(self, programs: Sequence[tuple[str, str]]) -> list[Truth | Refused]:
        """The result of `truth_of` for each of many programs with its standard input, in their order."""
        asked = [self._ask(source, stdin, self._needed) for source, stdin in programs]
        return [future.result() for future in asked]

    def prefetch(self, programs: Iterable[tuple[str, str]]) -> None:
        """Start to compute truths in the background. Requests of `truth_of` and `truths_of` run first."""
        for source, stdin in programs:
            self._ask(source, stdin, self._ahead)

    def prefetch_made(self, makers: Iterable[Maker]) -> None:
        """As `prefetch`, for programs that are slow to make: the threads call their makers."""
        with self._wake:
            self._makers.extend(makers)
            self._start_workers()
            self._wake.notify_all()

    def close(self) -> None:
        """End the threads and the sandboxes, and cancel waiting requests."""
        with self._wake:
            self._closed.set()
            dropped = [*self._needed, *self._ahead]
            workers = self._workers
            self._wake.notify_all()
        for job in dropped:
            job.result.cancel()
        for worker in workers:
            worker.join()
        self._cache.close()
        self._reset()

    def _key(self, source: str, stdin: str) -> bytes:
        parts = (part.encode("utf-8", "surrogatepass") for part in (self._settings, source, stdin))
        # The lengths make the concatenation of the parts unambiguous.
        return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()

    def _ask(self, source: str, stdin: str, queue: deque[_Job]) -> "Future[Truth | Refused]":
        key = self._key(source, stdin)
        with self._wake:
            if (future := self._asked_before(key, queue)) is not None:
                return future
        kept = self._cache.get(key)
        with self._wake:
            # Another thread may have requested the same program while this thread read the cache.
            if (future := self._asked_before(key, queue)) is not None:
                return future
            future = self._jobs[key] = Future()
            if kept is not None:
                reason, text = kept
                future.set_result(Truth(text) if reason == Status.OK else Refused(reason, text))
            else:
                queue.append(_Job(key, source, stdin, future))
                self._start_workers()
                self._wake.notify()
            self._forget_oldest()
        return future

    def _asked_before(self, key: bytes, queue: deque[_Job]) -> "Future[Truth | Refused] | None":
        future = self._jobs.get(key)
        if future is not None:
            self._jobs.move_to_end(key)
            if queue is self._needed and not future.done():
                self._hurry(key)
        return future

    def _hurry(self, key: bytes) -> None:
        """Move a prefetched program that has not started to the programs that a caller waits for."""
        for job in self._ahead:
            if job.key == key:
                self._ahead.remove(job)
                self._needed.append(job)
                return

    def _forget_oldest(self) -> None:
        excess = len(self._jobs) - _MOST_REMEMBERED
        if excess > 0:
            oldest = list(itertools.islice(self._jobs.items(), excess + 100))
            for key, future in oldest:
                if future.done():
                    del self._jobs[key]

    def _start_workers(self) -> None:
        while len(self._workers) < self.threads:
            # A daemon thread, so that a long run does not prevent this process from ending.
            worker = threading.Thread(target=self._work, args=(self._wake, self._closed), daemon=True)
            self._workers.append(worker)
            worker.start()

    def _work(self, wake: threading.Condition, closed: threading.Event) -> None:
        sandboxes = [Sandbox(self.limits, variant) for variant in range(CAREFUL_RUNS)]
        try:
            while True:
                with wake:
                    while not (self._needed or self._ahead or self._makers or closed.is_set()):
                        wake.wait()
                    if closed.is_set():
                        return
                    waiting = self._needed or self._ahead
                    job = waiting.popleft() if waiting else None
                    maker = None if job else self._makers.popleft()
                if maker is not None:
                    # The caller that needs the program makes it again, and gets the exception.
                    with contextlib.suppress(Exception):
                        if (program := maker()) is not None:
                            self.prefetch([program])
                if job is None:
                    continue
                if not job.result.set_running_or_notify_cancel():
                    continue
                try:
                    job.result.set_result(self._make(job, sandboxes))
                except BaseException as error:  # the waiting thread gets the exception
                    with wake:
                        self._jobs.pop(job.key, None)
                    job.result.set_exception(error)
        finally:
            for sandbox in sandboxes:
                sandbox.close()

    def _make(self, job: _Job, sandboxes: list[Sandbox]) -> Truth | Refused:
        truth, lasting = _run(job.source, job.stdin, sandboxes)
        if lasting:
            if isinstance(truth, Truth):
                self._cache.put(job.key, Status.OK, truth.stdout)
            else:
                self._cache.put(job.key, truth.reason, truth.detail)
        else:
            with self._wake:
                self._jobs.pop(job.key, None)
        return truth


def _run(source: str, stdin: str, sandboxes: list[Sandbox]) -> tuple[Truth | Refused, bool]:
    """Run a program in one sandbox after another, until a run fails or its output differs.

    Returns:
        The result, and whether it is repeatable; a timeout on a busy machine is not.
    """
    runs = RUNS
    first: str | None = None
    for number, sandbox in enumerate(sandboxes):
        if number == runs:
            break
        outcome = sandbox.run(source, stdin)
        if outcome.busy:
            outcome = sandbox.run(source, stdin)
        if outcome.status is not Status.OK:
            return Refused(outcome.status, outcome.detail), not outcome.busy
        if first is None:
            first = outcome.stdout
            if outcome.hashes and uses_hashes(source):
                runs = CAREFUL_RUNS
        elif outcome.stdout != first:
            return Refused(DIFFERS, _difference(first, outcome.stdout)), True
    assert first is not None
    return Truth(first), True


def uses_hashes(source: str) -> bool:
    """Whether a program's text uses sets or hashes, so that its output may depend on the order of sets."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    nodes = walk(tree)
    harmless = _sorted_sets(nodes)
    for node in nodes:
        match node:
            case ast.Set() | ast.SetComp() if node not in harmless:
                return True
            case ast.Name(id=name) if name in _HASH_NAMES and node not in harmless:
                return True
            case ast.BinOp(left=ast.Call(func=ast.Attribute(attr="keys" | "items"))):
                return True
            case _:
                pass
    return False


def _sorted_sets(nodes: Sequence[ast.AST]) -> set[ast.AST]:
    """The nodes of sets and of `set` in calls that are only arguments of `sorted` or `len`, which hide their order."""
    found: set[ast.AST] = set()
    for node in nodes:
        match node:
            case ast.Name(id="sorted" | "len", ctx=ast.Store()) | ast.arg(arg="sorted" | "len"):
                return set()
            case ast.FunctionDef(name="sorted" | "len") | ast.ClassDef(name="sorted" | "len"):
                return set()
            case ast.alias(name=name, asname=given) if {name, given} & {"sorted", "len", "*"}:
                return set()
            # A call with keywords does not hide the order, because members with equal keys keep it.
            case ast.Call(func=ast.Name(id="sorted" | "len"), args=[argument], keywords=[]):
                found.update(_sets_of(argument))
            case _:
                pass
    return found


def _sets_of(expression: ast.expr) -> Iterator[ast.AST]:
    match expression:
        case ast.BinOp(left=left, right=right):
            yield from _sets_of(left)
            yield from _sets_of(right)
        case ast.Call(func=ast.Name(id="set") as name):
            yield name
        case ast.Set() | ast.SetComp():
            yield expression
        case _:
            pass


def _difference(one: str, other: str) -> str:
    """The first line in which two outputs differ, as a sentence."""
    pairs = itertools.zip_longest(one.splitlines(), other.splitlines())
    number = next((number for number, (left, right) in enumerate(pairs, start=1) if left != right), 0)
    return f"line {number} of the output is not the same in every run"


_all: weakref.WeakSet[Truths] = weakref.WeakSet()


def _reset_all() -> None:
    for truths in list(_all):
        truths._reset()


os.register_at_fork(after_in_child=_reset_all)
