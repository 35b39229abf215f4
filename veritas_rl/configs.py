"""Configurations that validate themselves, made of what a person typed."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from veritas_rl.errors import unknown


def make_config(config_type: type, values: Mapping[str, Any], what: str) -> Any:
    """Make a configuration from a mapping.

    Args:
        config_type: A dataclass that validates itself.
        values: Some of its fields.
        what: What the mapping is called where a person sets it, such as "curriculum".

    Raises:
        UserError: A key is unknown (the known ones are listed), or a value is refused by the configuration itself.
    """
    known = {field.name for field in dataclasses.fields(config_type)}
    for key in values:
        if key not in known:
            raise unknown(f"{what} key", key, known)
    return config_type(**values)
