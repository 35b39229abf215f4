"""Calls of a server in affinetes' protocol. The client of affinetes is not used: it patches asyncio, which breaks Ray.

    POST URL/call {"method": "reset", "args": [], "kwargs": {"task_id": 7, "seed": 42}}

A reset is repeated after any lost connection or timeout. A step is repeated only if no connection was opened or the
server reports that it is unavailable, because a step that runs twice makes the same move twice.
"""

import time
from functools import cache
from typing import Any

import httpx

from veritas_rl.errors import UserError
from veritas_rl.http_clients import http_client, short

CONNECT_SECONDS = 10.0
"""The most seconds for opening a connection."""

TRIES = 4
"""The most tries of a call."""

WAIT = 1.0
"""The seconds before the second try. They double before each further try."""

BUSY = frozenset({429, 503})
"""HTTP status codes after which every call is repeated, because the server has not run it."""

BAD_GATEWAY = 502
"""The HTTP status code of a proxy that lost the server, which may have run the call."""

MOST_BYTES = 10_000_000
"""The most bytes of an answer."""


@cache
def _client() -> httpx.Client:
    return http_client(httpx.Client, limits=httpx.Limits(max_connections=None))


def call(url: str, method: str, seconds: float, *, again: bool, **kwargs: Any) -> dict[str, Any]:
    """The result of a method.

    Args:
        url: The address as `remote.check_address` returns it.
        method: "reset", "step" or "stop".
        seconds: The most seconds for one try.
        again: Whether the call may be repeated if the server may already have run it.
        kwargs: The arguments of the method.

    Raises:
        UserError: The server is down or too slow, refuses the call, or answers in another protocol.
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
            why = short(str(error)) or type(error).__name__
            continue
        except httpx.TransportError as error:
            why = short(str(error)) or type(error).__name__
            if isinstance(error, httpx.TimeoutException):
                why = f"no answer within {seconds:g} s"
            if again:
                continue
            raise UserError(f"the connection to the environment at {url} was lost during a {method} ({why})") from error
        if answer.status_code in BUSY or (again and answer.status_code == BAD_GATEWAY):
            why = f"HTTP {answer.status_code}: {short(answer.text)}"
            continue
        return _result(url, method, answer)
    raise UserError(f"the environment at {url} failed {TRIES} times in a row: {why}; start it again, then this command")


def _result(url: str, method: str, answer: httpx.Response) -> dict[str, Any]:
    if answer.status_code != httpx.codes.OK:
        raise UserError(
            f"the environment at {url} refused a {method} (HTTP {answer.status_code}): {short(answer.text)}"
        )
    try:
        if len(answer.content) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES} bytes")
        body = answer.json()
        if body["status"] != "success":
            raise UserError(f"the environment at {url} failed in a {method}: {short(str(body.get('result')))}")
        result = body["result"]
        if not isinstance(result, dict):
            raise TypeError("the result is no object")
        return result
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"the server at {url} is no environment of affinetes ({type(error).__name__}: {short(str(error))})"
        ) from error
