"""What a server of OpenEnv says about its actions and observations, and whether it keeps to seeds."""

import json
import warnings
from collections.abc import Mapping
from functools import cache
from threading import Lock
from typing import Any

import httpx

from veritas_rl.envs.openenv.connection import CONNECT_SECONDS, Connection, comparable
from veritas_rl.errors import UserError, unknown
from veritas_rl.http_clients import http_client, short

QUESTIONS = ("text", "prompt", "question", "content", "message")
"""The fields of an observation that are its question, in this order, if the settings name none."""

OWN = ("metadata", "done", "reward")
"""The fields of OpenEnv's own base classes."""


_FIRST = Lock()
"""Held while a server is asked for the first time, so that sessions that start together ask once."""


def action_field(url: str, wanted: str) -> str:
    """The field of an action that is the reply.

    Args:
        url: The server.
        wanted: The field that the settings name; "" for the only text that an action must have.

    Raises:
        UserError: The server is down or says nothing about its actions, or an action has no such field.
    """
    with _FIRST:
        return _action_field(url, wanted)


@cache
def _action_field(url: str, wanted: str) -> str:
    try:
        with http_client(httpx.Client, timeout=CONNECT_SECONDS) as client:
            answer = client.get(f"{url}/schema")
            answer.raise_for_status()
            action = answer.json()["action"]
            fields, required = dict(action["properties"]), list(action.get("required", ()))
    except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = short(str(error)) or type(error).__name__
        raise UserError(f"{url}/schema does not describe the actions of a server of OpenEnv: {why}") from error
    texts = [name for name, field in fields.items() if name not in OWN and _is_text(field)]
    if wanted:
        if wanted not in texts:
            raise unknown("action_field", wanted, texts)
        return wanted
    needed = [name for name in texts if name in required] or texts
    others = [name for name in required if name not in needed]
    if len(needed) != 1 or others:
        raise UserError(
            f"an action of {url} has the texts {', '.join(texts) or '(none)'} and must have "
            f"{', '.join(required) or 'none of them'}: a reply can be one text alone; set action_field to its name"
        )
    return needed[0]


def _is_text(field: Mapping[str, Any]) -> bool:
    """Whether a field of a schema may be a text."""
    return any(one.get("type") == "string" for one in (field, *field.get("anyOf", ())))


def question_of(observation: Mapping[str, Any], wanted: str) -> str:
    """The question of an observation.

    Args:
        observation: The observation.
        wanted: The field that the settings name; "" for one of `QUESTIONS`, the only text, or all fields as JSON.

    Raises:
        UserError: There is no such field.
    """
    if wanted:
        if wanted not in observation:
            raise unknown("question_field", wanted, [str(name) for name in observation])
        return str(observation[wanted])
    texts = {name: value for name, value in observation.items() if name not in OWN and isinstance(value, str)}
    for name in QUESTIONS:
        if name in texts:
            return texts[name]
    if len(texts) == 1:
        return next(iter(texts.values()))
    return json.dumps({name: value for name, value in observation.items() if name not in OWN}, ensure_ascii=False)


def check_seeds(url: str, reset: str, seconds: float) -> None:
    """Check that equal seeds are equal tasks, and warn if all seeds are.

    Args:
        url: The server.
        reset: Further data of a reset, as JSON.
        seconds: The most seconds for one call.

    Raises:
        UserError: The same seed gives two tasks.
    """
    with _FIRST:
        _check_seeds(url, reset, seconds)


@cache
def _check_seeds(url: str, reset: str, seconds: float) -> None:
    first, again, *others = (_first_observation(url, reset, seconds, seed) for seed in (1, 1, 2, 3, 4))
    if first != again:
        raise UserError(
            f"the environment at {url} shows another task for the same seed, so that no task can be repeated, resumed "
            "or compared; set ignores_seeds=true to train on it all the same"
        )
    if set(others) == {first}:
        warnings.warn(f"the environment at {url} shows the same task for every seed", stacklevel=2)


def _first_observation(url: str, reset: str, seconds: float, seed: int) -> str:
    connection = Connection(url, {"seed": seed, **json.loads(reset or "{}")}, seconds)
    try:
        return comparable(connection.start())
    finally:
        connection.close()
