"""A patch of a library: a small function that mends one fault.

A `Patch` names the faulty module and runs after that module is imported. It checks that the fault still exists, and
refuses any other version, so no patch outlives its fault. `python -m veritas_rl.verl_plugin.patch_list` writes the list
in docs/patches.md.
"""

import functools
import importlib.metadata
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from wrapt import when_imported

from veritas_rl.pins import required_version


class PatchRefused(RuntimeError):
    """A package is not the version that a patch was written for, or its fault no longer exists."""


@dataclass(frozen=True)
class Patch:
    """A change of another package at run time.

    Attributes:
        module: The module that is changed, by its full name.
        apply: Changes the module. Raises `PatchRefused`.
    """

    module: str
    apply: Callable[[Any], None]

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.apply.__name__

    @property
    def summary(self) -> str:
        """The fault and the fix, in one line."""
        return (inspect.getdoc(self.apply) or "").partition("\n")[0]

    def register(self) -> None:
        """Apply the patch after the import of the module, or at once if it is already imported."""
        when_imported(self.module)(self.apply)


def patch_of(module: str) -> Callable[[Callable[[Any], None]], Patch]:
    """Decorate a function as a patch of a module."""
    return functools.partial(Patch, module)


def patches_in(module: ModuleType) -> tuple[Patch, ...]:
    """The patches that a module defines, in their order."""
    return tuple(value for value in vars(module).values() if isinstance(value, Patch))


def require_fault(function: Callable[..., Any], line: str, package: str = "verl") -> None:
    """Raise `PatchRefused` unless the pinned version is installed and `line` is in the source of `function`."""
    installed, required, name = importlib.metadata.version(package), required_version(package), function.__name__
    if installed != required:
        raise PatchRefused(
            f"the patch of {name} needs {package} {required}, but {package} {installed} is installed: run bash "
            "train/scripts/setup.sh"
        )
    if line not in inspect.getsource(function):
        raise PatchRefused(f"{name} of {package} {installed} no longer has the fault: {line}")
