"""Where environments of others are: in a file (`quiz.py:quiz`), in a module (`package.module:NAME`), behind an address.

Only a command line names a place, never a configuration or data. The places of a process are in a variable of its
environment, so that the processes that it starts find the same environments by their names.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from veritas_rl.envs.own_code import fault, guarded
from veritas_rl.errors import UserError

VARIABLE = "VERITAS_RL_ENVIRONMENTS"
"""The variable with the places of a command line, by the environment's name, as JSON. Files are absolute."""


def is_place(text: str) -> bool:
    """Whether a text names a place, and no environment of the registry or address of a server."""
    return "://" not in text and (":" in text or text.endswith(".py"))


def places() -> dict[str, str]:
    """The places of this process's command line, by the environment's name."""
    return json.loads(os.environ.get(VARIABLE) or "{}")


def as_typed(name: str) -> str:
    """How a command line names an environment: by its place if it has one, else by its name."""
    return places().get(name, name)


def add_place(name: str, place: str) -> None:
    """Let this process, and the processes that it starts from now on, find an environment by its name."""
    os.environ[VARIABLE] = json.dumps({**places(), name: place})


def absolute(place: str, folder: Path) -> str:
    """A place whose file is absolute.

    Args:
        place: A place.
        folder: The folder to which a file is relative.

    Raises:
        UserError: The file does not exist, or no name is given.
    """
    file, _, name = place.rpartition(":") if not place.endswith(".py") else (place, "", "")
    if not file.endswith(".py"):
        return place
    whole = (folder / Path(file).expanduser()).resolve()
    if not whole.is_file():
        raise UserError(f"the file {file} of the environment {place} does not exist in {folder}")
    if not name:
        raise UserError(f"{place} names no environment: type {file}:NAME, with the name of the decorated function")
    return f"{whole}:{name}"


def file_of(place: str) -> Path | None:
    """The file of a place; None for a module or an address."""
    file = Path(place.rpartition(":")[0])
    return file if file.suffix == ".py" else None


def is_installed(place: str, points: Iterable[str]) -> bool:
    """Whether a place is also that of an installed package.

    Args:
        place: An absolute place.
        points: The entry points, `package.module:NAME`, of the packages.
    """
    points = tuple(points)
    file, _, name = place.rpartition(":")
    modules = (module for module, _, other in (point.partition(":") for point in points) if other == name)
    return place in points or any(_is_copy(_origin(module), Path(file)) for module in modules)


def files() -> dict[str, Path]:
    """The files of this process's command line, by the environment's name."""
    return {name: file for name, place in places().items() if (file := file_of(place))}


def digests() -> dict[str, str]:
    """A digest of each of `files`, by the environment's name."""
    return {name: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for name, file in files().items()}


def load(place: str) -> object:
    """What stands at a place.

    On another node the file is not there: Ray has brought its module.

    Raises:
        UserError: The file or module cannot be loaded, or has nothing of this name.
    """
    module, _, name = place.rpartition(":")
    file = file_of(place)
    loaded = module_of_file(str(file)) if file and file.is_file() else _of_module(file.stem if file else module, place)
    if not hasattr(loaded, name):
        raise UserError(f"{module} has no environment {name!r}")
    return getattr(loaded, name)


def _of_module(module: str, place: str) -> ModuleType:
    if not re.fullmatch(r"[\w.]+", module):
        raise UserError(f"{place!r} is no place: type FILE.py:NAME, package.module:NAME or a URL")
    try:
        return import_module(module)
    except Exception as error:
        raise UserError(f"{type(error).__name__}: {error}; a file is named FILE.py:NAME") from error


def _origin(module: str) -> str | None:
    """The file of a module; None if there is no such module, or only a folder of its name."""
    if loaded := sys.modules.get(module):
        return getattr(loaded, "__file__", None)
    try:
        return getattr(find_spec(module), "origin", None)
    except Exception:  # its package cannot be imported
        return None


def _is_copy(origin: str | None, file: Path) -> bool:
    """Whether a module's file is this file, or has the same text."""
    other = Path(origin or "")
    return other.is_file() and file.is_file() and other.read_bytes() == file.read_bytes()


@cache
def module_of_file(path: str) -> ModuleType:
    """The module of a file, loaded once. It stands in `sys.modules`, as if its folder were searched.

    Raises:
        UserError: The file fails, prints, changes global state, or has the name of another module.
    """
    file = Path(path)
    if not file.stem.isidentifier():
        raise UserError(f"{file.name} cannot be loaded: name the file as a module, with letters, digits and _")
    if file.stem in sys.stdlib_module_names:
        raise UserError(f"{file.name} has the name of another module (of Python): rename the file")
    origin = _origin(file.stem)
    # Ray's copy of the file on each node and that of an installed package are found first, as everywhere in Python.
    if origin and not _is_copy(origin, file):
        raise UserError(
            f"{file.name} has the name of another module ({origin}): rename the file, or uninstall that one"
        )
    if file.stem in sys.modules and origin:
        return sys.modules[file.stem]
    path = origin or path

    def run() -> ModuleType:
        spec = spec_from_file_location(file.stem, path)
        assert spec is not None
        assert spec.loader is not None
        made = module_from_spec(spec)
        sys.modules[file.stem] = made
        spec.loader.exec_module(made)
        return made

    try:
        return guarded(path, f"{file.name}:1", run)
    except UserError:
        sys.modules.pop(file.stem, None)
        raise
    except (Exception, SystemExit) as error:
        sys.modules.pop(file.stem, None)
        raise UserError(fault(error, path, f"{file.name}:1")) from error
