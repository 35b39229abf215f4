"""The limits of a server, and the guard that enforces them: sizes, times, the token, the allowed hosts."""

import asyncio
import base64
import binascii
import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from veritas_rl.errors import UserError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
# The seconds after which a server closes an idle connection. Clients such as httpx use a connection again for 5 s. A
# server that closes it then, as uvicorn does by default, resets a request that is on its way.
KEEP_ALIVE = 30

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Event, Receive, Send], Awaitable[None]]


@dataclass(frozen=True)
class Limits:
    """The limits of a server.

    Attributes:
        sessions: The maximum number of open sessions.
        idle: The seconds without a step after which a session ends.
        body: The maximum size of a request, and of a WebSocket message, in bytes.
        seconds: The time limit of one request (a step, or an evaluation) in seconds.
        arrival: The time limit for the arrival of a request's body, in seconds.
        evaluations: The maximum number of evaluations that run at once. Further evaluations wait.
        threads: The maximum number of steps that run at once. Further steps wait.
        tries: The maximum number of tries of a request to a model.

    Raises:
        UserError: A number is not above 0.
    """

    sessions: int = 2000
    idle: float = 900.0
    body: int = 1_000_000
    seconds: float = 1800.0
    arrival: float = 30.0
    evaluations: int = 64
    threads: int = 16
    tries: int = 3

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < float("inf"):
                raise UserError(f"{name} must be above 0, got {value}")


class Guard:
    """A middleware that refuses requests that are too large, too slow, or not authorized.

    If the server is bound to this machine, a web page in a local browser must not reach it. So the server answers only
    under the names of this machine, bodies must be JSON, and WebSockets opened by pages of another origin are refused.

    Args:
        app: The guarded application.
        limits: The limits.
        token: The token that each client must send, as a bearer token or as the password of the address
            (http://any:TOKEN@host:8000); "" for no token.
        hosts: The host names under which the server answers; empty for any.
    """

    def __init__(self, app: App, limits: Limits, token: str = "", hosts: tuple[str, ...] = ()) -> None:
        self._app = app
        self._limits = limits
        self._token = token.encode()
        self._hosts = hosts

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if scope["type"] == "websocket":
            if refusal is not None:
                await receive()
                await send({"type": "websocket.close", "code": 1008, "reason": refusal[1]})
                return
            await self._app(scope, receive, send)
            return
        if refusal is not None:
            await answer(send, *refusal)
            return
        try:
            async with asyncio.timeout(self._limits.arrival):
                body = await self._body(receive)
        except TimeoutError:
            await answer(send, HTTPStatus.REQUEST_TIMEOUT, f"the request took more than {self._limits.arrival:g} s")
            return
        if body is None:
            await answer(
                send, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request may have {self._limits.body} bytes at most"
            )
            return
        whole: list[Event] = [{"type": "http.request", "body": body, "more_body": False}]

        async def read() -> Event:
            return whole.pop() if whole else await receive()

        await self._app(scope, read, send)

    async def _body(self, receive: Receive) -> bytes | None:
        """The body of a request; None if it is too large."""
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            event = await receive()
            if event["type"] == "http.disconnect":
                break
            parts.append(event.get("body", b""))
            size += len(parts[-1])
            if size > self._limits.body:
                return None
            more = event.get("more_body", False)
        return b"".join(parts)

    def _refusal(self, scope: Event, headers: dict[str, bytes]) -> tuple[HTTPStatus, str] | None:
        host = headers.get("host", b"").decode("latin-1")
        if self._hosts and _name_of(host) not in self._hosts:
            return HTTPStatus.MISDIRECTED_REQUEST, f"this server answers as {', '.join(self._hosts)}"
        origin = headers.get("origin", b"").decode("latin-1")
        if scope["type"] == "websocket" and origin and urlsplit(origin).netloc != host:
            return HTTPStatus.FORBIDDEN, "pages of other origins may not connect"
        # /health needs no token, because it reveals nothing and monitors have no token.
        if self._token and scope["path"] != "/health" and not self._knows_token(headers.get("authorization", b"")):
            return HTTPStatus.UNAUTHORIZED, "this server wants its token: Authorization: Bearer TOKEN"
        size = headers.get("content-length", b"")
        if size.isdigit() and int(size[:20]) > self._limits.body:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request may have {self._limits.body} bytes at most"
        kind = headers.get("content-type", b"").partition(b";")[0].strip().lower()
        if scope["type"] == "http" and scope["method"] == "POST" and kind != b"application/json" and size != b"0":
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a body must be JSON: Content-Type: application/json"
        return None

    def _knows_token(self, authorization: bytes) -> bool:
        kind, _, said = authorization.partition(b" ")
        if kind.lower() == b"basic":
            try:
                said = base64.b64decode(said, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        elif kind.lower() != b"bearer":
            return False
        return hmac.compare_digest(said.strip(), self._token)


def _name_of(host: str) -> str:
    """The name of a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


async def answer(send: Send, code: HTTPStatus, detail: str) -> None:
    """Send an error in the server's common form."""
    body = error_body(detail)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # the rest of the body is not read
    ]
    if code is HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": int(code), "headers": headers})
    await send({"type": "http.response.body", "body": body})


def error_body(detail: str) -> bytes:
    """The body of every error: one line under the key "detail"."""
    return json.dumps({"detail": one_line(detail)}).encode()


def one_line(text: str) -> str:
    """A text without line breaks, of at most 1000 characters."""
    return " ".join(text.split())[:1000]
