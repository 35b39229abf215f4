"""The versions of other packages that this one was written for."""

import importlib.metadata

from packaging.requirements import Requirement


def required_version(package: str) -> str:
    """The version of a package that this one pins (train/verl/*.txt, read through the metadata).

    Raises:
        LookupError: The installed metadata does not name it.
    """
    for line in importlib.metadata.requires("veritas-rl") or []:
        requirement = Requirement(line)
        if requirement.name == package:
            return str(requirement.specifier).removeprefix("==")
    raise LookupError(f"the installed veritas-rl names no {package}: install it again, with pip install -e .")
