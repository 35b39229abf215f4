"""The limits of a sandboxed program, and the outcome of its run."""

from dataclasses import dataclass
from enum import StrEnum

from veritas_rl.errors import UserError


class Status(StrEnum):
    """The end of a run. Only a run with `OK` has output."""

    OK = "ok"
    """The program ended by itself; its output is complete."""
    ERROR = "error"
    """The program raised an uncaught exception, or requested an exit code other than 0."""
    SYNTAX = "syntax"
    """The text is not Python."""
    TIMEOUT = "timeout"
    """The program used up its CPU time or its wall time."""
    MEMORY = "memory"
    """The program exceeded its memory limit."""
    OUTPUT = "output"
    """The program exceeded its output limit."""
    ENCODING = "encoding"
    """The output is not UTF-8."""
    FORBIDDEN = "forbidden"
    """The program attempted a forbidden operation: files, network, processes, signals, threads, foreign libraries."""
    KILLED = "killed"
    """The process ended before the program: by a signal, by `os._exit`, or together with the sandbox."""


@dataclass(frozen=True)
class Outcome:
    """One run of one program.

    Attributes:
        status: How the run ended.
        stdout: The complete output if `status` is `OK`, else empty. Partial output is never returned.
        detail: The cause of another status in one line, such as `ZeroDivisionError`; empty for `OK`.
        busy: Whether the machine rather than the program may have caused a timeout: the wall time ran out, and the
            program used the CPU for less than half of it. Another run may have another status. Also true if the
            sandbox itself ended twice.
        hashes: Whether `status` is `OK` and the program may use sets or hashes. Dictionary views count as sets.
    """

    status: Status
    stdout: str = ""
    detail: str = ""
    busy: bool = False
    hashes: bool = False


@dataclass(frozen=True)
class Limits:
    """The limits of one program.

    Attributes:
        cpu: Seconds of CPU time; an integer, because the kernel counts whole seconds.
        wall: Seconds from start to end.
        memory: Bytes of address space, including about 40 MB of the interpreter itself.
        output: Bytes of output.
        source: Bytes of the program's text; a longer text is refused as `SYNTAX`.
    """

    cpu: int = 10
    wall: float = 10.0
    memory: int = 512 << 20
    output: int = 64 << 10
    source: int = 1 << 20

    def __post_init__(self) -> None:
        _require(isinstance(self.cpu, int) and 1 <= self.cpu <= 3600, "cpu", self.cpu, "whole seconds from 1 to 3600")
        _require(0 < self.wall <= 3600, "wall", self.wall, "seconds above 0, at most 3600")
        _require(64 << 20 <= self.memory <= 1 << 40, "memory", self.memory, "bytes, from 64 MiB to 1 TiB")
        _require(1 <= self.output <= 1 << 30, "output", self.output, "bytes, from 1 to 1 GiB")
        _require(1 <= self.source <= 1 << 30, "source", self.source, "bytes, from 1 to 1 GiB")


def _require(holds: bool, name: str, given: object, wanted: str) -> None:
    if not holds:
        raise UserError(f"{name}={given!r} is no valid limit for traced programs; give {wanted}")
