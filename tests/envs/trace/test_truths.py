"""Truths are complete, agree with the plain interpreter, and are shared; programs without a truth are named."""

import multiprocessing
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from veritas_rl.envs.trace.injection import inject
from veritas_rl.envs.trace.programs import generate
from veritas_rl.envs.trace.sandbox import Limits, Sandbox, Status
from veritas_rl.envs.trace.sandbox.inside.program import mentions_hashes
from veritas_rl.envs.trace.truth_cache import TruthCache
from veritas_rl.envs.trace.truths import DIFFERS, Refused, Truth, Truths, uses_hashes
from veritas_rl.seeding import generator

LIMITS = Limits(cpu=1, wall=1.5, output=20_000)


@pytest.fixture(scope="module")
def truths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Truths]:
    with Truths(LIMITS, threads=1, folder=tmp_path_factory.mktemp("cache")) as running:
        yield running


def test_a_truth_is_what_the_plain_interpreter_prints(truths: Truths) -> None:
    programs = [generate(generator("truth", level), level) for level in range(1, 11)]
    sources = [inject(program.source, generator("prints"), program.opaque) for program in programs]
    found = truths.truths_of([(source, "") for source in sources])
    for source, truth in zip(sources, found, strict=True):
        plain = subprocess.run([sys.executable, "-"], input=source, capture_output=True, text=True, check=True).stdout
        assert truth == Truth(plain)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import random; print(random.random())", DIFFERS),
        ("print({'a', 'b'})", DIFFERS),
        ("s = set(['x', 'y'])\nfor c in s: print(c)", DIFFERS),
        ("print(hash('x') % 4)", DIFFERS),
        ("print(object())", DIFFERS),
        ("class A: pass\nprint([A()])", DIFFERS),
        ("def f(): pass\nprint(f)", DIFFERS),
        ("print(id('x') % 1000003)", DIFFERS),
        ("a = object()\nb = object()\nprint(id(a), id(b))", DIFFERS),
        ("import time; print(time.time())", DIFFERS),
        ("from datetime import date; print(date.today())", DIFFERS),
        ("import time; print(time.localtime().tm_year)", DIFFERS),
        ("import os; print(os.getpid())", DIFFERS),
        ("import uuid; print(uuid.uuid4())", DIFFERS),
        ("print('whole')\nif True:\n    pass\nelse:\n    planted = 1\nprint(planted)", Status.ERROR),
        ("print(1", Status.SYNTAX),
        ("while True: print('x')", Status.OUTPUT),
        ("while True: pass", Status.TIMEOUT),
        ("import socket; socket.socket()", Status.FORBIDDEN),
        ("print(input())", Status.ERROR),
    ],
)
def test_a_program_without_a_truth_is_refused_by_name(truths: Truths, source: str, reason: str) -> None:
    truth = truths.truth_of(source)
    assert isinstance(truth, Refused)
    assert truth.reason == reason
    assert truth.detail


def test_sets_are_fine_where_their_order_does_not_show(truths: Truths) -> None:
    assert truths.truth_of("print(sorted({'a', 'b'}), len(set('aab')), 3 in {1, 2, 3})") == Truth("['a', 'b'] 2 True\n")


def test_standard_input_is_part_of_the_program(truths: Truths) -> None:
    assert truths.truth_of("print(input())", "one") == Truth("one\n")
    assert truths.truth_of("print(input())", "two") == Truth("two\n")
    assert truths.truth_of("print(input())") == Refused(Status.ERROR, "EOFError")


@pytest.mark.parametrize(
    ("source", "uses"),
    [
        ("x = {1, 2}", True),
        ("x = {a for a in 'ab'}", True),
        ("x = set()", True),
        ("x = a.keys() & b.keys()", True),
        ("x = {1: 2}", False),
        ("x = f'{y}'; offset = 1", False),
        ("x = frozenset('ab')", True),
        ("def f(x):\n    return [y for y in {x}]", True),
        ("x = {", False),
        ("print(sorted(set('abc') & {'a', 'b'}), len({x for x in 'ab'}))", False),
        ("print(sorted(set('abc'), key=len))", True),
        ("print(sorted(x for x in set('abc')))", True),
        ("print(sorted(set(map(frozenset, ['ab', 'cd']))))", True),
        ("def sorted(x):\n    return list(x)\nprint(sorted({'a', 'b'}))", True),
        ("from mine import *\nprint(sorted({'a', 'b'}))", True),
    ],
)
def test_programs_that_use_hashes_are_known(source: str, uses: bool) -> None:
    assert uses_hashes(source) is uses
    if uses:
        assert mentions_hashes(compile(source, "<program>", "exec"))


def test_a_truth_in_the_cache_needs_no_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = ["print(1)", "1 / 0", "import random; print(random.random())"]
    with Truths(LIMITS, threads=1, folder=tmp_path) as truths:
        made = [truths.truth_of(source) for source in sources]

    def refuse(self: Sandbox, source: str, stdin: str = "") -> None:
        raise AssertionError(f"{source} was run again")

    monkeypatch.setattr(Sandbox, "run", refuse)
    with Truths(LIMITS, threads=1, folder=tmp_path) as others:
        assert [others.truth_of(source) for source in sources] == made
        with pytest.raises(AssertionError, match="print\\(2\\)"):
            others.truth_of("print(2)")
    with Truths(Limits(cpu=2), threads=1, folder=tmp_path) as stricter, pytest.raises(AssertionError):
        stricter.truth_of("print(1)")


