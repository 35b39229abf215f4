"""The environments that exist, by name. One line adds one."""

from functools import cache
from importlib import import_module

from veritas_rl.envs.base import Environment
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
