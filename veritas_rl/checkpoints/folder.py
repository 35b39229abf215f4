"""Atomic files and folders: written to a temporary name, flushed to the disk, then renamed."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from veritas_rl.errors import UserError


def check_empty(folder: Path) -> None:
    """Refuse to write a model into a folder that is not empty.

    Raises:
        UserError: The folder is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is not empty, and models are never overwritten: remove it, or choose a new folder")


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `folder` at the end of the block, or removed if the block raises.

    Args:
        folder: The new folder, which must be missing or empty. Its parents are created.

    Raises:
        UserError: `folder` is not empty, or cannot be created.
    """
    check_empty(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise UserError(f"{folder} cannot be created ({error}): choose another folder") from error
    try:
        yield beside
        paths = [*beside.rglob("*"), beside]
        for path in paths:
            # mkdtemp and safetensors create private files, which other users of the machine could not read.
            path.chmod(0o755 if path.is_dir() else 0o644)
        _flush(paths)
        beside.replace(folder)
        _flush([folder.parent])
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically: readers see the old or the new contents."""
    with replaced(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file that replaces `path` at the end of the block, or is removed if it raises."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    beside = Path(name)
    try:
        yield beside
        beside.chmod(0o644)
        _flush([beside])
        beside.replace(path)
        _flush([path.parent])
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def keep_newest_beside(written: Path, most: int) -> None:
    """Remove the oldest files beside a newly written file, until at most `most` files are left in its folder."""
    others = sorted(set(written.parent.iterdir()) - {written}, key=lambda file: file.stat().st_mtime_ns)
    for file in others[: max(0, len(others) + 1 - most)]:
        file.unlink()


def save_model_folder(model: Any, tokenizer: Any, folder: Path) -> Path:
    """Write a Hugging Face folder atomically.

    Args:
        model: A transformers model.
        tokenizer: A transformers tokenizer.
        folder: The new folder, which must be missing or empty.

    Returns:
        `folder`.

    Raises:
        UserError: `folder` is not empty.
    """
    with whole_folder(folder) as beside:
        model.save_pretrained(beside)
        tokenizer.save_pretrained(beside)
    return folder


def _flush(paths: Iterable[Path]) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
