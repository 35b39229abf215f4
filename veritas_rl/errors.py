"""User errors: one clear line and exit code 2, without a traceback."""

import errno
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path

DISK_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk or a folder that the user must fix. They need no traceback."""

LEAST_FREE = 1 << 20
"""A disk with fewer free bytes is full."""

MOST_NAMES = 40
"""How many known names an error lists."""
MOST_NEAR = 3
"""How many similar names an error suggests."""


class UserError(ValueError):
    """A user's mistake. The message is one line: what is wrong, what was given, what to type instead."""


def unknown(what: str, given: object, known: Iterable[str]) -> UserError:
    """Make the error for a name that is not in a list, with the nearest names first.

    Args:
        what: The kind of thing, such as "game".
        given: The user's input.
        known: The existing names.
    """
    names = sorted(known)
    typed = str(given).lower()
    by_small = {name.lower(): name for name in names}
    # A part of a name, such as "kuhn", is less similar to it than names of its own length.
    parts = [name for name in by_small if len(typed) > MOST_NEAR and typed in re.split(r"[_-]", name)]
    near = [by_small[name] for name in get_close_matches(typed, by_small, n=MOST_NEAR) or parts[:MOST_NEAR]]
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    shown = names if len(names) <= MOST_NAMES else [*names[:MOST_NAMES], f"and {len(names) - MOST_NAMES} more"]
    return UserError(f"unknown {what} {str(given)!r}: {hint}known: {', '.join(shown)}")


def last_line(said: str, otherwise: str) -> str:
    """The last line of a program's output or of an error that is not blank; `otherwise` if there is none."""
    return next((line.strip() for line in reversed(said.splitlines()) if line.strip()), otherwise)


def check_name(option: str, name: str) -> None:
    """Check that an option has a name that can be the name of a file.

    Raises:
        UserError: It has other characters than letters, digits, ".", "-" and "_", or begins with ".".
    """
    if not re.fullmatch(r"[\w-][\w.-]*", name):
        raise UserError(f"{option} {name!r} is not a name: use letters, digits, . - and _")


def exit_on_user_error(main: Callable[[], int | None]) -> None:
    """Run a command line's `main` and end the process.

    The exit code is 0 on success, 2 with one line on a `UserError` or if a file cannot be used (full or read-only disk,
    missing permission), and 130 with one line after Ctrl-C.
    """
    try:
        code = main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except UserError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        print(f"error: {error.filename or _full_disk()} cannot be used ({error.strerror})", file=sys.stderr)
        sys.exit(2)
    sys.exit(code or 0)


def _full_disk() -> str:
    """The full disk among those that a command usually writes to; "a file" if none is full."""
    here = Path.cwd()
    # tempfile would look for a folder that it can write to.
    folders = [here, *here.glob("train/*"), Path(os.environ.get("TMPDIR") or "/tmp")]
    full = [folder for folder in folders if folder.is_dir() and shutil.disk_usage(folder).free < LEAST_FREE]
    return f"the disk of {full[0]}" if full else "a file"
