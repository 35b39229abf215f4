"""The environments that exist, by name. One line adds one."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from veritas_rl.envs.base import Environment, Task, make_config
from veritas_rl.errors import unknown

ENVIRONMENTS = {
    "openspiel": "veritas_rl.envs.openspiel.env:OpenSpielEnvironment",
}


@cache
def get_environment(name: str) -> Environment:
    """The environment with this name, made once a process.

    Raises:
        UserError: No such environment; the known ones are listed.
    """
    if name not in ENVIRONMENTS:
        raise unknown("environment", name, ENVIRONMENTS)
    module, attribute = ENVIRONMENTS[name].split(":")
    return getattr(import_module(module), attribute)()


def open_catalogue(settings: Mapping[str, Any], split: str) -> Sequence[Task]:
    """The tasks that a dataset's settings describe, lazily.

    Args:
        settings: `env` names the environment; `adapter_config` holds what a person set of its configuration, None for
            what they did not set; `adapter_defaults` holds what then applies instead of the environment's own default.
        split: "train" or "val".

    Raises:
        UserError: The environment, a key or a value is wrong.
    """
    environment = get_environment(settings["env"])
    named = {key: value for key, value in (settings.get("adapter_config") or {}).items() if value is not None}
    config = make_config(environment.config_type, {**(settings.get("adapter_defaults") or {}), **named})
    return environment.catalogue(config, split)
