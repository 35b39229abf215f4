"""Mends of a library: a patch, which is a small function for one fault, or a method of a class that extends its own.

A `Patch` names the faulty module and runs after that module is imported. A method has the decorator `mends`. Both check
that the fault still exists, and refuse any other version, so no mend outlives its fault.
`python -m veritas_rl.verl_plugin.patch_list` writes the list in docs/patches.md.
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


def mends(function: Callable[..., Any], line: str) -> Callable[[Any], Any]:
    """Decorate a method that is called instead of verl's own, because `line` in the source of `function` is a fault.

    Raises:
        PatchRefused: As `require_fault`.
    """
    require_fault(function, line)
    return lambda method: method


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
