"""Requests one streamed chat completion from an OpenAI-compatible address, within limits of time and size.

The response is not trusted: it may be missing, malformed or endless.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from veritas_rl.envs.base import Message, Reply
from veritas_rl.players.server import CONNECT_SECONDS, PASSING, TOO_LONG, bearer

TRIES = 3
"""The maximum number of tries of a request after temporary failures."""

CHUNK_SECONDS = 60.0
"""The maximum number of seconds between two chunks of a response."""

MOST_BYTES = 32 * 2**20
"""The maximum size of a response in bytes: about 100,000 chunks of a stream."""

MOST_LINE = 2**20
"""The maximum size of one chunk in bytes."""

MOST_CHARACTERS = 1_000_000
"""The maximum length of a reply in characters."""


class ModelFailure(Exception):
    """The model gave no answer; the message is one line with the reason."""


@dataclass(frozen=True)
class Asked:
    """A model and its sampling settings.

    Attributes:
        base_url: The base address of `chat/completions`, as `players.server.check_url` returns it.
        model: The server's name of the model.
        key: The API key; "" for the key in an environment variable, if it is set.
        temperature: The sampling temperature; None for the server's default.
        seed: The sampling seed; None to send no seed.
        max_tokens: The token limit of a reply; None for the server's limit.
    """

    base_url: str
    model: str
    key: str = ""
    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None


def make_client() -> httpx.AsyncClient:
    """An HTTP client for many models at once. Addresses of this machine bypass the proxy of the environment."""
    direct = ("127.0.0.1", "localhost", "[::1]")
    return httpx.AsyncClient(
        timeout=httpx.Timeout(CHUNK_SECONDS, connect=CONNECT_SECONDS, pool=None),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
        mounts={f"all://{host}": None for host in direct},
    )


async def ask(client: httpx.AsyncClient, asked: Asked, messages: Sequence[Message]) -> Reply:
    """One reply of a model. It is truncated if a token limit cut it, and overlong if the prompt is too long.

    Raises:
        ModelFailure: The model gave no reply.
    """
    why = ""
    for attempt in range(TRIES):
        if attempt:
            await asyncio.sleep(2.0 ** (attempt - 1))
        try:
            return await _ask_once(client, asked, messages)
        except _Passing as passing:
            why = str(passing)
        except httpx.TimeoutException as error:
            why = f"it was silent for too long ({type(error).__name__})"
        except httpx.TransportError as error:
            why = _short(str(error)) or type(error).__name__
        except (httpx.InvalidURL, UnicodeError) as error:
            raise ModelFailure(f"{_short(asked.base_url)} is no address: {_short(str(error))}") from error
    raise ModelFailure(f"the model at {_shown(asked.base_url)} failed {TRIES} times in a row ({why})")


class _Passing(Exception):
    """A failure after which the same request may succeed."""


async def _ask_once(client: httpx.AsyncClient, asked: Asked, messages: Sequence[Message]) -> Reply:
    url = f"{asked.base_url}/chat/completions"
    body = {"model": asked.model, "messages": list(messages), "stream": True, "stream_options": {"include_usage": True}}
    optional = {"temperature": asked.temperature, "seed": asked.seed, "max_tokens": asked.max_tokens}
    body |= {name: value for name, value in optional.items() if value is not None}
    headers = bearer(asked.key)
    try:
        content = json.dumps(body).encode()
        request = client.build_request(
            "POST", url, content=content, headers={"Content-Type": "application/json", **headers}
        )
    except ValueError as error:
        raise ModelFailure("the request cannot be sent: the key or the address has invalid characters") from error
    response = await client.send(request, stream=True)
    try:
        if response.status_code != httpx.codes.OK:
            said = (await _read(response, 10_000, cut=True)).decode("utf-8", "replace")
            if response.status_code == httpx.codes.BAD_REQUEST and any(word in said for word in TOO_LONG):
                return Reply("", overlong=True)
            why = f"HTTP {response.status_code}: {_short(said)}"
            if response.status_code in PASSING:
                raise _Passing(why)
            raise ModelFailure(f"the model at {_shown(asked.base_url)} refused a request ({why})")
        try:
            if response.headers.get("content-type", "").startswith("application/json"):
                return _whole(json.loads(await _read(response, MOST_BYTES)))
            return await _streamed(response)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            shown = f"{type(error).__name__}: {_short(str(error))}"
            raise ModelFailure(
                f"the response of the model at {_shown(asked.base_url)} is no chat completion ({shown})"
            ) from error
    finally:
        await response.aclose()


async def _read(response: httpx.Response, most: int, cut: bool = False) -> bytes:
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


async def _streamed(response: httpx.Response) -> Reply:
    """The reply of a stream of server-sent events."""
    parts: list[str] = []
    characters, reason, read, written = 0, "", 0, 0
    ended = False
    async for line in _lines(response):
        if not line.startswith(b"data:"):
            if line.startswith(b"{"):
                raise ValueError(_short(line.decode("utf-8", "replace")))
            continue
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            ended = True
            break
        piece = json.loads(data)
        if piece.get("error"):
            raise ValueError(_short(str(piece["error"])))
        if usage := piece.get("usage"):
            read, written = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
        for choice in piece.get("choices") or []:
            text = (choice.get("delta") or {}).get("content") or ""
            if not isinstance(text, str):
                raise ValueError("a chunk of the reply is no text")
            characters += len(text)
            if characters > MOST_CHARACTERS:
                raise ValueError(f"the reply is longer than {MOST_CHARACTERS} characters")
            parts.append(text)
            reason = choice.get("finish_reason") or reason
    if not ended and not reason:
        raise ValueError("the stream ended before the reply did")
    return Reply("".join(parts), truncated=reason == "length", prompt_tokens=read, tokens=written)


def _whole(body: Mapping[str, Any]) -> Reply:
    """The reply of a server that does not stream."""
    choice, usage = body["choices"][0], body.get("usage") or {}
    text = choice["message"].get("content") or ""
    if not isinstance(text, str) or len(text) > MOST_CHARACTERS:
        raise ValueError(f"the reply is no text or is longer than {MOST_CHARACTERS} characters")
    return Reply(
        text,
        truncated=choice.get("finish_reason") == "length",
        prompt_tokens=_count(usage, "prompt_tokens"),
        tokens=_count(usage, "completion_tokens"),
    )


def _count(usage: Mapping[str, Any], name: str) -> int:
    return max(0, int(usage.get(name) or 0))


def _shown(url: str) -> str:
    """An address without a password."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return _short(f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}")


def _short(text: str) -> str:
    return " ".join(text.split())[:200]
