"""One session of a server of OpenEnv, over a WebSocket of its own.

    {"type": "reset", "data": {"seed": 7}}          {"type": "step", "data": {"message": "the reply"}}

The server answers with {"type": "observation", "data": {"observation": ..., "reward": ..., "done": ...}}, or with
{"type": "error", "data": {"code": ..., "message": ...}}.

A lost session is played again up to where it was, because equal seeds are equal tasks. A server may allow few sessions
at once. Once it has refused one, sessions keep no connection between two calls, and are played again when they go on.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary, finalize

from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect

from veritas_rl.errors import UserError
from veritas_rl.http_clients import LOCAL, short

CONNECT_SECONDS = 10.0
"""The most seconds for opening a connection."""

TRIES = 4
"""The most tries of a call."""

WAIT = 1.0
"""The seconds before the second try. They double before each further one."""

MOST_BYTES = 10_000_000
"""The most bytes of a message."""

FULL_SECONDS, FULL_WAIT = 600.0, 0.1
"""The most seconds that a session waits for its turn on a server that is full, and the seconds between two tries."""

FULL, INVALID, FAILED = "CAPACITY_REACHED", "VALIDATION_ERROR", "EXECUTION_ERROR"
"""Codes of errors."""


class Refused(Exception):
    """The server does not take an action: it has not the form that the server asks for."""


class _Lost(Exception):
    """The connection or the session on the server is lost."""


class _Failed(_Lost):
    """The server fails at a call."""


class _Full(Exception):
    """The server allows no further session."""


class Connection:
    """A session on a server.

    Args:
        url: The address.
        reset: The data of the reset.
        seconds: The most seconds for one call.
        again: Whether a lost session is played again. It must not be if equal seeds are not equal tasks.
    """

    def __init__(self, url: str, reset: Mapping[str, Any], seconds: float, *, again: bool = True) -> None:
        self._url, self._reset, self._seconds, self._again = url, reset, seconds, again
        self._actions: list[Mapping[str, Any]] = []
        self._seen: list[str] = []
        """What was shown after the reset and each action, without what may differ."""
        self._socket: ClientConnection | None = None
        self._open = ExitStack()
        finalize(self, self._open.close)  # for a session that is never ended
        self._busy = Lock()

    def start(self) -> dict[str, Any]:
        """Begin the session, and return the data of the first observation.

        Raises:
            UserError: The server is down, full or too slow, fails, or is none of OpenEnv.
        """
        with self._busy:
            return self._played(None)

    def step(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """Send an action, and return the data of the next observation.

        Raises:
            Refused: The server does not take the action.
            UserError: As `start`.
        """
        with self._busy:
            return self._played(action)

    def close(self) -> None:
        """Leave the session."""
        with self._busy:
            self._hang_up()

    def yields(self) -> None:
        """Give up the connection if nobody waits for it."""
        if self._again and self._busy.acquire(blocking=False):
            try:
                self._hang_up()
            finally:
                self._busy.release()

    def _played(self, action: Mapping[str, Any] | None) -> dict[str, Any]:
        """The data of the observation after an action, or after the reset."""
        tries, faults, until = 0, 0, time.monotonic() + FULL_SECONDS
        while True:
            try:
                shown = self._answered(action)
                if self._again and self._url in _crowded:
                    self._hang_up()
                return shown
            except _Full as error:
                self._hang_up()
                _crowded.add(self._url)
                for one in _waiting(self._url):
                    one.yields()
                why = f"it has allowed no further session for {FULL_SECONDS:g} s ({error}); play fewer at once"
                if time.monotonic() > until:
                    raise UserError(f"the environment at {self._url} is full: {why}") from error
                time.sleep(FULL_WAIT)
            except _Lost as error:
                self._hang_up()
                if self._seen and not self._again:
                    raise UserError(
                        f"the session of the environment at {self._url} was lost ({error}), and cannot be played "
                        "again, because this server ignores seeds"
                    ) from error
                faults += isinstance(error, _Failed) and action is not None
                if faults > 1:  # also after the session was played again, so it is this action
                    raise Refused(str(error)) from error
                tries += 1
                if tries == TRIES:
                    raise UserError(
                        f"the environment at {self._url} failed {TRIES} times in a row: {error}; start it again, then "
                        "this command"
                    ) from error
                time.sleep(WAIT * 2 ** (tries - 1))

    def _answered(self, action: Mapping[str, Any] | None) -> dict[str, Any]:
        if self._socket is None:
            shown = self._from_the_start()
            if action is None:
                return shown
        assert action is not None
        return self._noted(self._ask("step", action), action)

    def _from_the_start(self) -> dict[str, Any]:
        """Open a connection, and play all earlier actions again."""
        self._socket = self._open.enter_context(_connected(self._url))
        _open_ones[id(self)] = self
        played, self._actions = self._actions, []
        seen, self._seen = self._seen, []
        try:
            shown = self._noted(self._ask("reset", self._reset))
            for action in played:
                shown = self._noted(self._ask("step", action), action)
            if seen and self._seen != seen:
                raise UserError(f"the environment at {self._url} shows another task for the same seed and actions")
        except (_Lost, _Full, Refused, UserError) as error:
            self._actions, self._seen = played, seen
            self._hang_up()
            if isinstance(error, Refused):
                raise UserError(f"the environment at {self._url} refuses what it took before: {error}") from error
            if isinstance(error, _Failed):  # not at the action that is played now
                raise _Lost(str(error)) from error
            raise
        return shown

    def _noted(self, shown: dict[str, Any], action: Mapping[str, Any] | None = None) -> dict[str, Any]:
        if action is not None:
            self._actions.append(action)
        self._seen.append(comparable(shown))
        return shown

    def _ask(self, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        assert self._socket is not None
        try:
            with suppress(ConnectionClosed):  # what the server has said before that is still to be read
                self._socket.send(json.dumps({"type": kind, "data": data}))
            answer = json.loads(self._socket.recv(self._seconds))
            said, content = answer["type"], answer["data"]
            if said != "error":
                dict(content["observation"])
                return content
            code, why = str(content.get("code")), short(str(content.get("message")))
        except TimeoutError as error:
            raise _Lost(f"no answer within {self._seconds:g} s") from error
        except (ConnectionClosed, OSError) as error:
            raise _Lost(short(str(error)) or type(error).__name__) from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(
                f"the server at {self._url} does not speak OpenEnv's protocol ({type(error).__name__})"
            ) from error
        if code == FULL:
            raise _Full(why)
        if code == INVALID and kind == "step":
            raise Refused(why)
        if kind == "reset" and code in (INVALID, FAILED):
            raise UserError(f"the environment at {self._url} refused the reset: {why}")
        raise (_Failed if code == FAILED else _Lost)(f"{code}: {why}")

    def _hang_up(self) -> None:
        if self._socket is not None:
            _open_ones.pop(id(self), None)
            self._socket = None
            self._open.close()


_open_ones: WeakValueDictionary[int, Connection] = WeakValueDictionary()
"""The connections of this process."""

_crowded: set[str] = set()
"""Servers that have refused a session. Their sessions keep no connection between two calls."""


@contextmanager
def _connected(url: str) -> Iterator[ClientConnection]:
    """A connection to a server."""
    address = f"ws{url.removeprefix('http')}/ws"
    direct = any(f"//{host}" in address for host in LOCAL)
    opening = connect(
        address,
        open_timeout=CONNECT_SECONDS,
        close_timeout=1.0,
        max_size=MOST_BYTES,
        proxy=None if direct else True,
    )
    with ExitStack() as stack:
        try:
            socket = stack.enter_context(opening)
        except (OSError, InvalidHandshake, TimeoutError) as error:
            raise _Lost(short(str(error)) or type(error).__name__) from error
        yield socket


def _waiting(url: str) -> list[Connection]:
    """The sessions of a server with a connection."""
    found = [reference() for reference in _open_ones.valuerefs()]
    return [one for one in found if one is not None and one._url == url]


def comparable(shown: Mapping[str, Any]) -> str:
    """What is equal in two plays of the same session, as text: not the metadata, which may have names and times."""
    observation = {key: value for key, value in shown["observation"].items() if key != "metadata"}
    return json.dumps([observation, shown.get("reward"), shown.get("done")], sort_keys=True)
