"""Run verl as a process with a live bar, end it with all its children, and find the cause of its end."""

import ctypes
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from rich.console import Console

from veritas_rl.checkpoints.room import cannot_write, lack_of_room
from veritas_rl.errors import UserError
from veritas_rl.launch import machine_checks
from veritas_rl.launch.known_faults import COLOURS, ENGINE_DIED, faults_in
from veritas_rl.launch.progress import watch
from veritas_rl.launch.run import Run
from veritas_rl.launch.stall_watch import Bound, StallWatch
from veritas_rl.launch.wandb_sync import check_server, sync_command
from veritas_rl.metrics_file import MetricsFile
from veritas_rl.paths import ROOT

LOG_TAIL_LINES = 30
SEARCHED_LINES = 200
"""How many last lines of a log are searched for known errors."""

CLOCK_SECONDS = 60.0
"""A larger change between two polls counts as a jump of the clock. Gradual adjustments are smaller."""

DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""

END_SECONDS, FAULT_SECONDS = 20.0, 5.0
"""Seconds after SIGINT in which verl may end by itself: usually, and if the launcher ends the run because of a fault,
such as a lost process."""

TORCHRUN_ADDS = re.compile(r"torch/distributed/elastic/.*\bfailed \(exitcode")
"""The start of torchrun's summary, which never states the cause."""

FORWARDED = re.compile(r"(?:\x1b\[\d+m)?\((?:raylet|autoscaler|[^()]*\bpid=)")
"""The start of a line that another process printed and Ray forwarded."""

ERROR = re.compile(r"(?:\[rank\d+\]: *)?((?:\w+\.)*\w*(?:Error|Exception)\b.*)")

RAYS = "ray.exceptions."
"""The start of an error of Ray itself, such as the one after the death of a daemon."""

DEAD_ACTOR = re.compile(
    r"class_name: (?:\S+\.)?(\w+)\s+actor_id: \w+\s+pid: (\d+)\s+(?:name: \S+\s+)?namespace: \S+\s+ip: \S+\s+"
    r"The actor is dead because its worker process has died"
)
"""Ray's description of an actor whose own process died, in the error of a caller."""


def run_verl(run: Run, console: Console) -> bool:
    """Run verl to its end, with a live bar.

    If the trainer supports it (`Run.stop_file`), SIGTERM asks it to save and end, and a second SIGTERM ends it at once.

    Returns:
        Whether the run is complete; False if it was asked to stop.

    Raises:
        UserError: verl ended with an error or before its last step, or Ray lacks resources for the run.
    """
    check_server(run, console)
    stop, asked = run.stop_file, False

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        assert stop is not None
        stop.touch()
        console.print("stopping: the run saves a checkpoint after this step; a second signal ends it at once")

    def show(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    if stop is not None:
        stop.unlink(missing_ok=True)
        signal.signal(signal.SIGTERM, ask)
    with run.log.open("ab") as log:
        # A resumed run appends to the log of the runs before it.
        began = log.seek(0, os.SEEK_END)
        end_within = END_SECONDS
        process = subprocess.Popen(
            run.started_command(),
            cwd=ROOT,
            env={**os.environ, **run.environment()},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        try:
            watchdog, render = run.watchdog(process.pid), run.renderer()
            nodes, deaths = run.node_watch(process.pid), run.deaths(process.pid)
            stalls, clock = stall_watch(run, process.pid, show), ClockWatch()

            def lost() -> str | None:
                if jumped := clock():
                    show(jumped)
                if found := (stalls and stalls()) or full_disk(run):
                    return found
                if nodes and (left := nodes()):
                    return left
                died = deaths()
                # A lost node also kills its processes. Report the node.
                return (nodes.after_end() or died) if died and nodes else died

            code = watch(process, run.log, run.metrics, run.steps, console, run.first_step, watchdog, render, lost)
        except UserError:
            end_within = FAULT_SECONDS
            raise
        finally:
            # A second Ctrl-C must not interrupt `end` and leave processes behind.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            end(process, end_within)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.default_int_handler)
            if (command := sync_command(run)) is not None:
                show(f"Weights & Biases has not got all of this run: {command}")
    if code:
        cause = cause_of_end(run.log, code, console, deaths.named(), began)
        raise UserError((nodes.after_end() if nodes else None) or cause)
    if not asked and (last := last_step(run.metrics)) is not None and last < run.steps:
        raise UserError(
            f"verl ended without an error after step {last} of {run.steps}: type the same command to resume; its log "
            f"is {run.log}"
        )
    return not asked


def stall_watch(run: Run, process: int, show: Callable[[str], object]) -> StallWatch | None:
    """The watch for a step that does not end, as `veritas_rl.stall` sets it; None if it is turned off."""
    bound = Bound.read(run.configuration.veritas_rl.stall)
    if bound is None:
        return None
    return StallWatch(bound, run.metrics, run.folder, run.steps, lambda: run.processes(process), show)


class ClockWatch:
    """Reports a jump of this machine's clock during a run. Timeouts do not use this clock, but names and logs do."""

    def __init__(self) -> None:
        self._ahead = self._offset()

    def __call__(self) -> str | None:
        """A line for the console after each jump, else None."""
        by = self._offset() - self._ahead
        if abs(by) < CLOCK_SECONDS:
            return None
        self._ahead += by
        return f"the clock of this machine has jumped by {by:+.0f} s: the run continues, and its logs have both times"

    @staticmethod
    def _offset() -> float:
        return time.time() - time.monotonic()


def full_disk(run: Run) -> str | None:
    """Why the disk must end the run; None while the run may continue, or if the trainer checks the disk itself."""
    if run.stop_file is not None:
        return None
    spare = machine_checks.spare_bytes(run.configuration)
    for folder in (run.checkpoints, run.folder):
        if found := lack_of_room(folder, spare, "what a run writes (veritas_rl.spare_disk_gib)"):
            return f"{found}: free some space, and type the same command to resume from the last checkpoint"
    return None


def last_step(metrics: Path) -> int | None:
    """The last step in the metrics file; None if the file logger is off."""
    if not metrics.exists():
        return None
    return max((step for step, _ in MetricsFile(metrics).new()), default=0)


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent dies. Ray's daemons end with this process."""
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)


def end(process: subprocess.Popen[bytes], within: float = END_SECONDS) -> None:
    """End verl and all its children, including Ray's daemons, which outlive a killed parent.

    Args:
        process: verl's process.
        within: Seconds after SIGINT in which verl may end by itself.
    """
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=within)
        except subprocess.TimeoutExpired:
            process.kill()
    for child in family:
        if child.is_running():
            child.terminate()
    for child in psutil.wait_procs(family, timeout=5)[1]:
        child.kill()


