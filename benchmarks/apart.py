"""Work that a benchmark times, in a process of its own: the threads of two libraries in one process slow each other."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "30000"}
"""How threads wait in a run, as train/scripts/openspiel-ppo-trainer.sh sets it."""

_work: Callable[..., object]


class Apart:
    """A function in a process of its own.

    Args:
        make: Makes the function, in the process. It is called with `arguments`, and both are pickled.

    The first call of a function is slower.
    """

    def __init__(self, make: Callable[..., Callable[..., object]], *arguments: Any) -> None:
        os.environ.update(THREADS)
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), _begin, (make, arguments))

    def __call__(self, *arguments: Any) -> float:
        """The seconds of one call."""
        return self._pool.submit(_timed, *arguments).result()

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown()


def _begin(make: Callable[..., Callable[..., object]], arguments: tuple[Any, ...]) -> None:
    global _work
    _work = make(*arguments)


def _timed(*arguments: Any) -> float:
    started = time.perf_counter()
    _work(*arguments)
    return time.perf_counter() - started
