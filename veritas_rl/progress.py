"""The progress of long work: a bar on a terminal, and a line a minute elsewhere.

Both say what is done, how much a second, and how long the rest takes. While models reply in this process, they also say
how many replies and tokens there are, because one batch of long replies can take minutes.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

BAR_SECONDS = 1.0
"""Seconds between two updates of a bar."""

LINE_SECONDS = 60.0
"""Seconds between two lines if the console is no terminal."""

ROLLOUT = "rollout.json"
"""The file beside a run's metrics that says how far the tasks of a step are played."""


class Generated:
    """Counts what the models of this process have generated. Engines and clients of servers add to it.

    Attributes:
        replies: Finished replies.
        tokens: Tokens, also those of unfinished replies.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.replies = self.tokens = 0

    def add(self, replies: int, tokens: int) -> None:
        """Add to both counts, from any thread."""
        with self._lock:
            self.replies += replies
            self.tokens += tokens


GENERATED = Generated()
"""The counts of this process."""


@contextmanager
def progress(
    console: Console,
    total: int,
    done: int,
    what: str,
    *,
    doing: str = "",
    of_replies: bool = False,
    said: Callable[[], str] = lambda: "",
) -> Iterator[Callable[..., None]]:
    """Show the progress of some work.

    Args:
        console: Where to print.
        total: The number of items.
        done: The number of items that are already done.
        what: The singular name of an item.
        doing: What is done with them, such as "judging".
        of_replies: Whether the items are replies of this process's models, which are counted without a call.
        said: Returns more words for the end of the line.

    Yields:
        A function to call with the number of items that were finished since the last call; one by default.
    """
    work = _Work(total, done, what, doing, of_replies, said)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("{task.fields[more]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as shown:
        bar = shown.add_task(f"{doing} {what}s".strip(), total=total, completed=done, rate="", more="")
        over = threading.Event()

        def show() -> None:
            while not over.wait(BAR_SECONDS if console.is_terminal else LINE_SECONDS):
                if console.is_terminal:
                    shown.update(bar, completed=work.done, rate=work.rate, more=work.more)
                else:
                    console.print(work.line, markup=False, highlight=False, soft_wrap=True)

        thread = threading.Thread(target=show, name="progress", daemon=True)
        thread.start()
        try:
            yield work.advance
        finally:
            over.set()
            thread.join()


class _Work:
    """Work in progress. Its arguments are those of `progress`."""

    def __init__(self, total: int, done: int, what: str, doing: str, of_replies: bool, said: Callable[[], str]) -> None:
        self._total, self._first, self._done = total, done, done
        self._what, self._doing = what, doing
        self._of_replies, self._said = of_replies, said
        self._started = time.monotonic()
        self._replies, self._tokens = GENERATED.replies, GENERATED.tokens

    def advance(self, count: int = 1) -> None:
        """Count items as finished."""
        self._done += count

    @property
    def done(self) -> int:
        replies = self._first + GENERATED.replies - self._replies
        return min(self._total, replies) if self._of_replies else self._done

    @property
    def rate(self) -> str:
        return f"{(self.done - self._first) / self._seconds:.3g} a second"

    @property
    def more(self) -> str:
        """What models have generated, and the caller's words."""
        tokens = GENERATED.tokens - self._tokens
        generated = (
            f"{GENERATED.replies - self._replies:,} replies, {tokens:,} tokens, {tokens / self._seconds:.3g} a second"
        )
        return ", ".join(part for part in (generated if tokens else "", self._said()) if part)

    @property
    def line(self) -> str:
        """All of it on one line."""
        done = self.done
        seconds, since = self._seconds, done - self._first
        left = (
            f"about {seconds / since * (self._total - done):.0f} s left" if since else "the time left is not known yet"
        )
        start = f"{self._doing}: " if self._doing else ""
        more = f" ({self.more})" if self.more else ""
        return f"{start}{self._what} {done}/{self._total}, {self.rate}, {seconds:.0f} s, {left}{more}"

    @property
    def _seconds(self) -> float:
        return max(time.monotonic() - self._started, 1e-6)
