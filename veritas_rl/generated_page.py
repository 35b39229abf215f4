"""The command line of a module that writes a page of the documentation."""

import sys
from collections.abc import Callable
from pathlib import Path

from veritas_rl.errors import UserError
from veritas_rl.paths import ROOT


def page_command(module: str, page: Path, render: Callable[[], str]) -> int:
    """Write the page, or with `--check` compare it with what would be written.

    Args:
        module: The module that is run, for the message.
        page: The file of the page.
        render: Makes the text of the page.

    Returns:
        The exit status: 1 where the page is not current.

    Raises:
        UserError: Another option is given.
    """
    options = sys.argv[1:]
    if options not in ([], ["--check"]):
        raise UserError(f"{' '.join(options)} is not understood: the only option is --check")
    text = render()
    if not options:
        page.write_text(text, encoding="utf-8")
    elif not page.is_file() or page.read_text(encoding="utf-8") != text:
        print(f"{page.relative_to(ROOT)} is not current: python -m {module} writes it")
        return 1
    return 0
