"""Reads JSONL of other tools line by line, and reports each invalid line with its number and the reason."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veritas_rl.errors import UserError


class BadLine(ValueError):
    """Why a line cannot be used."""


@dataclass(frozen=True)
class Bad:
    """A line that cannot be used: its number from 1, and the reason."""

    number: int
    why: str

    def __str__(self) -> str:
        return f"line {self.number}: {self.why}"


def lines_of(path: Path, option: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not empty, each with its number from 1.

    Args:
        path: The file.
        option: The command-line option that names the file.

    Raises:
        UserError: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): set {option} to a JSONL file") from error


def record_of(line: bytes) -> dict[str, Any]:
    """Parse a line as a JSON object in UTF-8.

    Raises:
        BadLine: The line is not a JSON object.
    """
    try:
        record = json.loads(line.decode("utf-8-sig").strip())
    except (ValueError, RecursionError) as error:
        raise BadLine(f"not JSON ({' '.join(str(error).split())[:80]})") from error
    if not isinstance(record, dict):
        raise BadLine(f"not a JSON object but {type(record).__name__}")
    return record


def text_of(value: Any, name: str) -> str:
    """An answer as text. Numbers are accepted.

    Raises:
        BadLine: The value is neither text nor a number.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise BadLine(f"{name} is not text but {type(value).__name__}")
