"""Reads `metrics.jsonl`, the metrics of verl's file logger, even while it is written."""

import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


class Tail:
    """Reads the complete lines that were appended to a file since the last read.

    Args:
        path: The file, which may not exist yet.
        again: Called before a file that was replaced or cut is read again from its start.
    """

    def __init__(self, path: Path, again: Callable[[], object] = lambda: None) -> None:
        self.path = path
        self._again = again
        self._offset = self._inode = 0

    def new(self) -> Iterator[bytes]:
        """The new complete lines."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            found = os.fstat(file.fileno())
            if self._offset and (found.st_ino != self._inode or found.st_size < self._offset):
                self._offset = 0
                self._again()
            self._inode = found.st_ino
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield line


class MetricsFile:
    """Reads the metrics that verl's file logger has added since the last read.

    Args:
        path: A file with one JSON object per line, {"step": ..., "data": {name: number or null}}. It may not exist
            yet.
    """

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)

    def new(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Step and metrics of the new complete lines."""
        for line in self._tail.new():
            record = json.loads(line)
            # The logger writes null for what is no finite number.
            yield record["step"], {name: math.nan if value is None else value for name, value in record["data"].items()}
