"""How far the tasks of a batch are played, for the launcher: verl says nothing until a step has ended."""

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.progress import ROLLOUT

POLL_SECONDS = 1
"""Seconds between two looks at the workers."""

PATIENCE_SECONDS = 60
"""Seconds in which a worker must answer. A busy worker is asked again."""


def watch_rollout(workers: Sequence[Any], folder: Path) -> None:
    """Keep a file current that says how far the newest batch is played, in the background.

    Args:
        workers: Actors `TaskLoopWorker`.
        folder: The folder of the file.
    """
    threading.Thread(target=_watch, args=(workers, folder / ROLLOUT), name="rollout-progress", daemon=True).start()


def _watch(workers: Sequence[Any], file: Path) -> None:
    last, started = (0, 0, 0), time.monotonic()
    while True:
        time.sleep(POLL_SECONDS)
        try:
            found = ray.get([worker.played.remote() for worker in workers], timeout=PATIENCE_SECONDS)
        except GetTimeoutError:
            continue
        except RayError:
            return  # the run ends
        done, of, replies = (sum(numbers) for numbers in zip(*found, strict=True))
        if (done, of, replies) == last:
            continue
        if of != last[1] or done < last[0]:
            started = time.monotonic()
        last = done, of, replies
        said = {"done": done, "of": of, "replies": replies, "seconds": time.monotonic() - started}
        write_whole(file, json.dumps(said).encode())
