"""The protocol between a client and the sandboxed server.

A request and an answer each consist of a fixed header and texts, whose lengths are in the header.
"""

import os
import struct
from dataclasses import dataclass

_REQUEST = struct.Struct("=IIIdQQ")
_ANSWER = struct.Struct("=II??")


@dataclass(frozen=True, slots=True)
class Request:
    """A program to run.

    Attributes:
        source: The text of the program in UTF-8; empty to request the active layers instead.
        stdin: The text of its standard input in UTF-8.
        cpu: The limit of CPU time in seconds.
        wall: The limit of wall time in seconds.
        memory: The limit of the address space in bytes.
        output: The limit of the output in bytes.
    """

    source: bytes
    stdin: bytes
    cpu: int
    wall: float
    memory: int
    output: int

    def encode(self) -> bytes:
        header = _REQUEST.pack(len(self.source), len(self.stdin), self.cpu, self.wall, self.memory, self.output)
        return header + self.source + self.stdin


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a program, which the client converts to an `Outcome`."""

    status: str
    detail: str = ""
    stdout: bytes = b""
    busy: bool = False
    hashes: bool = False

    def encode(self) -> bytes:
        words = f"{self.status}\n{self.detail}".encode("utf-8", "replace")[:65535]
        return _ANSWER.pack(len(words), len(self.stdout), self.busy, self.hashes) + words + self.stdout


def read_request(handle: int) -> Request | None:
    """The next request, or None if the client closed the pipe."""
    header = _read(handle, _REQUEST.size)
    if header is None:
        return None
    source, stdin, cpu, wall, memory, output = _REQUEST.unpack(header)
    texts = _read(handle, source + stdin)
    if texts is None:
        return None
    return Request(texts[:source], texts[source:], cpu, wall, memory, output)


def answer_size(header: bytes) -> tuple[int, int]:
    """The number of bytes of the words (status and detail) and of the output that follow an answer's header."""
    words, stdout, _, _ = _ANSWER.unpack(header)
    return words, stdout


def decode_answer(header: bytes, words: bytes, stdout: bytes) -> Answer:
    status, _, detail = words.decode().partition("\n")
    return Answer(status, detail, stdout, *_ANSWER.unpack(header)[2:])


ANSWER_HEADER = _ANSWER.size


def write(handle: int, data: bytes) -> None:
    """Write all of `data`.

    Raises:
        OSError: The reader closed the pipe.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _read(handle: int, count: int) -> bytes | None:
    """Read exactly `count` bytes; None if the writer closes the pipe earlier."""
    data = b""
    while len(data) < count:
        piece = os.read(handle, count - len(data))
        if not piece:
            return None
        data = data + piece if data else piece
    return data
