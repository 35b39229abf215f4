"""Chooses checkpoints of an experiment for removal, and removes them. Imports without torch.

Never removed are the newest whole one, those that are newer and not whole (one may be in the writing), and those that
somebody reads. The trainer keeps its last few by the same rules, and never removes what does not say that it is whole.
"""

import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from veritas_rl.checkpoints.layout import INFO, remove_info, removing, step_folders, whole_checkpoints


class Reason(StrEnum):
    """Why a checkpoint stays or goes."""

    NEWEST = "the newest whole one"
    UNFINISHED = "not whole, and newer than every whole one"
    WANTED = "to be kept"
    READ = "is being read"
    PARTIAL = "not whole, and older than the newest whole one"
    BEYOND = "older than those to be kept"
    OVER = "over the size"


GOING = (Reason.PARTIAL, Reason.BEYOND, Reason.OVER)
"""The reasons for which one goes."""


@dataclass(frozen=True)
class Verdict:
    """What shall become of one checkpoint.

    Attributes:
        checkpoint: `.../global_step_N`.
        size: Bytes of its files.
        reason: Why it stays or goes.
    """

    checkpoint: Path
    size: int
    reason: Reason

    @property
    def goes(self) -> bool:
        """Whether it may be removed."""
        return self.reason in GOING


def verdicts(experiment: Path, keep: int | None = None, most_bytes: int | None = None) -> list[Verdict]:
    """What shall become of each checkpoint, by ascending step. Nothing is changed.

    Args:
        experiment: The folder of the step folders. Links in it are left alone.
        keep: How many of the newest whole ones stay; None for all.
        most_bytes: The oldest whole ones go until all that stay take no more; None for no limit.
    """
    steps = [path for path in step_folders(experiment) if path.is_dir() and not path.is_symlink()]
    whole = [path for path in whole_checkpoints(experiment) if path in steps]
    sizes = {path: size_of(path) for path in steps}
    newest = steps.index(whole[-1]) if whole else -1
    reasons: dict[Path, Reason] = {}
    for index, path in enumerate(steps):
        if path in whole:
            beyond = keep is not None and path in whole[:-keep]
            reasons[path] = Reason.BEYOND if beyond else Reason.WANTED
        else:
            reasons[path] = Reason.PARTIAL if index < newest else Reason.UNFINISHED
    if whole:
        reasons[whole[-1]] = Reason.NEWEST
    for path in steps:
        if reasons[path] in (*GOING, Reason.WANTED):
            with removing(path) as free:
                reasons[path] = reasons[path] if free else Reason.READ
    if most_bytes is not None:
        stays = sum(size for path, size in sizes.items() if reasons[path] not in GOING)
        for path in whole[:-1]:
            if stays > most_bytes and reasons[path] is Reason.WANTED:
                reasons[path] = Reason.OVER
                stays -= sizes[path]
    return [Verdict(path, sizes[path], reasons[path]) for path in steps]


def remove(checkpoint: Path) -> bool:
    """Remove a checkpoint, unless somebody reads it; whether it was removed.

    Raises:
        OSError: It cannot be removed, or not all of it; it counts as whole no more.
    """
    with removing(checkpoint) as free:
        if free:
            # First of all it is whole no more: the process may be killed while it is removed.
            remove_info(checkpoint)
            shutil.rmtree(checkpoint)
        return free


def keep_newest(experiment: Path, keep: int) -> None:
    """Remove the whole checkpoints but the newest `keep`: what a trainer does after it has saved one."""
    for verdict in verdicts(experiment, keep):
        if verdict.goes and (verdict.checkpoint / INFO).is_file():
            remove(verdict.checkpoint)


def size_of(folder: Path) -> int:
    """The bytes of all files in a folder. One that vanishes meanwhile counts nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total
