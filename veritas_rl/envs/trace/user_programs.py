"""Reads users' own programs from a JSONL or parquet file with a column `program` and an optional column `inputs`."""

import ast
import json
import mmap
import warnings
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from veritas_rl.envs.trace.programs import Program
from veritas_rl.envs.trace.sandbox import Limits
from veritas_rl.errors import UserError

_MOST_NAMED = 5


@dataclass(frozen=True)
class BadRow:
    """A row that is skipped.

    Attributes:
        line: The line in the file, or the row in a parquet file, counted from 1.
        why: The error in the row.
    """

    line: int
    why: str


class UserPrograms(Sequence[Program]):
    """The usable programs of a file, in the order of the file. A program is read from the file at each access.

    Attributes:
        path: The file.
        bad: The rows that are skipped.
    """

    def __init__(self, path: Path | str) -> None:
        """Check all rows of a file.

        Args:
            path: A file whose name ends in `.jsonl` or `.parquet`. `program` is a string; the optional `inputs` is a
                string or a list of lines.

        Raises:
            UserError: The file cannot be read, or contains no usable program.
        """
        self.path = Path(path)
        self._rows = _open(self.path)
        self.bad: list[BadRow] = []
        self._good = array("Q")
        largest = Limits().source
        for index, row in enumerate(self._rows):
            try:
                _check(_program(row), largest)
            except _Unusable as error:
                self.bad.append(BadRow(self._rows.line(index), str(error)))
            else:
                self._good.append(index)
        if not self._good:
            named = f": {self._named()}" if self.bad else ""
            raise UserError(f"{self.path} has no usable program{named}; give rows like {_EXAMPLE}")

    @property
    def word(self) -> str:
        """The name of a line of the file, "line" or "row"."""
        return self._rows.word

    def line(self, index: int) -> int:
        """The line of a program in the file, or its row in a parquet file, counted from 1."""
        return self._rows.line(self._good[index])

    def _named(self) -> str:
        shown = "; ".join(f"{self.word} {row.line}: {row.why}" for row in self.bad[:_MOST_NAMED])
        more = len(self.bad) - _MOST_NAMED
        return f"{shown}; and {more} more" if more > 0 else shown

    def __len__(self) -> int:
        return len(self._good)

    @overload
    def __getitem__(self, index: int) -> Program: ...
    @overload
    def __getitem__(self, index: slice) -> list[Program]: ...
    def __getitem__(self, index: int | slice) -> Program | list[Program]:
        if isinstance(index, slice):
            return [_program(self._rows[number]) for number in self._good[index]]
        return _program(self._rows[self._good[index]])


_EXAMPLE = '{"program": "print(input())", "inputs": "3"}'


class _Unusable(ValueError):
    """A row cannot be used; the message is the reason."""


class _Rows(ABC):
    """The rows of a file by their index. A row is usually a dict; an unreadable row is an `_Unusable` error."""

    word = "line"

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> object: ...

    def __iter__(self) -> Iterator[object]:
        return (self[index] for index in range(len(self)))

    def line(self, index: int) -> int:
        """The number of a row for messages."""
        return index + 1


class _JsonLines(_Rows):
    """A JSONL file, of which only the positions of the lines are in memory. Blank lines are no rows."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            empty = path.stat().st_size == 0
            self._data = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._starts, self._lines = array("Q"), array("Q")
        start, number = 0, 1
        while start < len(self._data):
            end = self._data.find(b"\n", start)
            end = len(self._data) if end < 0 else end
            if self._data[start:end].strip():
                self._starts.append(start)
                self._lines.append(number)
            start, number = end + 1, number + 1

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> object:
        start = self._starts[index]
        end = self._data.find(b"\n", start)
        try:
            return json.loads(self._data[start : end if end >= 0 else len(self._data)])
        except UnicodeDecodeError:
            return _Unusable("it is not UTF-8 text")
        except (ValueError, RecursionError):
            return _Unusable("it is not JSON")

    def line(self, index: int) -> int:
        return self._lines[index]


class _Parquet(_Rows):
    """A parquet file, whose columns stay in Arrow's memory."""

    word = "row"

    def __init__(self, path: Path) -> None:
        import pyarrow
        from pyarrow import parquet

        try:
            names = parquet.read_schema(path).names
            if "program" not in names:
                raise UserError(f"{path} has no column program, only {', '.join(names)}; name the column of texts so")
            self._columns = {
                name: parquet.read_table(path, columns=[name], memory_map=True).column(name)
                for name in ("program", "inputs")
                if name in names
            }
        except pyarrow.ArrowException as error:
            raise UserError(f"{path} is not a parquet file ({error}); write it with pandas or pyarrow") from error

    def __len__(self) -> int:
        return len(self._columns["program"])

    def __getitem__(self, index: int) -> object:
        try:
            return {name: column[index].as_py() for name, column in self._columns.items()}
        except UnicodeDecodeError:
            return _Unusable("it is not UTF-8 text")


def _open(path: Path) -> _Rows:
    if not path.is_file():
        raise UserError(f"the file {path} does not exist; give a .jsonl or .parquet file of programs")
    if path.suffix == ".jsonl":
        return _JsonLines(path)
    if path.suffix == ".parquet":
        return _Parquet(path)
    raise UserError(f"{path} is neither a .jsonl nor a .parquet file; give a file of rows like {_EXAMPLE}")


def _program(row: Any) -> Program:
    """The program of a row.

    Raises:
        _Unusable: The row is invalid.
    """
    if isinstance(row, _Unusable):
        raise row
    if not isinstance(row, dict):
        raise _Unusable("it is not an object with a program")
    source, inputs = row.get("program"), row.get("inputs")
    if source is None:
        raise _Unusable("it has no program")
    if not isinstance(source, str):
        raise _Unusable(f"its program is not a text (it is {type(source).__name__})")
    if not source.strip():
        raise _Unusable("its program is empty")
    if inputs is None:
        return Program(source)
    if isinstance(inputs, str):
        return Program(source, stdin=inputs)
    if isinstance(inputs, list) and all(isinstance(line, str) for line in inputs):
        return Program(source, stdin="".join(line if line.endswith("\n") else f"{line}\n" for line in inputs))
    raise _Unusable("its inputs are neither a text nor a list of lines")


def _check(program: Program, largest: int) -> None:
    """Check that a program is valid Python of a permitted size.

    Raises:
        _Unusable: The program is invalid or too large.
    """
    try:
        size = len(program.source.encode())
        program.stdin.encode()
    except UnicodeEncodeError:
        raise _Unusable("it has a lone surrogate") from None
    if size > largest:
        raise _Unusable(f"its program has {size} bytes, more than {largest}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(program.source)
    except SyntaxError as error:
        raise _Unusable(f"its program is not Python ({error.msg}, line {error.lineno})") from None
    except (ValueError, MemoryError, RecursionError) as error:
        raise _Unusable(f"its program is not Python ({type(error).__name__})") from None
