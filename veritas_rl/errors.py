"""A person's mistake: one clear line, exit code 2, never a traceback."""

import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """What a person typed cannot work. The message is one line: what is wrong, what was given, what to type instead."""


def unknown(what: str, given: object, known: Iterable[str]) -> UserError:
    """Make the error for a name that is not in a list, with the nearest names first.

    Args:
        what: What kind of thing was named, such as "game".
        given: What the person typed.
        known: The names that exist.
    """
    names = sorted(known)
    near = get_close_matches(str(given), names, n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return UserError(f"unknown {what} {str(given)!r}: {hint}known: {', '.join(names)}")


def exit_on_user_error(main: Callable[[], int | None]) -> None:
    """Run a command line's `main` and end the process: 0 on success, 2 with one line on a `UserError`."""
    try:
        code = main()
    except UserError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    sys.exit(code or 0)
