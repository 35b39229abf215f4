"""The environments that exist, by name: those of this package, and those that other packages offer.

One line adds one here. Another package adds one by an entry point of the group `veritas_rl.environments`, whose name is
the environment's and whose object is the class.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from itertools import islice
from typing import Any

from veritas_rl.envs.environment import Environment
from veritas_rl.envs.task import Task, task_values
from veritas_rl.errors import UserError, unknown

ENVIRONMENTS = {
    "openspiel": "veritas_rl.envs.openspiel.env:OpenSpielEnvironment",
    "lgc-v2": "veritas_rl.envs.lgc_v2.env:LGCEnvironment",
    "trace": "veritas_rl.envs.trace.env:TraceEnvironment",
}

ADDRESSED = {"affinetes": "veritas_rl.envs.affinetes.env:AffinetesEnvironment"}
"""Environments that run elsewhere, named with their address: affinetes:http://127.0.0.1:8000."""

GROUP = "veritas_rl.environments"
"""The entry points by which other packages offer environments."""


@cache
def _offered() -> dict[str, list[EntryPoint]]:
    """What other packages offer, by name."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        same = found.setdefault(point.name, [])
        if point.value not in {other.value for other in same}:
            same.append(point)
    return found


def environment_names() -> tuple[str, ...]:
    """The names of all environments."""
    return tuple(dict.fromkeys((*ENVIRONMENTS, *_offered())))


@cache
def get_environment(name: str) -> Environment:
    """The environment with this name, made once a process.

    Raises:
        UserError: No such environment (the known ones are listed), several of one name, or one that does not load.
    """
    kind, _, address = name.partition(":")
    if kind in ADDRESSED:
        module, attribute = ADDRESSED[kind].split(":")
        return getattr(import_module(module), attribute)(address)
    places = [ENVIRONMENTS[name]] if name in ENVIRONMENTS else []
    places += [point.value for point in _offered().get(name, ())]
    if not places:
        raise unknown("environment", name, environment_names())
    if len(places) > 1:
        raise UserError(f"two environments are named {name}: {' and '.join(places)}; uninstall or rename one of them")
    module, attribute = places[0].split(":")
    try:
        made = getattr(import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError) as error:
        raise UserError(f"the environment {name} ({places[0]}) does not load: {error}") from error
    if not isinstance(made, Environment):
        raise UserError(f"the environment {name} ({places[0]}) is no veritas_rl.envs.environment.Environment")
    return made


def task_from_dict(values: Mapping[str, Any]) -> Task:
    """The task that `Task.to_dict` wrote, of the class of its environment.

    Raises:
        UserError: Environment, case or number is missing, a name is no value of a task, or a value is refused.
    """
    missing = [name for name in ("env", "case", "k") if name not in values]
    if missing:
        raise UserError(f"these values are no task: {', '.join(missing)} missing")
    return get_environment(str(values["env"])).task_type.from_dict(values)


def task_of(row: Mapping[str, Any]) -> Task:
    """The task that a row's `extra_info` carries as plain values, among others that belong to no task.

    Raises:
        UserError: As `task_from_dict`.
    """
    values = task_values(get_environment(str(row.get("env"))).task_type)
    return task_from_dict({name: row[name] for name in values if name in row})


def make_task(env: str, case: str, k: int, **values: Any) -> Task:
    """A task with these values, named as in `Task.to_dict`, and defaults for the others.

    Raises:
        UserError: As `task_from_dict`.
    """
    return task_from_dict({"env": env, "case": case, "k": k, **values})


def prepare(tasks: Iterable[Task]) -> None:
    """Name the tasks that are started soon to their environments, see `Environment.prepare`."""
    by_env: dict[str, list[Task]] = {}
    for task in dict.fromkeys(tasks):
        by_env.setdefault(task.env, []).append(task)
    for env, soon in by_env.items():
        get_environment(env).prepare(soon)


def cases_among(tasks: Sequence[Task], most: int = 1000) -> tuple[str, ...]:
    """The cases of so many tasks, spread over a catalogue."""
    return tuple(dict.fromkeys(task.case for task in spread(tasks, most)))


def spread(tasks: Sequence[Task], most: int) -> Iterator[Task]:
    """So many tasks at equal distances in a catalogue, or all where there are fewer."""
    yield from (tasks[index * len(tasks) // min(most, len(tasks))] for index in range(min(most, len(tasks))))


def task_from_id(text: str) -> Task:
    """The task with this id, played and paid in the default way.

    Raises:
        UserError: `text` is no task id.
    """
    match = re.fullmatch(r"([^/]+)/(.+)/([^/#]+)#(\d+)(?:\?(.*))?", text)
    if match is None:
        raise UserError(f"no task id: {text!r}; one looks like openspiel/hex(board_size=5)/move#17")
    env, case, mode, k, changed = match.groups()
    values = dict(pair.split("=", 1) for pair in (changed or "").split("&") if "=" in pair)
    return make_task(env, case, int(k), mode=mode, **values)


def prepared(tasks: Iterable[Task], ahead: int = 256) -> Iterator[Task]:
    """The same tasks, each named to its environment before it is given out: at least so many ahead, where there are."""
    rest = iter(tasks)
    now = list(islice(rest, ahead))
    prepare(now)
    while now:
        following = list(islice(rest, ahead))
        prepare(following)
        yield from now
        now = following


def named_settings(environment: Environment, values: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a person set of an environment's configuration, by the fields' names; None stands for what is not set.

    Raises:
        UserError: A setting is given under both of its names.
    """
    named: dict[str, Any] = {}
    for key, value in (values or {}).items():
        if value is None:
            continue
        field = environment.user_keys.get(key, key)
        if field in named:
            both = ", ".join(name for name in values or {} if environment.user_keys.get(name, name) == field)
            raise UserError(f"{both} are one setting of {environment.name}: give one of them")
        named[field] = value
    return named


def open_catalogue(settings: Mapping[str, Any], split: str, **changes: Any) -> Sequence[Task]:
    """The tasks that a dataset's settings describe, of one environment, lazily.

    Args:
        settings: `env` names the environment; `adapter_config` holds what a person set of its configuration, None for
            what they did not set; `defaults` holds, by environment, what then applies instead of its own default.
        split: "train" or "val".
        changes: What applies whatever is set.

    Raises:
        UserError: The environment, a key or a value is wrong.
    """
    environment = get_environment(settings["env"])
    defaults = (settings.get("defaults") or {}).get(environment.name)
    layers = (named_settings(environment, values) for values in (defaults, settings.get("adapter_config"), changes))
    merged = {key: value for layer in layers for key, value in layer.items()}
    return environment.catalogue(environment.read_config(merged), split)
