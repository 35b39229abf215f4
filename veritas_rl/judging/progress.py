"""A progress bar with an estimate of the remaining time; without a terminal, a line for each tenth of the work."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def progress(console: Console, total: int, done: int, what: str) -> Iterator[Callable[..., None]]:
    """Show the progress of some work.

    Args:
        console: Where to print.
        total: The number of items.
        done: The number of items that are already done.
        what: The singular name of an item.

    Yields:
        A function to call with the number of items that were finished since the last call; one by default.
    """
    started, first, lines_every = time.monotonic(), done, max(1, total // 10)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as shown:
        bar = shown.add_task(f"{what}s", total=total, completed=done)

        def advance(count: int = 1) -> None:
            nonlocal done
            before, done = done, done + count
            shown.update(bar, completed=done)
            if not console.is_terminal and (done // lines_every > before // lines_every or done == total):
                seconds = time.monotonic() - started
                left = seconds / (done - first) * (total - done)
                console.print(f"{what} {done}/{total}  {seconds:.0f} s, about {left:.0f} s left", highlight=False)

        yield advance
