"""The registry of environments, by name: those of this package, of other packages, and of a command line's places.

An entry in `ENVIRONMENTS` adds an environment. Another package adds an environment by an entry point of the group
`veritas_rl.environments`, with the environment's name and its class or instance. A command line adds one by its place.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from itertools import islice
from pathlib import Path
from typing import Any

from veritas_rl.envs import places
from veritas_rl.envs.abilities import KnowsWords
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.lazy import LazyTasks
from veritas_rl.envs.settings import Settings
from veritas_rl.envs.task import Task, task_values
from veritas_rl.errors import UserError, unknown

ENVIRONMENTS = {
    "openspiel": "veritas_rl.envs.openspiel.env:OpenSpielEnvironment",
    "lgc-v2": "veritas_rl.envs.lgc_v2.env:LGCEnvironment",
    "trace": "veritas_rl.envs.trace.env:TraceEnvironment",
}

LIBRARIES = {
    "reasoning-gym": "veritas_rl.envs.libraries.reasoning_gym.env:ReasoningGymEnvironment",
    "textarena": "veritas_rl.envs.libraries.textarena.env:TextArenaEnvironment",
}
"""Environments of other libraries, which are optional extras and are imported only if they are named."""

ADDRESSED = {
    "affinetes": "veritas_rl.envs.affinetes.env:AffinetesEnvironment",
    "openenv": "veritas_rl.envs.openenv.env:OpenEnvEnvironment",
}
"""Environments behind a server, named with their address: openenv:http://127.0.0.1:8000. An address alone has the
first protocol."""

GROUP = "veritas_rl.environments"
"""The entry point group of environments of other packages."""


@cache
def _offered() -> dict[str, list[EntryPoint]]:
    """The environments of other packages, by name."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        same = found.setdefault(point.name, [])
        if point.value not in {other.value for other in same}:
            same.append(point)
    return found


def environment_names() -> tuple[str, ...]:
    """The names of all environments."""
    return tuple(dict.fromkeys((*ENVIRONMENTS, *LIBRARIES, *_offered(), *places.places())))


def environment_named(text: str, folder: Path) -> str:
    """The name of the environment that a command line names.

    Args:
        text: A name of the registry, a place (`quiz.py:quiz`, `package.module:NAME`), or the URL of a server.
        folder: The folder to which a file is relative.

    Raises:
        UserError: There is no such environment, it cannot be loaded, or another has its name.
    """
    if re.match(r"https?://", text):
        text = f"{next(iter(ADDRESSED))}:{text}"
    if text.partition(":")[0] in ADDRESSED or not places.is_place(text):
        return text
    place = places.absolute(text, folder)
    name = environment_at(place, f"the environment {text}").name
    if places.places().get(name) == place or places.is_installed(place, (p.value for p in _offered().get(name, ()))):
        return name
    if name in environment_names():
        raise UserError(f"two environments are named {name}: {text} and another one; rename one of them")
    places.add_place(name, place)
    return name


@cache
def get_environment(name: str) -> Environment:
    """The environment of this name, created once in each process.

    Raises:
        UserError: No environment or several environments have this name, or the environment cannot be loaded.
    """
    kind, _, address = name.partition(":")
    if kind in ADDRESSED:
        module, attribute = ADDRESSED[kind].split(":")
        return getattr(import_module(module), attribute)(address)
    own = ENVIRONMENTS | LIBRARIES
    found = [own[name]] if name in own else []
    found += [point.value for point in _offered().get(name, ())]
    found += [place for one, place in places.places().items() if one == name]
    if not found:
        raise unknown("environment", name, environment_names())
    if len(found) > 1:
        raise UserError(f"two environments are named {name}: {' and '.join(found)}; uninstall or rename one of them")
    return environment_at(found[0], f"the environment {name} ({found[0]})")


def environment_at(place: str, what: str) -> Environment:
    """The environment at a place, which has a class or an instance.

    Args:
        place: A module and a name, or an absolute file and a name, see `places.py`.
        what: How messages name it.

    Raises:
        UserError: It cannot be loaded, or is no environment.
    """
    try:
        made = places.load(place)
    except UserError as error:
        if places.file_of(place):
            raise
        raise UserError(f"{what} cannot be loaded: {error}") from error
    if isinstance(made, type) and issubclass(made, Environment):
        try:
            made = _instance(made)
        except TypeError as error:
            raise UserError(f"{what} cannot be made: {error}") from error
    if not isinstance(made, Environment):
        raise UserError(f"{what} is no environment: decorate its function, or derive its class from Environment")
    settings = getattr(made, "config_type", None)
    if not (isinstance(settings, type) and issubclass(settings, Settings)):
        raise UserError(f"{what} needs settings: derive its config_type from Settings of veritas_rl.envs.settings")
    return made


@cache
def _instance(kind: type[Environment]) -> Environment:
    return kind()


def task_from_dict(values: Mapping[str, Any]) -> Task:
    """The task of a dict by `Task.to_dict`, as an instance of its environment's class.

    Raises:
        UserError: The environment, case or number is missing, a name is unknown, or a value is invalid.
    """
    missing = [name for name in ("env", "case", "k") if name not in values]
    if missing:
        raise UserError(f"a task needs env, case and k; {', '.join(missing)} is missing")
    return get_environment(str(values["env"])).task_type.from_dict(values)


