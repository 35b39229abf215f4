"""Files with which an interrupted command resumes: lines that are added one by one, and a check of the settings."""

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veritas_rl.errors import UserError


def check_settings(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Check that a file was written with the same settings.

    Args:
        path: The file.
        before: Its settings.
        now: The settings of this command.

    Raises:
        UserError: A setting differs; the message names it.
    """
    for name, value in now.items():
        if before[name] != value:
            raise UserError(
                f"{path} was written with {name}={before[name]}, not {value}; name another file or remove this one"
            )


class KeptLines:
    """The lines of a file, which only this process may extend.

    An incomplete last line, such as after a loss of power, is dropped.

    Args:
        path: The file. The file and its folder are created if they do not exist.

    Attributes:
        path: The file.
        lines: The complete lines that the file contained before, without line ends.

    Raises:
        UserError: Another process writes to the file, or the file cannot be read or written.
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
        """Append a line."""
        self._file.write(line.encode() + b"\n")
        self._file.flush()

    def clear(self) -> None:
        """Drop all lines."""
        self._file.truncate(0)
        self.lines = []

    def close(self) -> None:
        """Flush the file to the disk, and close it."""
        os.fsync(self._file.fileno())
        self._file.close()
