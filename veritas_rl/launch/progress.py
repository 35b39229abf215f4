"""The progress bar of a training run: reward, legal rate and time left, from verl's metrics file."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as TimeLeft

from veritas_rl import announcements
from veritas_rl.errors import UserError
from veritas_rl.metrics_file import MetricsFile, Tail
from veritas_rl.progress import LINE_SECONDS, ROLLOUT

POLL_SECONDS = 0.5


def render_rewards(data: Mapping[str, Any]) -> str | None:
    """The metrics of an RL step on one line; None if the metrics belong to no step."""
    if "critic/score/mean" not in data:
        return None
    return f"reward {data['critic/score/mean']:.3f}  legal {data.get('task/legal', float('nan')):.3f}"


def loss_renderer() -> Callable[[Mapping[str, Any]], str | None]:
    """Make a function that renders an SFT step: the batch's loss and the last validation loss."""
    last = ""

    def render(data: Mapping[str, Any]) -> str | None:
        nonlocal last
        if "val/loss" in data:
            last = f"  val {data['val/loss']:.3f}"
        return f"loss {data['train/loss']:.3f}{last}" if "train/loss" in data else None

    return render


def playing(file: Path) -> str:
    """How far the tasks of a step are played, from the trainer's file; "" if all are, or if there is no file."""
    try:
        said = json.loads(file.read_text())
    except FileNotFoundError:
        return ""
    done, of, seconds = said["done"], said["of"], said["seconds"]
    if done >= of:
        return ""
    left = f", about {seconds / done * (of - done):.0f} s left" if done and seconds else ""
    rate = f", {done / seconds:.3g} a second" if seconds else ""
    return f"{done}/{of} tasks played, {said['replies']} replies{rate}{left}"


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
        process: The process of verl.
        log: The file with the process's output. Lines that match `announcements.PATTERN` are printed.
        metrics: The file that verl's file logger writes.
        steps: The total number of training steps.
        first: The number of steps that are already trained.
        console: Where to draw. If the console is no terminal, a line is printed every tenth of the run, and
            `LINE_SECONDS` after the last line.
        watchdog: Returns a resource for which the process would wait forever, or None. Called until the first
            metrics are written.
        render: Renders a step's metrics on one line; None for metrics of no step.
        lost: Returns why the run must end, or None: a lost node, a dead process, a step that does not end, or a full
            disk. Called at every poll.

    Returns:
        The exit code of the process.

    Raises:
        UserError: `watchdog` or `lost` reported an error. The process is still running.
    """
    file, last_printed, print_every = MetricsFile(metrics), 0, max(1, steps // 10)
    list(file.new())  # skips steps before the resumed checkpoint
    output = Tail(log)
    list(output.new())
    started, began, waiting = time.monotonic(), (0, 0.0), True
    shown, reached, newest = started, first, ""
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
                if said := re.search(announcements.PATTERN, line.decode(errors="replace")):
                    progress.console.print(said.group().rstrip(), markup=False, highlight=False, soft_wrap=True)
            for step, data in file.new():
                waiting, reached = False, max(step, reached)
                if (line := render(data)) is None:
                    continue
                newest = line
                progress.update(bar, description="training", completed=step, rendered=line)
                if not console.is_terminal and (
                    step - last_printed >= print_every or step == steps or last_printed == 0
                ):
                    last_printed, shown = step, time.monotonic()
                    seconds = shown - started
                    # The start of Ray and verl does not count.
                    began = began if began[0] else (step, seconds)
                    left = (seconds - began[1]) / max(1, step - began[0]) * (steps - step)
                    known = f", about {left:.0f} s left" if step > began[0] else ""
                    console.print(f"step {step}/{steps}  {line}  {seconds:.0f} s{known}")
            if code is not None:
                return code
            played = playing(metrics.with_name(ROLLOUT))
            progress.update(bar, rendered=f"{newest}  {played}".strip())
            if not console.is_terminal and time.monotonic() - shown > LINE_SECONDS:
                shown = time.monotonic()
                now = played or ("starting verl" if waiting else "updating the model")
                console.print(f"step {reached}/{steps} is done; {now}, {shown - started:.0f} s", highlight=False)
            if found := (waiting and watchdog()) or lost():
                raise UserError(found)
            time.sleep(POLL_SECONDS)
