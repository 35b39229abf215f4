"""A stalled step is reported with the stacks of the run's processes, after a bound that depends on earlier steps."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from veritas_rl.errors import UserError
from veritas_rl.launch.stall_watch import FILES, Bound, StallWatch, read_stacks

SETTINGS = {"seconds": 1.0, "times": 10, "first_seconds": 60, "end": False}

WAITING = """
import time

def waits_for_the_rollout():
    print("ready", flush=True)
    time.sleep(600)

waits_for_the_rollout()
"""


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()


def ended(metrics: Path, step: int, seconds: float) -> None:
    with metrics.open("a") as file:
        file.write(json.dumps({"step": step, "data": {"timing_s/step": seconds}}) + "\n")


def asked_for(watch: Callable[[], str | None], seconds: float) -> str | None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if said := watch():
            return said
        time.sleep(0.05)
    return None


def test_a_bound_follows_the_last_steps() -> None:
    bound = Bound.read({"seconds": 120, "times": 10, "first_seconds": 1800, "end": False})
    assert bound is not None
    assert bound.after([]) == 1800
    assert bound.after([0.5, 0.6, 40.0]) == 120  # a single long step does not count as usual
    assert bound.after([60, 61, 62]) == 610
    assert Bound.read(None) is None
    for wrong in ({"seconds": 0}, {"times": "ten"}, {"end": 1}):
        with pytest.raises(UserError, match=r"veritas_rl\.stall"):
            Bound.read({**SETTINGS, **wrong})


def test_a_step_that_stalls_is_named_once_with_what_its_processes_do(
    tmp_path: Path, worker: subprocess.Popen[str]
) -> None:
    metrics, said = tmp_path / "metrics.jsonl", list[str]()
    bound = Bound.read(SETTINGS)
    assert bound is not None
    watch = StallWatch(bound, metrics, tmp_path, 9, lambda: {worker.pid}, said.append)
    assert asked_for(watch, 1.5) is None
    assert not said  # no step has ended yet
    for step in (1, 2, 3):
        ended(metrics, step, 0.1)
        assert asked_for(watch, 0.3) is None
    worker.send_signal(signal.SIGSTOP)
    assert asked_for(watch, 4) is None  # the run is not ended
    (line,) = said
    file = tmp_path / "stalls/step_4.txt"
    assert line.startswith("step 4 has not ended for 1 s, and the last ones took 0.1 s: ")
    assert str(file) in line
    assert f"(process {worker.pid}) is stopped by a signal" in line
    assert "could not be read" not in line
    assert "waits_for_the_rollout" in file.read_text()
    # py-spy has left the process stopped. The following steps are watched again.
    worker.send_signal(signal.SIGCONT)
    for step in range(4, 4 + FILES + 2):
        ended(metrics, step, 0.01)
        assert asked_for(watch, 0.2) is None
        watch._since -= 60
        assert watch() is None
    assert len(said) == FILES + 3
    assert "the run after its last step has not ended" in said[-1]
    assert len(list((tmp_path / "stalls").iterdir())) == FILES


def test_the_run_is_ended_where_the_setting_says_so(tmp_path: Path, worker: subprocess.Popen[str]) -> None:
    bound = Bound.read({**SETTINGS, "first_seconds": 0.2, "end": True})
    assert bound is not None
    watch = StallWatch(bound, tmp_path / "metrics.jsonl", tmp_path, 9, lambda: {worker.pid}, pytest.fail)
    line = asked_for(watch, 3)
    assert line is not None
    assert line.startswith("step 1 has not ended for 0 s: ")
    assert "type the same command to resume from the last checkpoint" in line


def test_without_the_right_to_read_the_line_says_what_gives_it(
    worker: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """py-spy runs without the capability, so the kernel does not let it read the worker."""
    real = read_stacks([worker.pid])[0]
    assert real.reason is None
    program = tmp_path / "py-spy"
    found = subprocess.run(["which", "setpriv"], capture_output=True, check=False)
    if found.returncode or sys.platform != "linux":
        pytest.skip("setpriv is not installed")
    python_spy = Path(sys.executable).with_name("py-spy")
    program.write_text(f'#!/bin/sh\nexec setpriv --reuid 65534 --clear-groups --inh-caps=-all {python_spy} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    (stack,) = read_stacks([worker.pid])
    assert stack.reason is not None
    assert "SYS_PTRACE" in stack.reason
    assert f"process {worker.pid}" in stack.text
    # A process that has ended is skipped.
    worker.kill()
    worker.wait()
    assert read_stacks([worker.pid]) == []
