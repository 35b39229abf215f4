"""Gives the exact output of programs, from running each in sandboxes that differ in all that output must not depend on.

`Truths` runs programs in its own threads, which drive sandboxed processes; it keeps what it finds in a cache that all
processes of the machine share, and makes truths ahead of need.
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
from veritas_rl.envs.trace.truth_cache import TruthCache, default_folder

DIFFERS = "differs"
"""The reason for refusing a program whose runs differ; the other reasons are the values of `Status`."""

_RULES = 1
"""A number in each key of the cache: raise it when programs that ran before would now end otherwise."""

RUNS = 2
CAREFUL_RUNS = 8
"""Runs of a program that makes sets or asks for hashes: two strings of a set keep their order in every second run."""

Maker = Callable[[], tuple[str, str] | None]
"""Makes a program and what it reads; None if there is none."""

_HASH_NAMES = frozenset(("set", "frozenset", "hash", "id", "object"))
_MOST_REMEMBERED = 10_000


@dataclass(frozen=True)
class Truth:
    """What a program prints.

    Attributes:
        stdout: All of it, exactly.
    """

    stdout: str


@dataclass(frozen=True)
class Refused:
    """A program that has no truth.

    Attributes:
        reason: A value of `Status`, or `differs` for a program that does not print the same in every run.
        detail: More about it, such as the exception's name.
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
    """Truths of programs. Threads may share it; a forked process starts sandboxes of its own."""

    def __init__(self, limits: Limits | None = None, threads: int | None = None, folder: Path | None = None) -> None:
        """Make the object; threads and sandboxes start when they are first needed.

        Args:
            limits: What each run of a program may use.
            threads: How many programs run at a time; by default one for each CPU that this process may use.
            folder: Where the shared cache lies; by default in the user's folder of caches.
        """
        self.limits = limits or Limits()
        self.threads = threads or len(os.sched_getaffinity(0))
        self._cache = TruthCache((folder or default_folder()) / "truths.sqlite")
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
        """What a program prints, or why that cannot be said.

        Args:
            source: The program.
            stdin: What it reads from standard input.

        Raises:
            SandboxError: If no sandbox starts on this machine.
        """
        return self._ask(source, stdin, self._needed).result()

    def truths_of(self, programs: Sequence[tuple[str, str]]) -> list[Truth | Refused]:
        """The same for many programs, each with its standard input, in their order."""
        asked = [self._ask(source, stdin, self._needed) for source, stdin in programs]
        return [future.result() for future in asked]

    def prefetch(self, programs: Iterable[tuple[str, str]]) -> None:
        """Begin to make truths that will be asked for soon, and return at once. What is asked for now goes first."""
        for source, stdin in programs:
            self._ask(source, stdin, self._ahead)

    def prefetch_made(self, makers: Iterable[Maker]) -> None:
        """The same for programs that take time to write: the functions that make them are called in the threads."""
        with self._wake:
            self._makers.extend(makers)
            self._start_workers()
            self._wake.notify_all()

    def close(self) -> None:
        """End the threads and the sandboxes. What was prefetched and not made yet is dropped."""
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
        # The lengths keep the parts apart.
        return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()

    def _ask(self, source: str, stdin: str, queue: deque[_Job]) -> "Future[Truth | Refused]":
        key = self._key(source, stdin)
        with self._wake:
            if (future := self._asked_before(key, queue)) is not None:
                return future
        kept = self._cache.get(key)
        with self._wake:
            # Another thread may have asked while this one looked into the cache.
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
        """Move a program that was to be run ahead of need to those that are waited for."""
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
            # A daemon, so that a program that runs for ever does not keep this process from ending.
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
                    # The thread that needs the program makes it again, and gets what was raised.
                    with contextlib.suppress(Exception):
                        if (program := maker()) is not None:
                            self.prefetch([program])
                if job is None:
                    continue
                if not job.result.set_running_or_notify_cancel():
                    continue
                try:
                    job.result.set_result(self._make(job, sandboxes))
                except BaseException as error:  # the thread that waits gets it
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
    """Run a program in one sandbox after another, until one disagrees.

    Returns:
        The truth, and whether it would be the same another time: a time-out on a busy machine need not be.
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
    """Whether a program's text makes sets or asks for hashes, so that its output may depend on their order."""
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
    """Sets, and names of `set` in calls, that only go into `sorted` or `len`, so that their order is never seen."""
    found: set[ast.AST] = set()
    for node in nodes:
        match node:
            case ast.Name(id="sorted" | "len", ctx=ast.Store()) | ast.arg(arg="sorted" | "len"):
                return set()
            case ast.FunctionDef(name="sorted" | "len") | ast.ClassDef(name="sorted" | "len"):
                return set()
            case ast.alias(name=name, asname=given) if {name, given} & {"sorted", "len", "*"}:
                return set()
            # A key may be the same for several members.
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
    """Which line of two outputs differs first."""
    pairs = itertools.zip_longest(one.splitlines(), other.splitlines())
    number = next((number for number, (left, right) in enumerate(pairs, start=1) if left != right), 0)
    return f"line {number} of the output is not the same in every run"


_all: weakref.WeakSet[Truths] = weakref.WeakSet()


def _reset_all() -> None:
    for truths in list(_all):
        truths._reset()


os.register_at_fork(after_in_child=_reset_all)
