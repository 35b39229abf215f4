"""Lines that are added to a file one by one, and are there after an interruption."""

import fcntl
import os
from pathlib import Path

from veritas_rl.errors import UserError


class KeptLines:
    """The lines of a file to which this process alone adds.

    A line that was cut off, as by a loss of power, is dropped.

    Args:
        path: The file; it need not exist yet, nor its folder.

    Attributes:
        path: The file.
        lines: What it held before, a line each, without the ends.

    Raises:
        UserError: Another process adds to it, or it cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file.seek(0)
            whole = [line for line in self._file.read().splitlines(keepends=True) if line.endswith(b"\n")]
            self.lines = [line.decode().rstrip("\n") for line in whole]
            self._file.truncate(sum(map(len, whole)))
        except BlockingIOError as error:
            raise UserError(f"another command writes to {path.parent}: wait, or give another --output") from error
        except OSError as error:
            raise UserError(
                f"{path.parent} cannot be written ({error.strerror or error}): give another --output"
            ) from error
        except ValueError as error:
            raise UserError(f"{path} cannot be read ({error}): remove it, or give another --output") from error

    def add(self, line: str) -> None:
        """Keep a line."""
        self._file.write(line.encode() + b"\n")
        self._file.flush()

    def clear(self) -> None:
        """Drop all lines."""
        self._file.truncate(0)
        self.lines = []

    def close(self) -> None:
        """Put everything on the disk."""
        os.fsync(self._file.fileno())
        self._file.close()
