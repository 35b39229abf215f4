"""Choose checkpoints of an experiment for removal, and remove them. Imports without torch.

Three kinds are never removed: the newest complete checkpoint, newer incomplete checkpoints (which may be in
progress), and checkpoints in use. The trainer keeps its last checkpoints by the same rules, and never removes
incomplete checkpoints.
"""

import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from veritas_rl.checkpoints.layout import INFO, remove_info, removing, step_folders, whole_checkpoints


class Reason(StrEnum):
    """Why a checkpoint is kept or removed."""

    NEWEST = "newest complete checkpoint"
    UNFINISHED = "incomplete, and newer than every complete one"
    WANTED = "kept"
    READ = "in use"
    PARTIAL = "incomplete, and older than the newest complete one"
    BEYOND = "older than the kept ones"
    OVER = "over the size limit"


GOING = (Reason.PARTIAL, Reason.BEYOND, Reason.OVER)
"""The reasons for removal."""


@dataclass(frozen=True)
class Verdict:
    """The decision about one checkpoint.

    Attributes:
        checkpoint: `.../global_step_N`.
        size: The size of its files in bytes.
        reason: Why the checkpoint is kept or removed.
    """

    checkpoint: Path
    size: int
    reason: Reason

    @property
    def goes(self) -> bool:
        """Whether the checkpoint may be removed."""
        return self.reason in GOING


def verdicts(experiment: Path, keep: int | None = None, most_bytes: int | None = None) -> list[Verdict]:
    """Decide about each checkpoint, by ascending step. Nothing is changed.

    Args:
        experiment: The folder of the step folders. Links in it are ignored.
        keep: The number of newest complete checkpoints to keep; None for all.
        most_bytes: The size limit of all kept checkpoints, to which the oldest complete checkpoints are removed;
            None for no limit.
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
    """Remove a checkpoint unless it is in use, and return whether it was removed.

    Raises:
        OSError: The checkpoint cannot be removed completely. It then counts as incomplete.
    """
    with removing(checkpoint) as free:
        if free:
            # Mark it as incomplete first, because the process may be killed during the removal.
            remove_info(checkpoint)
            shutil.rmtree(checkpoint)
        return free


def keep_newest(experiment: Path, keep: int) -> None:
    """Remove all complete checkpoints except the newest `keep`. Trainers call it after each save."""
    for verdict in verdicts(experiment, keep):
        if verdict.goes and (verdict.checkpoint / INFO).is_file():
            remove(verdict.checkpoint)


def size_of(folder: Path) -> int:
    """The size of all files in a folder, in bytes. Files that vanish meanwhile are ignored."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total
