"""Configurations that validate themselves, made from a user's settings."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from veritas_rl.errors import UserError, unknown


def make_config(config_type: type, values: Mapping[str, Any], what: str) -> Any:
    """Make a configuration from a mapping.

    Args:
        config_type: A dataclass that validates itself.
        values: Some of its fields.
        what: The mapping's name in the settings, such as "curriculum".

    Raises:
        UserError: A key is unknown (the message lists the known keys), or the dataclass refuses a value.
    """
    known = {field.name for field in dataclasses.fields(config_type)}
    for key in values:
        if key not in known:
            raise unknown(f"{what} key", key, known)
    return config_type(**values)


def split_list(value: Any, what: str = "list") -> tuple[str, ...]:
    """Names from a list, or from a string with commas. Commas inside parentheses do not separate.

    Raises:
        UserError: `value` is neither a list nor a string, contains an item that is not a string, or its
            parentheses do not match.
    """
    if value is None:
        return ()
    if not isinstance(value, str):
        if isinstance(value, Mapping) or not isinstance(value, Iterable):
            raise UserError(f"{what} must be a list or a string with commas, not {value!r}")
        items = list(value)
        if wrong := [item for item in items if not isinstance(item, str)]:
            raise UserError(f"{what} must contain names, not {wrong[0]!r}")
        return tuple(name for item in items for name in split_list(item, what))
    names, depth = [""], 0
    for char in value:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            break
        if char == "," and depth == 0:
            names.append("")
        else:
            names[-1] += char
    if depth:
        raise UserError(f"{what}: the parentheses of {value!r} do not match")
    return tuple(name.strip() for name in names if name.strip())
