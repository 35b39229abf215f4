"""The versions of other packages for which this package was written."""

import importlib.metadata

from packaging.requirements import Requirement

from veritas_rl.errors import UserError


def required_version(package: str) -> str:
    """The pinned version of a package (train/verl/*.txt, or an extra of its name; read through the metadata).

    Raises:
        UserError: The installed metadata does not pin the package.
    """
    for requirement in requirements("veritas-rl", package):
        if requirement.name == package:
            return str(requirement.specifier).removeprefix("==")
    raise UserError(
        f"veritas-rl was installed from an earlier version, which does not pin {package}: run bash "
        "train/scripts/setup.sh again"
    )


def requirements(package: str, extra: str = "") -> list[Requirement]:
    """The requirements of an installed package in this environment, with one of its extras.

    Raises:
        importlib.metadata.PackageNotFoundError: The package is not installed.
    """
    asked = map(Requirement, importlib.metadata.requires(package) or [])
    return [one for one in asked if one.marker is None or one.marker.evaluate({"extra": extra})]
