"""Reads the chat completions of OpenAI-compatible servers, whole or streamed, which are not trusted.

`chat_client` says what each kind counts as.
"""

import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from veritas_rl.envs.base import Missing, Reply

MOST_BYTES = 32 * 2**20
"""The maximum size of a response in bytes: about 100,000 chunks of a stream."""

MOST_LINE = 2**20
"""The maximum size of one chunk in bytes."""

MOST_CHARACTERS = 1_000_000
"""The maximum length of a reply in characters."""

CUT_REASONS = frozenset({"length", "max_tokens", "model_length"})
FILTER_REASONS = frozenset({"content_filter", "safety", "sensitive", "recitation", "prohibited_content", "blocklist"})
ABORT_REASONS = frozenset(
    {"abort", "aborted", "cancelled", "error", "network_error", "timeout", "insufficient_system_resource"}
)
"""The reasons of a reply's end, in small letters, as vLLM, SGLang and providers name them."""


class Passing(Exception):
    """A failure after which the same request may succeed; `seconds` is how long the server asks to wait."""

    def __init__(self, why: str, seconds: float = 0.0) -> None:
        super().__init__(why)
        self.seconds = seconds


class ErrorInside(Exception):
    """An error with the status 200; `code` is the HTTP code that it names, or 0."""

    def __init__(self, said: Any) -> None:
        said = said.get("error", said) if isinstance(said, Mapping) else said
        super().__init__(json.dumps(said))
        code = str(said.get("code")) if isinstance(said, Mapping) else ""
        self.code = int(code) if re.fullmatch("[45][0-9][0-9]", code) else 0


async def read_bytes(response: httpx.Response, most: int, cut: bool = False) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > most:
            if cut:
                break
            raise ValueError(f"the response is longer than {most} bytes")
    return b"".join(parts)[:most]


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    """The lines of a stream with any content."""
    rest, size = b"", 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > MOST_BYTES:
            raise ValueError(f"the stream is longer than {MOST_BYTES} bytes")
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line.strip()
        if len(rest) > MOST_LINE:
            raise ValueError(f"a line of the stream is longer than {MOST_LINE} bytes")
    yield rest.strip()


class _Message:
    """The message of a choice, which comes whole or in pieces."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._length = 0
        self._seen: set[Missing] = set()
        self.reason = ""

    def add(self, message: Mapping[str, Any], reason: Any) -> None:
        """Add a message, or a piece of it, and the reason of its end if it is there."""
        text = _text(message.get("content"))
        self._length += len(text)
        if self._length > MOST_CHARACTERS:
            raise ValueError(f"the reply is longer than {MOST_CHARACTERS} characters")
        self._texts.append(text)
        for missing, names in _FIELDS.items():
            if any(message.get(name) for name in names):
                self._seen.add(missing)
        self.reason = str(reason).lower() if reason else self.reason

    def reply(self, usage: Any) -> Reply:
        """The whole reply.

        Raises:
            Passing: The server aborted it.
        """
        if self.reason in ABORT_REASONS:
            raise Passing(f"it ended a reply by {self.reason!r}")
        # A pair of surrogates may come in two pieces; half a pair is no character.
        text = "".join(self._texts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        truncated = self.reason in CUT_REASONS
        missing = None
        if self.reason in FILTER_REASONS:
            missing = Missing.WITHHELD
        elif not text.strip() and not truncated:
            missing = next((found for found in _FIELDS if found in self._seen), Missing.NOTHING)
        read, written = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
        return Reply(text, truncated, prompt_tokens=read, tokens=written, missing=missing)


_FIELDS = {
    Missing.REFUSED: ("refusal",),
    Missing.TOOL_CALL: ("tool_calls", "function_call"),
    Missing.THOUGHT: ("reasoning_content", "reasoning", "thinking"),
}
"""The fields of a message that may stand in place of text."""


def _text(content: Any) -> str:
    """The text of a message's content: a string, or a list of parts, whose texts are joined."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError("the content of the reply is no text")
    parts = [{"text": part} if isinstance(part, str) else part for part in content]
    return "".join(str(part.get("text") or "") for part in parts if part.get("type", "text") in ("text", "output_text"))


def _check(part: Mapping[str, Any]) -> None:
    """Raise the error that a part of a response names."""
    if part.get("error"):
        raise ErrorInside(part["error"])


async def streamed(response: httpx.Response) -> Reply:
    """The reply of a stream of server-sent events."""
    message, usage, ended = _Message(), None, False
    async for line in _lines(response):
        if not line.startswith(b"data:"):
            if line.startswith(b"{"):
                raise ErrorInside(json.loads(line))
            continue
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            ended = True
            break
        piece = json.loads(data)
        _check(piece)
        usage = piece.get("usage") or usage
        for choice in piece.get("choices") or []:
            _check(choice)
            message.add(choice.get("delta") or {}, choice.get("finish_reason"))
    if not ended and not message.reason:
        raise Passing("the stream ended before the reply did")
    return message.reply(usage)


async def whole(response: httpx.Response) -> Reply:
    """The reply of a response that is not streamed."""
    body = json.loads(await read_bytes(response, MOST_BYTES))
    _check(body)
    message, choice = _Message(), body["choices"][0]
    _check(choice)
    message.add(choice["message"], choice.get("finish_reason"))
    return message.reply(body.get("usage"))


def _count(usage: Any, name: str) -> int:
    """A number of tokens; 0 if the server does not say it."""
    count = usage.get(name) if isinstance(usage, Mapping) else None
    return count if isinstance(count, int) and 0 < count < 2**53 else 0