def ended_with(code: int, died: str | None) -> str:
    """Describe an exit code of `subprocess`, with a hint at the cause if no other process died before."""
    if code >= 0:
        return f"exit code {code}"
    hint = " (the kernel sends it if memory runs out: see dmesg)" if -code == signal.SIGKILL and not died else ""
    return f"{signal.Signals(-code).name}{hint}"


def cause_of_end(log: Path, code: int, console: Console, died: str | None = None, began: int = 0) -> str:
    """Find why verl ended: a worker's `UserError`, or the errors at the end of the log. Also print the end of the log.

    Args:
        log: The output of verl and its workers.
        code: The exit code.
        console: Where the end of the log is printed.
        died: The process that died before verl, as a clause, if known.
        began: The size of the log in bytes when verl started.
    """
    lines = log.read_bytes()[began:].decode(errors="replace").splitlines()
    if messages := [found.group(1) for line in lines if (found := re.search(r"\bUserError: (.+)", line))]:
        return f"{messages[-1]} (the log is {log})"
    added = [number for number, line in enumerate(lines) if TORCHRUN_ADDS.search(line)]
    recent = (lines[: added[-1]] if added else lines)[-SEARCHED_LINES:]
    console.print("\n".join(recent[-LOG_TAIL_LINES:]), markup=False, highlight=False)
    # Ray forwards the last output of all workers after verl's error.
    own = [line for line in recent if not FORWARDED.match(line)][-LOG_TAIL_LINES:]
    errors = [found.group(1) for line in own if (found := ERROR.match(line))]
    if found := DEAD_ACTOR.search("\n".join(own)):
        # The daemons of Ray end with verl, so a dead actor that verl names is the cause of their end, too.
        died = f"the actor {found[1]} (process {found[2]}) died"
    elif died is not None and died.startswith("Ray's ") and not all(error.startswith(RAYS) for error in errors):
        died = None  # verl's own error came first
    # Each rank reports the same error.
    why = "; ".join(dict.fromkeys(errors)) or ended_with(code, died)
    if died is not None:
        why = f"{why.removesuffix('.')} after {died}"
    known = next(faults_in("\n".join(lines[-SEARCHED_LINES:])), None)
    if known is None and (line := ENGINE_DIED.line_in(COLOURS.sub("", "\n".join(lines)))):
        known = ENGINE_DIED, line
    if known is not None:
        fault, line = known
        return f"verl ended with {why if line in why else line} ({fault.cause}; its log is {log}): {fault.mend}"
    if (reason := cannot_write(log.parent)) is not None:  # and neither could verl
        return f"verl ended with {why}, and {reason}: free some space, or use a folder on another disk"
    return f"verl ended with {why}: its log is {log}"
