"""The watchdogs report resources that a run waits for in vain, and dead processes, and nothing else."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from veritas_rl.launch.death_watchdog import DeathWatchdog
from veritas_rl.launch.ray_control import actors_here
from veritas_rl.launch.resource_watchdog import ResourceWatchdog

PATIENCE = 1.0


# Starts or joins a Ray cluster with two logical CPUs and one logical GPU, and executes the lines that it reads.
DRIVER = """
import sys
import ray
from ray.util.placement_group import placement_group, remove_placement_group

address = sys.argv[1] if sys.argv[1:] else None
given = {} if address else dict(num_cpus=2, num_gpus=1, include_dashboard=False)
ray.init(address=address or "local", **given)

@ray.remote(num_cpus=1)
class Actor:
    def __init__(self, seconds=0):
        import time
        time.sleep(seconds)

    def ready(self):
        return True

kept = {}

def release():
    for held in kept.values():
        if isinstance(held, ray.actor.ActorHandle):
            ray.kill(held)
        elif not isinstance(held, ray.ObjectRef):
            remove_placement_group(held)
    kept.clear()

print("driver:", ray.get_runtime_context().gcs_address, flush=True)
for line in sys.stdin:
    exec(line)
    print("driver: done", flush=True)
"""


class Driver:
    """A process that uses Ray, as verl does."""

    def __init__(self, address: str | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, *([address] if address else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # The started Ray cluster requires a token, so a driver that joins it needs token authentication.
            env={**os.environ, **({"RAY_AUTH_MODE": "token"} if address else {})},
        )
        self.address = self._line()

    def do(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self._line() == "done"

    def end(self) -> None:
        family = psutil.Process(self.process.pid).children(recursive=True)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)
        for child in psutil.wait_procs(family, timeout=10)[1]:
            child.kill()

    def kill(self) -> None:
        """Without a daemon, Ray would take half a minute to end."""
        driver = psutil.Process(self.process.pid)
        family = [driver, *driver.children(recursive=True)]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family, timeout=10)

    def _line(self) -> str:
        assert self.process.stdout is not None
        # The output also contains Ray's messages.
        return next(line for line in self.process.stdout if line.startswith("driver:")).split()[1]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.end()


@pytest.fixture
def verl(cluster: Driver) -> Iterator[Driver]:
    yield cluster
    cluster.do("release()")  # also after a failure, so that the next test finds free resources


def looked(watchdog: Callable[[], str | None], seconds: float) -> str | None:
    """The watchdog's first message within a number of seconds; None if there is none."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if message := watchdog():
            return message
        time.sleep(0.1)
    return None


def watching(driver: Driver, address: str | None = None) -> ResourceWatchdog:
    return ResourceWatchdog(driver.process.pid, {"address": address}, patience=PATIENCE, poll=0.5)


def test_an_actor_that_finds_no_cpu_is_named_and_those_that_start_slowly_are_not(verl: Driver, tmp_path: Path) -> None:
    python = tmp_path / "slow-python"
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    python.chmod(0o755)
    verl.do(f"kept['process'] = Actor.options(runtime_env={{'py_executable': '{python}'}}).remote()")
    verl.do("kept['init'] = Actor.remote(600)")
    assert looked(watching(verl), 3 * PATIENCE) is None
    verl.do("kept['third'] = Actor.remote()")
    started = time.monotonic()
    assert looked(watching(verl), 20) == (
        "Ray waits for 1 CPU and has none left (2 of 2 in use): set ray_kwargs.ray_init.num_cpus to a larger number, "
        "such as 64 (Ray's CPUs are logical and cost nothing)"
    )
    assert PATIENCE <= time.monotonic() - started < PATIENCE + 5
    # When the actor has its CPU, nothing is reported.
    verl.do("ray.kill(kept['init']); ray.get(kept['third'].ready.remote(), timeout=60)")
    assert looked(watching(verl), 2 * PATIENCE) is None


def test_a_placement_group_that_finds_no_gpus_is_named(verl: Driver) -> None:
    verl.do("kept['pg'] = placement_group([{'CPU': 0.1, 'GPU': 1}] * 2, strategy='STRICT_PACK')")
    verl.do("kept['ready'] = kept['pg'].ready()")
    message = looked(watching(verl), 20)
    assert message is not None
    assert re.match(r"Ray waits for 2 GPU and has 1 left .*trainer\.n_gpus_per_node", message)


