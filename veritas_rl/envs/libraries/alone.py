"""Work of other libraries that uses what the whole process shares: the global generator and the standard output."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from threading import RLock

_TURN = RLock()


class Alone:
    """Let a library work alone among threads, and silently. Some libraries have a state of their own, too."""

    def __enter__(self) -> None:
        _TURN.acquire()
        self._output, sys.stdout = sys.stdout, StringIO()

    def __exit__(self, *_: object) -> None:
        sys.stdout = self._output
        _TURN.release()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let a library work alone, and draw from the global generator with this seed. Its own state comes back."""
    with Alone():
        state = random.getstate()
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)
