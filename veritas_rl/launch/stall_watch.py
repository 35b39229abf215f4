"""Report a step that does not end, with the stacks of the run's processes.

The time of a step depends on the model, the tasks and the machine, so the limit follows the run's own steps. py-spy
reads the stacks without stopping a process. If it cannot read them, the file still lists the processes with their
states.
"""

import shutil
import subprocess
import sysconfig
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from veritas_rl.checkpoints.folder import keep_newest_beside
from veritas_rl.errors import UserError
from veritas_rl.metrics_file import MetricsFile

HISTORY = 20
"""The number of last steps for the median."""

FOLDER = "stalls"
"""The folder of stack files in the folder of a run's logs."""

FILES = 10
"""The number of stack files that are kept."""

DUMP_SECONDS = 20.0
"""The timeout of py-spy for one process, in seconds."""

AT_ONCE = 4
"""The number of processes that are read at the same time."""

PYTHON = ("python", "ray::", "pt_main_thread")
"""The prefixes of the names of Python processes."""

RIGHTS = "as root, or docker run --cap-add SYS_PTRACE, or sysctl kernel.yama.ptrace_scope=0"
"""The command that gives py-spy permission to read stacks."""


@dataclass(frozen=True)
class Bound:
    """The time limit of a step.

    Attributes:
        seconds: The minimum limit in seconds.
        times: The limit as a multiple of the median of the last steps.
        first_seconds: The limit for the first step in seconds.
        end: Whether a step that exceeds the limit ends the run.
    """

    seconds: float
    times: float
    first_seconds: float
    end: bool

    @classmethod
    def read(cls, settings: Mapping[str, Any] | None) -> "Bound | None":
        """The limit that `veritas_rl.stall` sets; None for no limit.

        Raises:
            UserError: The setting is invalid.
        """
        if settings is None:
            return None
        for name in ("seconds", "times", "first_seconds"):
            value = settings[name]
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise UserError(
                    f"veritas_rl.stall.{name}={value} must be a number above 0: set veritas_rl.stall=null to turn the "
                    "watchdog off"
                )
        if not isinstance(settings["end"], bool):
            raise UserError(f"veritas_rl.stall.end={settings['end']} must be true or false")
        return cls(**{name: settings[name] for name in ("seconds", "times", "first_seconds", "end")})

    def after(self, took: Iterable[float]) -> float:
        """The limit of the next step in seconds.

        Args:
            took: The seconds of the last steps; empty before the first step has ended.
        """
        known = list(took)
        return max(self.seconds, self.times * median(known)) if known else self.first_seconds


class StallWatch:
    """Finds a step that takes too long, and reports it once.

    Args:
        bound: The time limit of a step.
        metrics: The run's metrics file, which gets a line at each step's end.
        logs: The folder of the run's logs.
        steps: The number of steps of the run.
        processes: Returns the ids of the run's processes.
        show: Prints a line.
    """

    def __init__(
        self,
        bound: Bound,
        metrics: Path,
        logs: Path,
        steps: int,
        processes: Callable[[], Iterable[int]],
        show: Callable[[str], object],
    ) -> None:
        self._bound, self._logs, self._steps, self._processes, self._show = bound, logs, steps, processes, show
        self._metrics = MetricsFile(metrics)
        self._ended = max((step for step, _ in self._metrics.new()), default=0)
        self._took: deque[float] = deque(maxlen=HISTORY)
        self._since, self._began, self._named = time.monotonic(), False, False

    def __call__(self) -> str | None:
        """Check the current step. Returns why the run must end in one line, or None."""
        now = time.monotonic()
        for step, data in self._metrics.new():
            # Metrics before the first step, such as those of a validation, include the start of the run and have
            # no step time.
            if (took := data.get("timing_s/step", now - self._since if self._began else None)) is not None:
                self._took.append(took)
            self._ended, self._since, self._began, self._named = step, now, True, False
        taken = now - self._since
        if self._named or taken <= self._bound.after(self._took):
            return None
        self._named = True
        line = self._report(taken)
        if self._bound.end:
            return (
                f"{line}; the run ends because of veritas_rl.stall.end=true: type the same command to resume from the "
                "last checkpoint"
            )
        self._show(f"{line}; the run continues (veritas_rl.stall.end=true would end it)")
        return None

    def _report(self, taken: float) -> str:
        """Write the stacks to a file, and return a line with its path."""
        found = read_stacks(self._processes())
        file = self._logs / FOLDER / f"step_{self._ended + 1}.txt"
        usual = f", and the last ones took {median(self._took):.1f} s" if self._took else ""
        what = f"step {self._ended + 1}" if self._ended < self._steps else "the run after its last step"
        line = f"{what} has not ended for {taken:.0f} s{usual}: "
        try:
            file.parent.mkdir(exist_ok=True)
            file.write_text("\n\n".join(process.text for process in found) + "\n")
            keep_newest_beside(file, FILES)
            line += f"{file} has the stacks of its {len(found)} processes"
        except OSError as error:
            line += f"the stacks of its processes could not be written ({error.strerror})"
        if stopped := [process for process in found if process.state == psutil.STATUS_STOPPED]:
            names = ", ".join(f"{process.name} (process {process.number})" for process in stopped)
            line += f"; {names} {'is' if len(stopped) == 1 else 'are'} stopped by a signal"
        unread = [process for process in found if process.reason is not None]
        if unread:
            line += f"; {len(unread)} could not be read ({unread[0].reason})"
        return line


@dataclass(frozen=True)
class Stack:
    """The description of a process.

    Attributes:
        number: Its id.
        name: Its name or title.
        state: Its state as psutil names it.
        text: Its stacks, or a description without stacks.
        reason: Why its stacks could not be read; None if they were read, or if it is not a Python process.
    """

    number: int
    name: str
    state: str
    text: str
    reason: str | None


def read_stacks(processes: Iterable[int]) -> list[Stack]:
    """The stacks of processes of this machine, ordered by id. Ended processes are left out."""
    program = shutil.which("py-spy", path=sysconfig.get_path("scripts")) or shutil.which("py-spy")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda number: _read(number, program), sorted(processes))
    return [stack for stack in found if stack is not None]


def _read(number: int, program: str | None) -> Stack | None:
    try:
        process = psutil.Process(number)
        command, state = process.cmdline(), process.status()
        name = command[0] if command and command[0].startswith("ray::") else process.name()
    except psutil.Error:
        return None
    head = f"process {number}, {name}, {state}\n{' '.join(command)[:300]}"
    if not name.startswith(PYTHON) or state == psutil.STATUS_ZOMBIE:
        return Stack(number, name, state, head, None)
    if program is None:
        return Stack(number, name, state, head, "py-spy is not installed: pip install py-spy")
    try:
        # Without --nonblocking py-spy stops the process, and leaves it stopped if py-spy is killed.
        done = subprocess.run(
            [program, "dump", "--nonblocking", "--pid", str(number)],
            capture_output=True,
            text=True,
            timeout=DUMP_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = "py-spy got no answer" if isinstance(error, subprocess.TimeoutExpired) else str(error)
        return Stack(number, name, state, f"{head}\n{reason}", reason)
    if done.returncode:
        said = " ".join(done.stderr.split())
        denied = "denied" in said.lower() or "not permitted" in said.lower()
        reason = f"py-spy may not: {RIGHTS}" if denied else f"py-spy: {said[:200]}"
        return Stack(number, name, state, f"{head}\n{said}", reason)
    return Stack(number, name, state, f"{head}\n{done.stdout.strip()}", None)
