"""HTTP clients, for which hosts of this machine have no proxy, and how messages quote what servers say."""

from typing import Any, TypeVar

import httpx

from veritas_rl.errors import UserError

Client = TypeVar("Client", httpx.Client, httpx.AsyncClient)

LOCAL = ("localhost", "127.0.0.1", "[::1]", "0.0.0.0")

SHOWN = 200
"""The maximum length of a server's words in a message."""


def http_client(kind: type[Client], **settings: Any) -> Client:
    """A client that asks other machines through the proxy of the environment, if there is one.

    Args:
        kind: `httpx.Client` or `httpx.AsyncClient`.
        settings: Its settings.

    Raises:
        UserError: The proxy cannot be used.
    """
    try:
        return kind(mounts={f"all://{host}": None for host in LOCAL}, **settings)
    except (ImportError, ValueError) as error:
        said = short(str(error))
        raise UserError(f"the proxy of HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be used: {said}") from None


def short(text: str) -> str:
    """A text as one short line."""
    return " ".join(text.split())[:SHOWN]
