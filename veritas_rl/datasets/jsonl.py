"""Reads JSONL of other tools line by line, and reports each invalid line with its number and the reason."""

import json
import math
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
        BadLine: The line is not a JSON object, or has a number or a character that JSON or UTF-8 cannot hold.
    """
    try:
        record = json.loads(line.decode("utf-8-sig").strip(), parse_constant=_no_number, parse_float=_finite)
    except BadLine:
        raise
    except (ValueError, RecursionError) as error:
        raise BadLine(f"not JSON ({' '.join(str(error).split())[:80]})") from error
    # Only an escape can stand for half a pair, so that few lines are looked at twice.
    if b"\\ud" in line.lower():
        try:
            json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = f"\\u{ord(error.object[error.start]):04x}"
            raise BadLine(f"it has {half}, half of a surrogate pair, which is no character") from None
    if not isinstance(record, dict):
        raise BadLine(f"not a JSON object but {type(record).__name__}")
    return record


def _no_number(name: str) -> float:
    raise BadLine(f"it has {name}, which is no number of JSON")


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise BadLine(f"the number {text[:40]} is too large")
    return number


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
