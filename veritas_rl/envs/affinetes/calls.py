"""Calls of a server in affinetes' protocol, without its client: that one patches asyncio, which Ray would not survive.

    POST URL/call {"method": "reset", "args": [], "kwargs": {"task_id": 7, "seed": 42}}

A reset is tried again after any failure. A step is tried again only where the server cannot have seen it, because the
same move twice is another game.
"""

import time
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx

from veritas_rl.errors import UserError

CONNECT_SECONDS = 10.0
"""How long a connection may take."""

TRIES = 4
"""How often a call is made before it is given up."""

WAIT = 1.0
"""Seconds before the second try; they double with each."""

BUSY = frozenset({429, 502, 503})
"""HTTP codes of a server that did nothing, and may do it later."""

MOST_BYTES = 10_000_000
"""A longer answer is refused."""


@cache
def _client() -> httpx.Client:
    # A proxy of the environment is not asked for addresses of this machine.
    direct = ("127.0.0.1", "localhost", "[::1]")
    return httpx.Client(mounts={f"all://{host}": None for host in direct}, limits=httpx.Limits(max_connections=None))


def check_address(url: str) -> str:
    """An address without a slash at its end.

    Raises:
        UserError: It is none, or holds a password, which would stand in the ids of all tasks.
    """
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and not (parts.query or parts.fragment)
    except ValueError:
        known = False
        parts = None
    if not known or parts is None:
        raise UserError(f"{url or 'nothing'} is no address of a server: one looks like affinetes:http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise UserError("leave the password out of the address: it would stand in the ids of all tasks")
    return url.rstrip("/")


def call(url: str, method: str, seconds: float, *, again: bool, **kwargs: Any) -> dict[str, Any]:
    """The result of a method.

    Args:
        url: As `check_address` makes it.
        method: "reset", "step" or "stop".
        seconds: The most for one try.
        again: Whether the call may be made twice.
        kwargs: Its arguments.

    Raises:
        UserError: The server is gone, too slow, refuses the call, or answers in no form of the protocol.
    """
    body = {"method": method, "args": [], "kwargs": kwargs}
    why, wait = "", WAIT
    for attempt in range(TRIES):
        if attempt:
            time.sleep(wait)
            wait *= 2
        try:
            timeout = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
            answer = _client().post(f"{url}/call", json=body, timeout=timeout)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            why = _short(str(error)) or type(error).__name__
            continue
        except httpx.TransportError as error:
            why = _short(str(error)) or type(error).__name__
            if isinstance(error, httpx.TimeoutException):
                why = f"no answer within {seconds:g} s"
            if again:
                continue
            raise UserError(f"the environment at {url} was lost in the middle of a {method} ({why})") from error
        if answer.status_code in BUSY:
            why = f"HTTP {answer.status_code}: {_short(answer.text)}"
            continue
        return _result(url, method, answer)
    raise UserError(f"the environment at {url} failed {TRIES} times in a row: {why}; start it again, then this command")


def _result(url: str, method: str, answer: httpx.Response) -> dict[str, Any]:
    if answer.status_code != httpx.codes.OK:
        raise UserError(
            f"the environment at {url} refuses a {method} (HTTP {answer.status_code}): {_short(answer.text)}"
        )
    try:
        if len(answer.content) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES} bytes")
        body = answer.json()
        if body["status"] != "success":
            raise UserError(f"the environment at {url} failed in a {method}: {_short(str(body.get('result')))}")
        result = body["result"]
        if not isinstance(result, dict):
            raise TypeError("the result is no object")
        return result
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"what answers at {url} is no environment of affinetes ({type(error).__name__}: {_short(str(error))})"
        ) from error


def _short(text: str) -> str:
    return " ".join(text.split())[:200]
