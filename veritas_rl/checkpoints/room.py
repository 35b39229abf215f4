"""The free space where a run writes: a run saves and ends while there is still room for a checkpoint. Without torch."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from veritas_rl.checkpoints.layout import step_of, whole_checkpoints
from veritas_rl.checkpoints.prune import size_of

ANNOUNCEMENT = "the disk is nearly full: "
"""How the warning begins, by which the launcher finds it in verl's log."""

MARGIN = 1.05
"""A checkpoint may be larger than the last one by so much: it holds the state of the data too."""


def nearest_existing(folder: Path) -> Path:
    """The folder, or the nearest above it that exists."""
    return next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())


def cannot_write(folder: Path) -> str | None:
    """Why a file cannot be made in a folder; asking for the right to would not see a full or a read-only disk."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 4096)
            file.flush()
    except OSError as error:
        return f"{folder} cannot be written ({error.strerror})"
    return None


def lack_of_room(folder: Path, needed: int, whose: str) -> str | None:
    """What the disk of a folder lacks, in a clause; None if it has enough.

    Args:
        folder: It need not exist yet.
        needed: Bytes.
        whose: What needs them.
    """
    free = shutil.disk_usage(nearest_existing(folder)).free
    return None if free >= needed else f"{_size(free)} free for {folder}, and {whose} need {_size(needed)}"


class DiskWatch:
    """Says when the disks that a run writes to are nearly full.

    Args:
        experiment: The folder of the run's checkpoints: one more has to fit there.
        others: Folders where the run writes little.
        spare: Bytes that have to be free beside that.
    """

    def __init__(self, experiment: Path, others: Sequence[Path], spare: int) -> None:
        self._experiment, self._others, self._spare = experiment, others, spare
        self._measured: tuple[Path, int] | None = None
        self._warned = False

    def warning(self) -> str | None:
        """A line for the console the first time that less is free than twice of what is needed, and None otherwise."""
        found = None if self._warned else next(self._short_of(2), None)
        self._warned = self._warned or found is not None
        return f"{ANNOUNCEMENT}{found}; at half of that the run saves a checkpoint and ends" if found else None

    def too_full(self) -> str | None:
        """Which disk has too little for a run to go on, in a clause; None if each has enough."""
        return next(self._short_of(1), None)

    def has_room(self) -> bool:
        """Whether one more checkpoint fits."""
        return shutil.disk_usage(nearest_existing(self._experiment)).free >= self._checkpoint_bytes()

    def advice(self) -> str:
        """With what the run goes on, and what to type."""
        newest = self._newest()
        kept = f"step {step_of(newest)} is saved" if newest else "no checkpoint was saved yet"
        return f"{kept}; free some (train/tools/prune_checkpoints.py removes old ones), and type the same command again"

    def _newest(self) -> Path | None:
        return next(reversed(whole_checkpoints(self._experiment)), None)

    def _checkpoint_bytes(self) -> int:
        """What a checkpoint takes: the newest whole one with a margin; 0 where there is none yet."""
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
