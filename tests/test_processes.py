"""One function over many items: the same results and errors in any number of processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from veritas_rl.errors import UserError
from veritas_rl.processes import available_cores, map_in_processes
from veritas_rl.seeding import generator

ROOT = Path(__file__).resolve().parents[1]

# The processes import these by module and name, which a test module under pytest's importlib mode does not have.
WORK = """
import os, signal, time
from veritas_rl.errors import UserError
from veritas_rl.seeding import generator

class Awkward(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")

def drawn(item):
    return item, generator("item", item).random()

def process(item):
    time.sleep(0.02)
    return os.getpid()

def refuses_from_five(item):
    if item == 5:
        time.sleep(0.3)
    if item >= 5:
        raise UserError(f"no {item}")
    return item

def awkward(item):
    raise Awkward(item, item)

def dies(item):
    if item == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return item

def leaves(item):
    os._exit(3)

def unpicklable(item):
    return lambda: item

def sleeps(item):
    open(f"{os.environ['SLEEPING']}/{os.getpid()}", "w").close()
    time.sleep(600)
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Callable[[int], object]]:
    """The functions of `WORK` by name, from a module that other processes can import."""
    (tmp_path / "work_of_processes.py").write_text(WORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "work_of_processes", raising=False)
    import work_of_processes  # pyright: ignore[reportMissingImports]

    return lambda name: getattr(work_of_processes, name)


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_the_results_are_the_same_and_in_order(processes: int, work: Callable[[str], Callable]) -> None:
    expected = [(item, generator("item", item).random()) for item in range(1000)]
    progress: list[tuple[int, int]] = []
    found = map_in_processes(work("drawn"), iter(range(1000)), processes, lambda *said: progress.append(said))
    assert found == expected
    assert progress == sorted(progress)
    assert progress[-1] == (1000, 1000)


def test_several_processes_share_the_work_and_are_gone_afterwards(work: Callable[[str], Callable]) -> None:
    used = set(map_in_processes(work("process"), range(100), 2))
    assert len(used) == 2
    assert os.getpid() not in used
    assert not any(psutil.pid_exists(each) for each in used)
    assert set(map_in_processes(work("process"), range(3), 1)) == {os.getpid()}
    assert set(map_in_processes(work("process"), range(1))) == {os.getpid()}


def test_nothing_is_done_without_items(work: Callable[[str], Callable]) -> None:
    assert map_in_processes(work("leaves"), [], 3) == []
    with pytest.raises(ValueError, match="at least 1, 0 was given"):
        map_in_processes(work("drawn"), [1], 0)
    assert available_cores() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_the_first_error_in_order_is_raised_with_its_item(processes: int, work: Callable[[str], Callable]) -> None:
    with pytest.raises(UserError, match="no 5") as caught:
        map_in_processes(work("refuses_from_five"), range(20), processes)
    assert "at item 5: 5" in caught.value.__notes__


@pytest.mark.parametrize("processes", [1, 3])
def test_results_are_handed_out_in_order_without_gaps_up_to_a_failure(
    processes: int, work: Callable[[str], Callable]
) -> None:
    given: list[tuple[int, float]] = []
    whole = map_in_processes(work("drawn"), range(200), processes, on_results=given.extend)
    assert given == whole
    before: list[int] = []
    with pytest.raises(UserError):
        map_in_processes(work("refuses_from_five"), range(20), processes, on_results=before.extend)
    assert before == list(range(5))


def test_an_error_that_cannot_be_sent_is_named(work: Callable[[str], Callable]) -> None:
    with pytest.raises(RuntimeError, match="Awkward: 0 and 0") as caught:
        map_in_processes(work("awkward"), range(4), 2)
    assert "at item 0: 0" in caught.value.__notes__
    with pytest.raises(Exception, match="pickle"):
        map_in_processes(work("unpicklable"), range(4), 2)
    with pytest.raises(Exception, match="pickle"):
        map_in_processes(lambda item: item, range(4), 2)


def test_a_death_names_its_item(work: Callable[[str], Callable]) -> None:
    with pytest.raises(RuntimeError, match="a process was killed by SIGKILL at item 7: 7"):
        map_in_processes(work("dies"), range(200), 2)
    with pytest.raises(RuntimeError, match=r"a process ended with exit code 3 at item \d: '\d+xxx.*\.\.\.$"):
        map_in_processes(work("leaves"), [f"{item}{'x' * 1000}" for item in range(4)], 2)


def test_an_interrupt_ends_all_processes_at_once(tmp_path: Path, work: Callable[[str], Callable]) -> None:
    script = tmp_path / "main.py"
    script.write_text(
        "from veritas_rl.processes import map_in_processes\nfrom work_of_processes import sleeps\n"
        "if __name__ == '__main__':\n    map_in_processes(sleeps, range(2), 2)\n"
    )
    marks = tmp_path / "sleeping"
    marks.mkdir()
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "SLEEPING": str(marks)}
    main = subprocess.Popen(
        [sys.executable, str(script)],
        env=environment,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # A shell starts what runs in its background, such as these tests, with interrupts ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 60
        while len(asleep := list(marks.iterdir())) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(main.pid, signal.SIGINT)  # as a terminal does
        _, printed = main.communicate(timeout=20)
    finally:
        main.kill()
    assert printed.decode().strip().endswith("KeyboardInterrupt")
    assert not any(psutil.pid_exists(int(mark.name)) for mark in asleep)
