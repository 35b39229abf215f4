"""Work of other libraries that uses what the whole process shares: the global generator and the standard output."""

import random
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from threading import RLock

_TURN = RLock()


@contextmanager
def alone() -> Iterator[None]:
    """Let a library work alone among threads, and silently. Some libraries have a state of their own, too."""
    with _TURN, redirect_stdout(StringIO()):
        yield


class Generator:
    """A state of the global generator that belongs to one piece of work.

    Args:
        seed: The seed.
    """

    def __init__(self, seed: int | str) -> None:
        self._state = random.Random(seed).getstate()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let a library work alone, and draw from this state."""
        with alone():
            before = random.getstate()
            random.setstate(self._state)
            try:
                yield
            finally:
                self._state = random.getstate()
                random.setstate(before)

    def copy(self) -> "Generator":
        """A generator that goes on in the same way."""
        made = Generator(0)
        made._state = self._state
        return made
