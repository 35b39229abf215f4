"""Whether a library is installed in the version whose contents were looked through."""

from importlib.metadata import PackageNotFoundError, version

from veritas_rl.errors import UserError


def check_installed(name: str, wanted: str, contents: str) -> None:
    """Check that a library is installed in one version.

    Args:
        name: The name of the library and of the extra.
        wanted: The version.
        contents: What differs in another version.

    Raises:
        UserError: The library is missing, or has another version.
    """
    install = f"bash train/scripts/setup.sh {name}"
    try:
        found = version(name)
    except PackageNotFoundError:
        raise UserError(f"{name} is not installed; install it: {install}") from None
    if found != wanted:
        raise UserError(f"{name} {found} is installed, and its {contents} differ; install {wanted}: {install}")
