"""Requests and answers between a client and the sandboxed server: a fixed header each, then the texts it counts."""

import os
import struct
from dataclasses import dataclass

_REQUEST = struct.Struct("=IIIdQQ")
_ANSWER = struct.Struct("=II??")


@dataclass(frozen=True, slots=True)
class Request:
    """A program to run.

    Attributes:
        source: Its text in UTF-8.
        stdin: What it reads from standard input, in UTF-8.
        cpu: Seconds of CPU time.
        wall: Seconds from start to end.
        memory: Bytes of address space.
        output: Bytes it may print.
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
    """How a program ended: see `Outcome`, which the client makes of it."""

    status: str
    detail: str = ""
    stdout: bytes = b""
    busy: bool = False
    hashes: bool = False

    def encode(self) -> bytes:
        words = f"{self.status}\n{self.detail}".encode("utf-8", "replace")[:65535]
        return _ANSWER.pack(len(words), len(self.stdout), self.busy, self.hashes) + words + self.stdout


def read_request(handle: int) -> Request | None:
    """The next request, or None when there is no more."""
    header = _read(handle, _REQUEST.size)
    if header is None:
        return None
    source, stdin, cpu, wall, memory, output = _REQUEST.unpack(header)
    texts = _read(handle, source + stdin)
    if texts is None:
        return None
    return Request(texts[:source], texts[source:], cpu, wall, memory, output)


def answer_size(header: bytes) -> tuple[int, int]:
    """How many bytes of words and of output follow the header of an answer."""
    words, stdout, _, _ = _ANSWER.unpack(header)
    return words, stdout


def decode_answer(header: bytes, words: bytes, stdout: bytes) -> Answer:
    status, _, detail = words.decode().partition("\n")
    return Answer(status, detail, stdout, *_ANSWER.unpack(header)[2:])


ANSWER_HEADER = _ANSWER.size


def write(handle: int, data: bytes) -> None:
    """Write all of `data`.

    Raises:
        OSError: If the other end is gone.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _read(handle: int, count: int) -> bytes | None:
    """Read exactly `count` bytes, or None if the other end is closed before."""
    data = b""
    while len(data) < count:
        piece = os.read(handle, count - len(data))
        if not piece:
            return None
        data = data + piece if data else piece
    return data
