"""Check the free disk space of a run, which saves and ends while a checkpoint still fits. Imports without torch."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from veritas_rl import announcements
from veritas_rl.checkpoints.layout import step_of, whole_checkpoints
from veritas_rl.checkpoints.prune import size_of

MARGIN = 1.05
"""The factor for the size of the next checkpoint, which may have a larger state of the data."""


def nearest_existing(folder: Path) -> Path:
    """The folder, or its nearest existing parent."""
    # Path.exists raises where a parent cannot be read.
    return next(parent for parent in (folder, *folder.absolute().parents) if os.access(parent, os.F_OK))


def cannot_write(folder: Path) -> str | None:
    """Why a folder is not writable. Tries to write a file, which also detects full and read-only disks."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 4096)
            file.flush()
    except OSError as error:
        return f"{folder} is not writable ({error.strerror})"
    return None


def lack_of_room(folder: Path, needed: int, whose: str) -> str | None:
    """The missing disk space of a folder as a clause; None if there is enough.

    Args:
        folder: The folder, which may not exist yet.
        needed: The required space in bytes.
        whose: What needs the space.
    """
    free = shutil.disk_usage(nearest_existing(folder)).free
    return None if free >= needed else f"{_size(free)} free for {folder}, and {whose} need {_size(needed)}"


class DiskWatch:
    """Checks whether the disks of a run are nearly full.

    Args:
        experiment: The run's checkpoint folder, in which one more checkpoint must fit.
        others: Folders with small files of the run.
        spare: The additional free space in bytes.
    """

    def __init__(self, experiment: Path, others: Sequence[Path], spare: int) -> None:
        self._experiment, self._others, self._spare = experiment, others, spare
        self._measured: tuple[Path, int] | None = None
        self._warned = False

    def warning(self) -> str | None:
        """A line the first time that less than twice the required space is free, else None."""
        found = None if self._warned else next(self._short_of(2), None)
        self._warned = self._warned or found is not None
        return f"{announcements.DISK}{found}; at half of that the run saves a checkpoint and ends" if found else None

    def too_full(self) -> str | None:
        """The disk with too little space for the run, as a clause; None if all have enough."""
        return next(self._short_of(1), None)

    def has_room(self) -> bool:
        """Whether one more checkpoint fits."""
        return shutil.disk_usage(nearest_existing(self._experiment)).free >= self._checkpoint_bytes()

    def advice(self) -> str:
        """The checkpoint from which the run resumes, and what to type."""
        newest = self._newest()
        kept = f"step {step_of(newest)} is saved" if newest else "no checkpoint was saved yet"
        return (
            f"{kept}; free some space (train/tools/prune_checkpoints.py removes old checkpoints), and type the same "
            "command again"
        )

    def _newest(self) -> Path | None:
        return next(reversed(whole_checkpoints(self._experiment)), None)

    def _checkpoint_bytes(self) -> int:
        """The size of the newest complete checkpoint with a margin; 0 if there is none."""
        newest = self._newest()
        if newest is None:
            return 0
        if self._measured is None or self._measured[0] != newest:
            self._measured = newest, int(size_of(newest) * MARGIN)
        return self._measured[1]

    def _short_of(self, times: int) -> Iterator[str]:
        spare = "what else a run writes (veritas_rl.spare_disk_gib)"
        needed = times * (self._spare + self._checkpoint_bytes())
        if found := lack_of_room(self._experiment, needed, f"a checkpoint and {spare}"):
            yield found
        for folder in self._others:
            if found := lack_of_room(folder, times * self._spare, spare):
                yield found


def _size(number: int) -> str:
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"
