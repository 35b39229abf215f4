"""Requests chat completions from OpenAI-compatible servers, for players and for evaluations by the project's server.

A response is not trusted: it may be missing, malformed or endless, or an error with the status 200. Failures count so:

- The model gave no text: a refusal, a call of a tool, thinking alone, or nothing. The reply is empty, a mistake of the
  model, and `Reply.missing` names the cause.
- A filter of the provider withheld the prompt or the reply: `Reply.missing` says so, and the game is left out of all
  figures.
- The prompt is too long for the model: `Reply.overlong`.
- The server is busy, fails or aborts the reply: it is asked again, and in the end this is a `ServerFailure`.
- The server refuses the request: a `ServerFailure` at once. But a parameter that it names and does not know is left out
  or renamed from then on.

Keys stand in no message: `api_keys.hide` replaces them.
"""

import asyncio
import json
import re
import sys
from collections.abc import Container, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from veritas_rl.envs.base import Message, Missing, Reply
from veritas_rl.errors import UserError
from veritas_rl.http_clients import http_client, short
from veritas_rl.players.api_keys import bearer, hide
from veritas_rl.players.completions import ErrorInside, Passing, read_bytes, streamed, whole
from veritas_rl.players.cost import Purse, Request

CONNECT_SECONDS = 10.0
"""The maximum seconds for a connection. A running server accepts connections at once, even when it is busy."""

POOL = 32
"""The number of connections of one HTTP client. It is small, because each request searches all of them."""

PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""HTTP codes after which the same request may succeed."""

SPENT = ("insufficient_quota", "insufficient balance", "exceeded your current quota", "billing")
"""Messages of servers, with HTTP code 429, for an account without money, which another try does not change."""

LONGEST_WAIT = 60.0
"""The maximum number of seconds between two tries, even if the server asks for more."""

TOO_LONG = ("context length", "context_length", "max_model_len", "maximum model length", "too long", "is longer than")
"""Messages of servers for a prompt that is too long, with HTTP code 400 or 413."""

FILTERED = ("content_filter", "content filter", "content_policy", "content management policy", "data_inspection_failed")
"""Messages of servers for a prompt that a filter withheld, with HTTP code 400."""

UNKNOWN = re.compile(
    r"unsupported|not support|unknown|unrecognized|unexpected|extra|not (?:allowed|permitted)|cannot both|deprecated",
    re.IGNORECASE,
)
"""Messages of servers for a parameter that they do not take."""

OUT_OF_RANGE = re.compile(
    r"must be|at (?:most|least)|less than|greater than|between|too (?:large|small|high|low)", re.IGNORECASE
)
"""Messages of servers for a value that they do not take, which the user has to change."""


class ServerFailure(Exception):
    """The server gave no reply; the message is one line with the reason."""


class _Unknown(Exception):
    """The server does not take a parameter; `instead` is its name for it, or "" if it has none."""

    def __init__(self, name: str, instead: str = "") -> None:
        super().__init__(name)
        self.name, self.instead = name, instead


@dataclass(frozen=True)
class Asked:
    """A model and its sampling settings. None leaves a parameter to the server.

    Attributes:
        base_url: The base address of `chat/completions`, as `check_url` returns it.
        model: The server's name of the model.
        key: The API key; "" for the key in an environment variable, if it is set.
        temperature: The sampling temperature.
        top_p: The probability of nucleus sampling.
        seed: The sampling seed.
        max_tokens: The token limit of a reply.
        more: Further parameters by name. They also replace those above; None leaves one out.
    """

    base_url: str
    model: str
    key: str = field(default="", repr=False)
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of a request, besides model and messages."""
        own = {name: getattr(self, name) for name in ("temperature", "top_p", "seed", "max_tokens")}
        return {name: value for name, value in {**own, **self.more}.items() if value is not None}

    @property
    def most_tokens(self) -> int:
        """The upper bound of a reply's tokens; 0 if there is none."""
        limits = (self.parameters.get(name) for name in ("max_tokens", "max_completion_tokens"))
        return max((limit for limit in limits if isinstance(limit, int)), default=0)

    @property
    def place(self) -> str:
        """The address without a password, for messages."""
        scheme, separator, rest = self.base_url.partition("://")
        host, slash, path = rest.partition("/")
        return short(f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}")

    def shown(self, said: str) -> str:
        """A server's words for a message: short, on one line, without keys."""
        return short(hide(said, self.key))


