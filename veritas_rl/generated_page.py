"""The command line of a module that writes a page of the documentation."""

import sys
from collections.abc import Callable
from pathlib import Path

from veritas_rl.errors import UserError
from veritas_rl.paths import ROOT


def page_command(module: str, page: Path, render: Callable[[], str]) -> int:
    """Write a page, or with `--check` compare it with its file.

    Args:
        module: The module that is run, for the message.
        page: The file of the page.
        render: Renders the page.

    Returns:
        The exit status: 1 if the page is out of date.

    Raises:
        UserError: Another option is given.
    """
    options = sys.argv[1:]
    if options not in ([], ["--check"]):
        raise UserError(f"{' '.join(options)} is not understood: type --check or no argument")
    text = render()
    if not options:
        page.write_text(text, encoding="utf-8")
    elif not page.is_file() or page.read_text(encoding="utf-8") != text:
        print(f"{page.relative_to(ROOT)} is out of date: run python -m {module}")
        return 1
    return 0