def test_a_time_out_of_a_busy_machine_is_not_kept(tmp_path: Path) -> None:
    with Truths(Limits(cpu=1, wall=0.3), threads=1, folder=tmp_path) as truths:
        waits = truths.truth_of("import time; time.sleep(5)")
        assert isinstance(waits, Refused)
        assert waits.reason == Status.TIMEOUT
    with sqlite3.connect(tmp_path / "truths.sqlite") as connection:
        assert connection.execute("select count(*) from truths").fetchone() == (0,)


def test_truths_are_made_ahead_of_need(tmp_path: Path) -> None:
    with Truths(LIMITS, threads=1, folder=tmp_path) as truths:
        truths.prefetch([(f"print({number})", "") for number in range(20)])
        assert truths.truth_of("print(19)") == Truth("19\n")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not all(job.done() for job in truths._jobs.values()):
            time.sleep(0.01)
        with sqlite3.connect(tmp_path / "truths.sqlite") as connection:
            assert connection.execute("select count(*) from truths").fetchone() == (20,)


def test_a_requested_truth_overtakes_prefetched_ones(tmp_path: Path) -> None:
    with Truths(LIMITS, threads=1, folder=tmp_path) as truths:
        truths.prefetch([(f"import time; time.sleep(0.05); print({number})", "") for number in range(40)])
        assert truths.truth_of("print('now')") == Truth("now\n")
        assert truths.truth_of("import time; time.sleep(0.05); print(39)") == Truth("39\n")
        assert sum(job.done() for job in truths._jobs.values()) < 30


def test_closing_does_not_wait_for_what_was_prefetched(tmp_path: Path) -> None:
    truths = Truths(LIMITS, threads=1, folder=tmp_path)
    truths.prefetch([(f"import time; time.sleep(0.5); print({number})", "") for number in range(50)])
    start = time.monotonic()
    truths.close()
    assert time.monotonic() - start < 10


def test_programs_are_made_in_the_threads_and_what_fails_is_left_out(tmp_path: Path) -> None:
    makers: list[int] = []

    def make() -> tuple[str, str]:
        makers.append(threading.get_ident())
        return "print(input())", "7"

    def fail() -> None:
        makers.append(threading.get_ident())
        raise ValueError

    with Truths(LIMITS, threads=1, folder=tmp_path) as truths:
        truths.prefetch_made([fail, lambda: None, make])
        while len(makers) < 2:
            time.sleep(0.01)
        assert truths.truth_of("print(input())", "7") == Truth("7\n")
    assert len(set(makers)) == 1
    assert threading.get_ident() not in makers


def test_threads_that_ask_for_the_same_at_once_get_one_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)
    look = TruthCache.get

    def at_once(cache: TruthCache, key: bytes) -> tuple[str, str] | None:
        both.wait(timeout=30)
        return look(cache, key)

    with Truths(LIMITS, threads=1, folder=tmp_path) as truths:
        monkeypatch.setattr(TruthCache, "get", at_once)
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(truths.truth_of, ["print(1)", "print(1)"]))
        monkeypatch.undo()
        assert found == [Truth("1\n"), Truth("1\n")]
        asked = ThreadPoolExecutor(1).submit(truths.truth_of, "print(2)")
        assert asked.result(timeout=30) == Truth("2\n")  # the thread that makes truths still runs


def _truth_in_child(number: int) -> Truth | Refused:
    assert _shared is not None
    return _shared.truth_of(f"print({number})")


_shared: Truths | None = None


def test_forked_processes_share_the_cache(tmp_path: Path) -> None:
    global _shared
    with Truths(LIMITS, threads=1, folder=tmp_path) as _shared:
        assert _shared.truth_of("print(0)") == Truth("0\n")
        with multiprocessing.get_context("fork").Pool(2) as pool:
            found = pool.map(_truth_in_child, [1, 2, 3, 1, 2, 3])
        assert found == [Truth(f"{number}\n") for number in (1, 2, 3, 1, 2, 3)]
        assert _shared.truth_of("print(4)") == Truth("4\n")
    with sqlite3.connect(tmp_path / "truths.sqlite") as connection:
        assert connection.execute("select count(*) from truths").fetchone() == (5,)


def test_a_damaged_cache_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "truths.sqlite"
    path.write_bytes(b"this is no data base" * 500)
    cache = TruthCache(path)
    assert cache.get(b"key") is None
    cache.put(b"key", "ok", "text")
    assert cache.get(b"key") == ("ok", "text")
    cache.close()
    # Damage in the middle of the file is noticed only when a page is read.
    content = bytearray(path.read_bytes())
    content[100:] = b"\xff" * (len(content) - 100)
    path.write_bytes(bytes(content))
    assert cache.get(b"key") is None
    cache.put(b"key", "ok", "again")
    assert cache.get(b"key") == ("ok", "again")
    cache.close()


def test_a_folder_that_cannot_be_used_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Truths(LIMITS, threads=1, folder=tmp_path / "file" / "below") as truths:
        assert truths.truth_of("print(1)") == Truth("1\n")
        assert truths.truth_of("print(1)") == Truth("1\n")


def test_the_cache_has_a_bound(tmp_path: Path) -> None:
    cache = TruthCache(tmp_path / "truths.sqlite", most=100)
    for number in range(1000):
        cache.put(str(number).encode(), "ok", "x")
    assert cache.get(b"0") is None
    assert cache.get(b"999") == ("ok", "x")
    cache.close()
    with sqlite3.connect(cache.path) as connection:
        assert connection.execute("select count(*) from truths").fetchone() == (100,)


def _put_many(path: Path, first: int) -> None:
    cache = TruthCache(path)
    for number in range(300):
        cache.put(f"{(first + number) % 500}".encode(), "ok", str(number))
    cache.close()


def test_many_processes_write_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "truths.sqlite"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_put_many, args=(path, 100 * number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    with sqlite3.connect(path) as connection:
        assert connection.execute("select count(*) from truths").fetchone() == (500,)