def test_on_a_cluster_with_others_only_what_this_run_waits_for_counts(verl: Driver) -> None:
    joined = Driver(verl.address)
    try:
        verl.do("kept['big'] = Actor.options(num_cpus=9).remote(); kept['pg'] = placement_group([{'GPU': 3}])")
        assert looked(watching(joined, verl.address), 3 * PATIENCE) is None
        joined.do("kept['pg'] = placement_group([{'GPU': 4}])")
        message = looked(watching(joined, verl.address), 20)
        assert message is not None
        assert message.startswith(
            "Ray waits for 4 GPU and has 1 left (0 of 1 in use): request less, wait until other jobs"
        )
        joined.do("remove_placement_group(kept.pop('pg')); kept['big'] = Actor.options(num_cpus=7).remote()")
        message = looked(watching(joined, verl.address), 20)
        assert message is not None
        assert message.startswith("Ray waits for 7 CPU and has ")
    finally:
        joined.end()


def test_on_a_cluster_with_others_a_run_has_its_own_actors_alone(verl: Driver) -> None:
    joined = Driver(verl.address)
    try:
        verl.do("kept['own'] = Actor.remote(); ray.get(kept['own'].ready.remote(), timeout=60)")
        theirs = child(verl, "ray::Actor").pid
        joined.do("kept['one'] = Actor.remote(); ray.get(kept['one'].ready.remote(), timeout=60)")
        found = actors_here(joined.process.pid, {"address": verl.address})
        assert len(found) == 1
        assert psutil.Process(*found).cmdline()[0].startswith("ray::Actor")
        assert theirs not in found
    finally:
        joined.end()


def test_a_ray_that_does_not_answer_is_ignored(free_port: int) -> None:
    driver = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = time.monotonic()
    watchdog = ResourceWatchdog(driver.pid, {"address": f"127.0.0.1:{free_port}"}, patience=0, poll=0.1)
    assert looked(watchdog, 2) is None
    assert time.monotonic() - started < 5
    driver.communicate(b"\n")
    assert looked(watchdog, 1) is None


@pytest.fixture
def mortal() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.kill()


def child(driver: Driver, name: str) -> psutil.Process:
    """The child process of a driver with a word in its name or title."""
    family = psutil.Process(driver.process.pid).children(recursive=True)
    return next(process for process in family if name in process.name() or name in " ".join(process.cmdline()[:1]))


def test_a_worker_that_the_raylet_has_just_forked_is_no_raylet_that_died(tmp_path: Path) -> None:
    raylet = tmp_path / "raylet"
    raylet.write_bytes(Path("/bin/bash").read_bytes())
    raylet.chmod(0o755)
    # Each child has its parent's name for a short time, and ends.
    process = subprocess.Popen([raylet, "-c", "while :; do (sleep 0.3; :); done"])
    try:
        watchdog = DeathWatchdog(os.getpid(), {}, patience=PATIENCE, poll=0.0)
        deadline, forked = time.monotonic() + 2 * PATIENCE, set()
        while time.monotonic() < deadline:
            assert watchdog() is None
            for child in psutil.Process(process.pid).children():
                with contextlib.suppress(psutil.NoSuchProcess):  # the child has just ended
                    if child.name() == "raylet":
                        forked.add(child.pid)
        assert len(forked) > 1
    finally:
        process.kill()
        process.wait()
    for child in forked:
        assert str(child) not in (watchdog.named() or "")
    while (died := watchdog()) is None:
        time.sleep(0.1)
    assert f"Ray's raylet (process {process.pid})" in died


def test_an_actor_that_is_killed_is_named_and_one_that_the_driver_ends_is_not(mortal: Driver) -> None:
    watchdog = DeathWatchdog(mortal.process.pid, {}, patience=PATIENCE, poll=0.2)
    mortal.do("kept['ended'] = Actor.remote()")
    mortal.do("ray.get(kept['ended'].ready.remote(), timeout=60)")
    mortal.do("ray.kill(kept.pop('ended'))")
    assert looked(watchdog, 3 * PATIENCE) is None
    assert watchdog.named() is None
    mortal.do("kept['killed'] = Actor.remote()")
    mortal.do("ray.get(kept['killed'].ready.remote(), timeout=60)")
    process = child(mortal, "ray::Actor")
    process.send_signal(signal.SIGKILL)
    assert looked(watchdog, 20) == (
        f"the actor Actor (process {process.pid}) died, and verl waits for it: type the same command "
        "to resume from the last checkpoint"
    )


@pytest.mark.parametrize("daemon", ["raylet", "gcs_server"])
def test_a_daemon_of_ray_that_is_killed_is_named(mortal: Driver, daemon: str) -> None:
    watchdog = DeathWatchdog(mortal.process.pid, {}, patience=PATIENCE, poll=0.2)
    assert looked(watchdog, 1) is None
    process = child(mortal, daemon)
    process.send_signal(signal.SIGKILL)
    looked(watchdog, 5)
    assert f"Ray's {daemon} (process {process.pid}) died" in str(watchdog.named())
