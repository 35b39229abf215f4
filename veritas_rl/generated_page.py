"""The command line of a module that writes pages of the documentation."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from veritas_rl.errors import UserError
from veritas_rl.paths import ROOT

DOCS = ROOT / "docs"


def templates() -> Environment:
    """The templates beside the pages, in which a name that is not given is an error."""
    return Environment(
        loader=FileSystemLoader(DOCS),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def page_command(module: str, render: Callable[[], Mapping[Path, str]], folder: Path | None = None) -> int:
    """Write pages, or with `--check` compare them with their files.

    Args:
        module: The module that is run, for the message.
        render: Renders each page, by its file.
        folder: A folder that contains only rendered pages. Another page in it is removed, or is out of date.

    Returns:
        The exit status: 1 if a page is out of date.

    Raises:
        UserError: Another option is given.
    """
    options = sys.argv[1:]
    if options not in ([], ["--check"]):
        raise UserError(f"{' '.join(options)} is not understood: type --check or no argument")
    pages = render()
    gone = [path for path in sorted(folder.glob("*.md")) if path not in pages] if folder else []
    if not options:
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8")
        for path in gone:
            path.unlink()
        return 0
    changed = [path for path, text in pages.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in (*changed, *gone):
        print(f"{path.relative_to(ROOT)} is out of date: run python -m {module}")
    return 1 if changed or gone else 0
