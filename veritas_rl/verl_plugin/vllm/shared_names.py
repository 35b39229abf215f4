"""Names of shared memory that a killed engine of vLLM would leave in /dev/shm."""

import contextlib
import re
from pathlib import Path

import psutil

SHARED = re.compile(r"/dev/shm/(?:psm_|sem\.mp-)\w+$", re.MULTILINE)
"""Shared memory and semaphores of Python in `/proc/PID/maps`, which marks that without a name as "(deleted)"."""


def remove_names() -> None:
    """Remove the names of shared memory and semaphores of all children of this process.

    They go with their last process.
    """
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(OSError):  # it has ended
            for name in SHARED.findall(Path(f"/proc/{process.pid}/maps").read_text()):
                Path(name).unlink(missing_ok=True)