def task_of(row: Mapping[str, Any]) -> Task:
    """The task in a row's `extra_info`: its values, or `task`, which has them as JSON. Other values are left out.

    Raises:
        UserError: As for `task_from_dict`, or `task` is no JSON object.
    """
    if isinstance(row.get("task"), str):
        try:
            values = json.loads(row["task"])
        except ValueError:
            values = None
        if not isinstance(values, dict):
            raise UserError(f"a row's task is no JSON object: {row['task'][:80]!r}")
        return task_from_dict(values)
    values = task_values(get_environment(str(row.get("env"))).task_type)
    return task_from_dict({name: row[name] for name in values if name in row})


def make_task(env: str, case: str, k: int, **values: Any) -> Task:
    """A task with these values, named as in `Task.to_dict`, and default values for all others.

    Raises:
        UserError: As for `task_from_dict`.
    """
    return task_from_dict({"env": env, "case": case, "k": k, **values})


def is_remote(task: Task) -> bool:
    """Whether a server of another program plays a task, so that starting it asks the server."""
    return task.env.partition(":")[0] in ADDRESSED


def prepare(tasks: Iterable[Task]) -> None:
    """Announce tasks that start soon to their environments, see `Environment.prepare`."""
    by_env: dict[str, list[Task]] = {}
    for task in dict.fromkeys(tasks):
        by_env.setdefault(task.env, []).append(task)
    for env, soon in by_env.items():
        get_environment(env).prepare(soon)


LOOKED_AT = 1000
"""How many tasks, at equal distances in a catalogue, are looked at for what its cases have in common. Of a mixture they
are among the first `LazyTasks.near`."""


def spread(tasks: Sequence[Task], most: int = LOOKED_AT) -> Iterator[Task]:
    """At most `most` tasks at equal distances in a catalogue, or in the first `LazyTasks.near` of it."""
    reached = tasks.near if isinstance(tasks, LazyTasks) else len(tasks)
    count = min(most, reached)
    yield from (tasks[index * reached // count] for index in range(count))


def cases_by_environment(tasks: Sequence[Task], most: int = LOOKED_AT) -> dict[str, list[str]]:
    """The cases of the tasks of `spread`, by environment."""
    cases: dict[str, dict[str, None]] = {}
    for task in spread(tasks, most):
        cases.setdefault(task.env, {})[task.case] = None
    return {env: list(some) for env, some in cases.items()}


def words_of(cases: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The words that questions and answers of these cases use, as their environments list them.

    Args:
        cases: The cases by environment.
    """
    named = ((get_environment(env), some) for env, some in cases.items())
    knowing = ((one, some) for one, some in named if isinstance(one, KnowsWords))
    return tuple(dict.fromkeys(word for one, some in knowing for word in one.words(some)))


def task_from_id(text: str) -> Task:
    """The task of this id, with the default manner and pay.

    Raises:
        UserError: `text` is no task id.
    """
    match = re.fullmatch(r"([^/]+)/(.+)/([^/#]+)#(\d+)(?:\?(.*))?", text)
    if match is None:
        raise UserError(f"{text!r} is no task id; type one such as openspiel/hex(board_size=5)/move#17")
    env, case, mode, k, changed = match.groups()
    values = dict(pair.split("=", 1) for pair in (changed or "").split("&") if "=" in pair)
    return make_task(env, case, int(k), mode=mode, **values)


def prepared(tasks: Iterable[Task], ahead: int = 256) -> Iterator[Task]:
    """The same tasks, each announced to its environment in advance.

    A task is announced before at least `ahead` earlier tasks are yielded, except at the beginning.
    """
    rest = iter(tasks)
    now = list(islice(rest, ahead))
    prepare(now)
    while now:
        following = list(islice(rest, ahead))
        prepare(following)
        yield from now
        now = following


def named_settings(environment: Environment, values: Mapping[str, Any] | None) -> dict[str, Any]:
    """A user's settings of an environment, by the names of the fields; None counts as not set.

    Raises:
        UserError: A setting is given under both of its names.
    """
    named: dict[str, Any] = {}
    user_keys = environment.config_type.user_keys
    for key, value in (values or {}).items():
        if value is None:
            continue
        field = user_keys.get(key, key)
        if field in named:
            both = ", ".join(name for name in values or {} if user_keys.get(name, name) == field)
            raise UserError(f"{both} are the same setting of {environment.name}; give one of them")
        named[field] = value
    return named


def open_catalogue(settings: Mapping[str, Any], split: str, **changes: Any) -> Sequence[Task]:
    """The tasks of one environment of a dataset's settings, as a lazy sequence.

    Args:
        settings: `env` names the environment. `adapter_config` contains the user's settings; None counts as not set.
            `defaults` contains, by environment, defaults that replace the environment's own.
        split: "train" or "val".
        changes: Settings that override all others.

    Raises:
        UserError: The environment, a key or a value is invalid.
    """
    environment = get_environment(settings["env"])
    defaults = (settings.get("defaults") or {}).get(environment.name)
    layers = (named_settings(environment, values) for values in (defaults, settings.get("adapter_config"), changes))
    merged = {key: value for layer in layers for key, value in layer.items()}
    return environment.catalogue(environment.read_config(merged), split)
