"""A forked worker behaves like a new Python process, and ends with the process that requested it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from veritas_rl.paths import ROOT
from veritas_rl.verl_plugin.cpu import forkserver

DRIVER = f"""
import os, sys
print(os.environ.get("{forkserver.SOCKET}", "none"), os.getpid(), *sys.argv[1:], flush=True)
sys.exit(int(sys.stdin.readline() or 0))
"""

WORKER = """
import json, os, random, sys
forked = "torch" in sys.modules
import numpy, torch
said = {"arguments": sys.argv, "folder": os.getcwd(), "name": __name__, "file": __file__, "path": sys.path}
said |= {"environment": dict(os.environ), "stdin": sys.stdin.read()}
said |= {"threads": torch.get_num_threads()}
print(json.dumps([said, forked, os.getpid(), random.random(), numpy.random.rand(), torch.rand(1).item()]))
print("a complaint", file=sys.stderr)
sys.exit(7)
"""

WAITING = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print(os.getpid(), flush=True)
time.sleep(60)
"""


@dataclass
class Running:
    """A running fork server and its driver."""

    process: subprocess.Popen[str]
    socket: str
    driver: int
    folder: Path
    environment: dict[str, str]

    def ask(self, script: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start the process that Ray would start to get a worker."""
        (self.folder / "worker.py").write_text(script)
        return subprocess.Popen(
            [sys.executable, "-I", "-S", forkserver.__file__, str(self.folder / "worker.py"), *arguments],
            env={**self.environment, forkserver.SOCKET: self.socket, **variables},
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def report(self, *arguments: str, **variables: str) -> tuple[dict[str, Any], bool, int, float, float, float]:
        """Run the reporting worker; return its report on itself."""
        asker = self.ask(WORKER, *arguments, **variables)
        out, err = asker.communicate("typed\n", timeout=60)
        assert (asker.returncode, err) == (7, "a complaint\n")
        return json.loads(out)

    def waiting(self) -> tuple[subprocess.Popen[str], psutil.Process]:
        """Start a requesting process and its worker, which sleeps."""
        asker = self.ask(WAITING)
        assert asker.stdout is not None
        worker = psutil.Process(int(asker.stdout.readline()))
        assert worker.ppid() == self.process.pid
        return asker, worker


def start(folder: Path, **variables: str) -> Running:
    (folder / "the_driver.py").write_text(DRIVER)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{folder}", "OMP_NUM_THREADS": "2", **variables}
    environment |= {name: value for name, value in forkserver.ONE_THREAD.items() if "VERL_PLATFORM" in variables}
    process = subprocess.Popen(
        [sys.executable, "-m", "veritas_rl.verl_plugin.cpu.forkserver", "-m", "the_driver", "an argument"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    socket, driver, argument = process.stdout.readline().rstrip().split(" ", 2)
    assert argument == "an argument"
    return Running(process, socket, int(driver), folder, environment)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    found = start(tmp_path_factory.mktemp("server"), VERL_PLATFORM="cpu")
    yield found
    found.process.kill()
    found.process.communicate()


def test_a_forked_worker_is_what_python_would_have_been(running: Running) -> None:
    assert running.socket != "none"
    said, forked, worker, *drawn = running.report("an argument", "--flag", WORD="a value")
    plain, alone, *_ = running.report("an argument", "--flag", WORD="a value", **{forkserver.SOCKET: "nobody"})
    assert forked
    assert not alone
    assert worker not in (running.process.pid, running.driver)
    assert said["arguments"][1:] == ["an argument", "--flag"]
    assert said["stdin"] == "typed\n"
    assert said["environment"].pop(forkserver.SOCKET) != plain["environment"].pop(forkserver.SOCKET)
    assert said == plain
    # Forked workers have different random seeds, like new processes.
    assert not set(drawn) & set(running.report()[3:])


def test_other_values_of_what_was_read_at_the_start_are_not_ignored(running: Running) -> None:
    said, forked, *_ = running.report(OMP_NUM_THREADS="1")
    assert not forked
    assert said["threads"] == 1
    assert not running.report(PYTHONHASHSEED="3")[1]
    assert running.report()[1]


def test_a_worker_gets_its_askers_signals_and_ends_with_it(running: Running) -> None:
    asker, worker = running.waiting()
    asker.terminate()
    assert asker.wait(10) == 5
    asker, worker = running.waiting()
    asker.kill()
    worker.wait(10)
    asker, worker = running.waiting()
    worker.kill()
    assert asker.wait(10) == 128 + signal.SIGKILL


@pytest.mark.parametrize("victim", ["server", "driver"])
def test_nothing_outlives_the_server_or_its_driver(tmp_path: Path, victim: str) -> None:
    running = start(tmp_path, VERL_PLATFORM="cpu")
    asker, worker = running.waiting()
    driver = psutil.Process(running.driver)
    (running.process if victim == "server" else driver).kill()
    assert running.process.wait(10) == (-signal.SIGKILL if victim == "server" else 128 + signal.SIGKILL)
    assert not psutil.wait_procs([driver, worker], 10)[1]
    assert asker.wait(10) == 128 + signal.SIGKILL


def test_the_server_hands_signals_to_the_driver_and_ends_as_it_does(tmp_path: Path) -> None:
    running = start(tmp_path, VERL_PLATFORM="cpu")
    running.process.terminate()
    assert running.process.wait(10) == 128 + signal.SIGTERM


def test_where_verl_is_not_on_a_cpu_nothing_is_forked(tmp_path: Path) -> None:
    plain = start(tmp_path, VERL_PLATFORM="nvidia")
    assert (plain.socket, plain.driver) == ("none", plain.process.pid)
    plain.process.communicate("4\n", timeout=10)
    assert plain.process.returncode == 4


def test_threads_forbid_a_fork(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    )
    plain = start(tmp_path, VERL_PLATFORM="cpu")
    assert (plain.socket, plain.driver) == ("none", plain.process.pid)
    plain.process.kill()
    plain.process.communicate()
