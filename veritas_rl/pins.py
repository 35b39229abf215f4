"""The versions of other packages that this one was written for."""

import importlib.metadata

from packaging.requirements import Requirement


def required_version(package: str) -> str:
    """The version of a package that this one pins (train/verl/*.txt, read through the metadata).

    Raises:
        LookupError: The installed metadata does not name it.
    """
    for requirement in requirements("veritas-rl"):
        if requirement.name == package:
            return str(requirement.specifier).removeprefix("==")
    raise LookupError(f"the installed veritas-rl names no {package}: install it again, with pip install -e .")


def requirements(package: str, extra: str = "") -> list[Requirement]:
    """What an installed package asks for here, with one of its extras.

    Raises:
        importlib.metadata.PackageNotFoundError: It is not installed.
    """
    asked = map(Requirement, importlib.metadata.requires(package) or [])
    return [one for one in asked if one.marker is None or one.marker.evaluate({"extra": extra})]