@dataclass(frozen=True)
class Learnt:
    """What clients learn about servers while they ask them.

    Attributes:
        names: By address and model, the server's names of parameters that it does not take, "" for those left out.
        said: The notes that were printed.
    """

    names: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)

    def say(self, note: str) -> None:
        """Print a note once."""
        if note not in self.said:
            self.said.add(note)
            print(f"note: {note}", file=sys.stderr, flush=True)


class ChatClient:
    """A client of OpenAI-compatible servers, for one event loop. Its context closes the connections.

    Args:
        connections: The maximum number of requests that run at once.
        seconds: The maximum number of seconds for a reply, or between two chunks if replies are streamed.
        stream: Whether replies are requested as streams, so that a silent server is noticed earlier.
        tries: The maximum number of tries of a request.
        wait: Seconds before the second try; the wait doubles with each try.
        purse: The counter of requests and costs; None counts nothing.
        learnt: What earlier clients have learnt.

    Raises:
        UserError: The proxy of the environment cannot be used.
    """

    def __init__(
        self,
        connections: int,
        seconds: float,
        *,
        stream: bool = False,
        tries: int = 4,
        wait: float = 1.0,
        purse: Purse | None = None,
        learnt: Learnt | None = None,
    ) -> None:
        self._seconds = seconds
        self._stream = stream
        self._tries = tries
        self._wait = wait
        self._purse = purse
        self._learnt = learnt or Learnt()
        patience = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds), pool=None)
        limits, trusted = httpx.Limits(max_connections=POOL), httpx.create_ssl_context()
        self._clients = [
            http_client(httpx.AsyncClient, timeout=patience, limits=limits, verify=trusted)
            for _ in range(0, connections, POOL)
        ]
        self._free: asyncio.Queue[httpx.AsyncClient] = asyncio.Queue()
        for connection in range(connections):
            self._free.put_nowait(self._clients[connection // POOL])

    async def __aenter__(self) -> "ChatClient":
        return self

    async def __aexit__(self, *error: object) -> None:
        for client in self._clients:
            await client.aclose()

    async def ask(self, asked: Asked, messages: Sequence[Message]) -> Reply:
        """One reply of a model.

        Raises:
            ServerFailure: The server gave no reply.
            UserError: The budget is spent, or the key has an invalid character.
        """
        why, wait, tried = "", self._wait, 0
        names = self._learnt.names.setdefault((asked.base_url, asked.model), {})
        while True:
            try:
                return await self._once(asked, messages, names)
            except _Unknown as unknown:
                names[unknown.name] = unknown.instead
                instead = f"; {unknown.instead} is sent instead" if unknown.instead else ", which is left out"
                self._learnt.say(f"the server at {asked.place} does not take {unknown.name}{instead}")
                continue
            except Passing as passing:
                why, wait = asked.shown(str(passing)), max(wait, passing.seconds)
            except httpx.ConnectTimeout:
                why = "it takes no connection"
            except httpx.TimeoutException:
                why = f"it did not answer within {self._seconds:g} s; ask less at once, or raise the timeout"
            except httpx.TransportError as error:
                why = asked.shown(str(error) or type(error).__name__)
            except (httpx.InvalidURL, UnicodeError) as error:
                raise ServerFailure(f"{asked.place} is no address: {asked.shown(str(error))}") from None
            tried += 1
            if tried == self._tries:
                break
            self._learnt.say(f"the server at {asked.place} is asked again ({why})")
            if self._purse:
                self._purse.ask_again(asked.model)
            await asyncio.sleep(min(wait, LONGEST_WAIT))
            wait *= 2
        raise ServerFailure(f"the server at {asked.place} failed {tried} times in a row ({why}); check its log")

    async def _once(self, asked: Asked, messages: Sequence[Message], names: Mapping[str, str]) -> Reply:
        counted, headers = Request(0, 0), {"Content-Type": "application/json", **bearer(asked.key)}
        async with AsyncExitStack() as stack:
            if self._purse:
                bound = self._purse.asked(asked.model, messages, asked.most_tokens)
                counted = await stack.enter_async_context(bound)
            client = await self._free.get()
            stack.callback(self._free.put_nowait, client)
            sent = asked.parameters
            if self._stream:
                sent |= {"stream": True, "stream_options": {"include_usage": True}}
            sent = {names.get(name, name): value for name, value in sent.items() if names.get(name, name)}
            content = json.dumps({"model": asked.model, "messages": list(messages), **sent}).encode()
            address = f"{asked.base_url}/chat/completions"
            request = client.build_request("POST", address, content=content, headers=headers)
            try:
                response = await client.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                counted.free = True
                raise
            stack.push_async_callback(response.aclose)
            counted.free = response.status_code != httpx.codes.OK
            reply = await _reply(response, asked, sent)
            counted.said = (reply.prompt_tokens, reply.tokens) if reply.prompt_tokens or reply.tokens else None
            counted.missing = reply.missing
            return reply


async def _reply(response: httpx.Response, asked: Asked, sent: Container[str]) -> Reply:
    """The reply of a response, whatever its status."""
    if response.status_code != httpx.codes.OK:
        said = (await read_bytes(response, 10_000, cut=True)).decode("utf-8", "replace")
        return _refusal(response.status_code, said, response.headers, asked, sent)
    try:
        kind = response.headers.get("content-type", "")
        if "event-stream" in kind or ("stream" in sent and "json" not in kind):
            return await streamed(response)
        return await whole(response)
    except ErrorInside as error:
        code = error.code or httpx.codes.INTERNAL_SERVER_ERROR
        return _refusal(code, str(error), response.headers, asked, sent)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        shown = asked.shown(f"{type(error).__name__}: {error}")
        raise ServerFailure(f"the response of the server at {asked.place} is no chat completion ({shown})") from None


def _refusal(code: int, said: str, headers: Mapping[str, str], asked: Asked, sent: Container[str]) -> Reply:
    """What an error of a server means: a reply that the model could not give, or an exception."""
    small, why = said.lower(), f"HTTP {code}: {asked.shown(said)}"
    if code in (httpx.codes.BAD_REQUEST, httpx.codes.REQUEST_ENTITY_TOO_LARGE) and any(x in small for x in TOO_LONG):
        return Reply("", overlong=True)
    if code in (httpx.codes.BAD_REQUEST, httpx.codes.FORBIDDEN) and any(x in small for x in FILTERED):
        return Reply("", missing=Missing.WITHHELD)
    if code in PASSING and not any(x in small for x in SPENT):
        asks = headers.get("retry-after", "")
        raise Passing(why, float(asks) if re.fullmatch(r"\d{1,6}(\.\d+)?", asks) else 0.0)
    if code in (httpx.codes.BAD_REQUEST, httpx.codes.UNPROCESSABLE_ENTITY) and (
        UNKNOWN.search(said) and not OUT_OF_RANGE.search(said)
    ):
        if "max_tokens" in sent and "max_completion_tokens" in small:
            raise _Unknown("max_tokens", "max_completion_tokens")
        # The order is that of their use to the evaluation: the least useful is left out first.
        for name in ("stream_options", "seed", "top_p", "temperature"):
            if name in sent and re.search(rf"\b{name}\b", small):
                raise _Unknown(name)
    hint = ""
    if code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN) and not bearer(asked.key):
        hint = "; set OPENAI_API_KEY"
    raise ServerFailure(f"the server at {asked.place} refused a request ({why}){hint}")


def check_url(url: str) -> str:
    """The base address of the server's `models` and `chat/completions`.

    Raises:
        UserError: The text is no address of a server.
    """
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query
        _ = parts.port
    except ValueError:
        known = False
    if not known:
        raise UserError(f"{url} is no address of a server; type one such as http://localhost:8000/v1")
    url = url.rstrip("/").removesuffix("/chat/completions")
    return url if urlsplit(url).path else f"{url}/v1"
