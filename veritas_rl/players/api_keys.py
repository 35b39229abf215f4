"""The API keys of chat servers: what is sent, and how no message shows one."""

import html
import json
import os
from urllib.parse import quote

from veritas_rl.errors import UserError

KEYS = ("OPENAI_API_KEY", "CHUTES_API_KEY")
"""The environment variables that may contain a key; the first one that is set is sent."""

SHORTEST_KEY = 4
"""The minimum length of a key that is hidden: shorter ones are no secrets, and stand in many words."""


def bearer(key: str = "") -> dict[str, str]:
    """The header with the given key, or else the key of an environment variable; empty without a key.

    Raises:
        UserError: The key has a character that no header can have.
    """
    name, key = next((named for named in _keys(key).items() if named[1]), ("", ""))
    if not key:
        return {}
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise UserError(f"{name} is no API key, because it has a blank or a special character; copy the key again")
    return {"Authorization": f"Bearer {key}"}


def _keys(given: str = "") -> dict[str, str]:
    """The keys by their names. Blanks and ends of lines around a key are not part of it."""
    return {"the API key": given.strip()} | {name: os.environ.get(name, "").strip() for name in KEYS}


def hide(text: str, key: str = "") -> str:
    """A text without keys, also as JSON, HTML, Python and addresses write them."""
    for found in _keys(key).values():
        if len(found) < SHORTEST_KEY:
            continue
        ways = (found, json.dumps(found)[1:-1], html.escape(found), quote(found, safe=""), repr(found)[1:-1])
        for way in sorted(set(ways), key=len, reverse=True):
            text = text.replace(way, "***")
    return text
