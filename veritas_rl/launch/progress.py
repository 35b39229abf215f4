"""A training run as a person watches it: a bar with reward, legal rate and time left, from verl's metrics file."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as TimeLeft

from veritas_rl.checkpoints import room
from veritas_rl.curriculum import stages
from veritas_rl.errors import UserError
from veritas_rl.verl_plugin import agreement, truncation

POLL_SECONDS = 0.5

ANNOUNCED = re.compile(
    f"(?:{stages.ANNOUNCEMENT}|{truncation.ANNOUNCEMENT}|{agreement.ANNOUNCEMENT}|{room.ANNOUNCEMENT}).+"
)
"""What a person is shown of verl's log."""


class Tail:
    """The whole lines that a file has got since one last looked.

    Args:
        path: It need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def new(self) -> Iterator[bytes]:
        """Each whole line that is new."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield line


class MetricsFile:
    """The metrics that verl's file logger has added since one last looked.

    Args:
        path: One JSON object a line: {"step": ..., "data": {name: number}}. It need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)

    def new(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The step and the metrics of each whole line that is new."""
        for line in self._tail.new():
            record = json.loads(line)
            yield record["step"], record["data"]


def render_rewards(data: Mapping[str, Any]) -> str | None:
    """The metrics of a step of RL on one line; None for those of no step."""
    if "critic/score/mean" not in data:
        return None
    return f"reward {data['critic/score/mean']:.3f}  legal {data.get('task/legal', float('nan')):.3f}"


def loss_renderer() -> Callable[[Mapping[str, Any]], str | None]:
    """Makes what renders a step of SFT: the loss of the batch and the last that was measured on val_files."""
    last = ""

    def render(data: Mapping[str, Any]) -> str | None:
        nonlocal last
        if "val/loss" in data:
            last = f"  val {data['val/loss']:.3f}"
        return f"loss {data['train/loss']:.3f}{last}" if "train/loss" in data else None

    return render


def watch(
    process: subprocess.Popen[bytes],
    log: Path,
    metrics: Path,
    steps: int,
    console: Console,
    first: int = 0,
    watchdog: Callable[[], str | None] = lambda: None,
    render: Callable[[Mapping[str, Any]], str | None] = render_rewards,
    lost: Callable[[], str | None] = lambda: None,
) -> int:
    """Show a live bar until the process ends.

    Args:
        process: verl.
        log: Where its output goes. What the curriculum announces there is printed, that replies are cut, that
            rollout and trainer disagree, and that the disk is nearly full.
        metrics: Where its file logger writes.
        steps: How many training steps there will be.
        first: How many of them were trained before.
        console: Where to draw. Where it is no terminal, a line is printed every tenth of the run instead.
        watchdog: Names what the process waits for and will not get. It is asked until the first metrics are there.
        render: Renders a step's metrics on one line; None for those of no step.
        lost: Says why the run has to be ended: a machine or a process that it has lost, a step that does not end, a
            disk that is full. It is asked all the time.

    Returns:
        The exit code of the process.

    Raises:
        UserError: The watchdog or `lost` found something; the process goes on waiting.
    """
    file, last_printed, print_every = MetricsFile(metrics), 0, max(1, steps // 10)
    list(file.new())  # those of the steps that were trained before
    output = Tail(log)
    list(output.new())
    started, began, waiting = time.monotonic(), (0, 0.0), True
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rendered]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeLeft(),
        console=console,
        disable=not console.is_terminal,
    ) as progress:
        bar = progress.add_task("starting verl", total=steps, completed=first, rendered="")
        while True:
            code = process.poll()
            for line in output.new():
                if said := re.search(ANNOUNCED, line.decode(errors="replace")):
                    progress.console.print(said.group().rstrip(), markup=False, highlight=False, soft_wrap=True)
            for step, data in file.new():
                waiting = False
                if (line := render(data)) is None:
                    continue
                progress.update(bar, description="training", completed=step, rendered=line)
                if not console.is_terminal and (
                    step - last_printed >= print_every or step == steps or last_printed == 0
                ):
                    last_printed, seconds = step, time.monotonic() - started
                    # From the first step on: what came before is Ray and verl starting.
                    began = began if began[0] else (step, seconds)
                    left = (seconds - began[1]) / max(1, step - began[0]) * (steps - step)
                    known = f", about {left:.0f} s left" if step > began[0] else ""
                    console.print(f"step {step}/{steps}  {line}  {seconds:.0f} s{known}")
            if code is not None:
                return code
            if found := (waiting and watchdog()) or lost():
                raise UserError(found)
            time.sleep(POLL_SECONDS)
