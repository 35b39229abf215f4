"""What a sandboxed program may use, and how its run ended."""

from dataclasses import dataclass
from enum import StrEnum

from veritas_rl.errors import UserError


class Status(StrEnum):
    """How a run ended. Only `OK` comes with output."""

    OK = "ok"
    """The program ended by itself; its output is whole."""
    ERROR = "error"
    """An exception reached the top of the program, or it asked for an exit code other than 0."""
    SYNTAX = "syntax"
    """The text is not Python."""
    TIMEOUT = "timeout"
    """The program used up its CPU time or its wall time."""
    MEMORY = "memory"
    """The program asked for more memory than it may have."""
    OUTPUT = "output"
    """The program printed more than it may."""
    ENCODING = "encoding"
    """The output is not UTF-8."""
    FORBIDDEN = "forbidden"
    """The program tried what no program may do: files, network, processes, signals, threads, foreign libraries."""
    KILLED = "killed"
    """The program's process ended before the program did: by a signal, by `os._exit`, or with the whole sandbox."""


@dataclass(frozen=True)
class Outcome:
    """One run of one program.

    Attributes:
        status: How the run ended.
        stdout: All that the program printed if `status` is `OK`, else empty: partial output is never handed out.
        detail: One line on why the run did not end well, such as `ZeroDivisionError`; empty if it did.
        busy: Whether a time-out was due to the machine rather than the program: the wall time ran out, and the program
            had the CPU for less than half of it. Another run may end otherwise.
        hashes: Whether the program ended well and may make sets or ask for hashes. Dictionaries' views count as such.
    """

    status: Status
    stdout: str = ""
    detail: str = ""
    busy: bool = False
    hashes: bool = False


@dataclass(frozen=True)
class Limits:
    """What one program may use.

    Attributes:
        cpu: Seconds of CPU time, a whole number, as the kernel counts whole seconds.
        wall: Seconds from the start to the end.
        memory: Bytes of address space, the interpreter's own 40 MB included.
        output: Bytes that the program may print.
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
