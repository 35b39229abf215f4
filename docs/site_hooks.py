"""Brings the repository's other Markdown files into the site: README, CONTRIBUTING and the like, and the recipes.

The menu of mkdocs.yml gets the games, the lists of settings and the recipes.

Links are written for a reader of the repository. Here a link to such a file leads to its page, and one to a source file
becomes plain text. A link to a file that does not exist is a warning, with which `mkdocs build --strict` fails.
"""

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    **{
        path.relative_to(ROOT).as_posix(): f"recipes/{path.parent.name}.md"
        for path in sorted(ROOT.glob("train/recipes/*/README.md"))
    },
}
"""The page of each file outside of docs/."""

SOURCES = {page: source for source, page in PAGES.items()}
CODE_OR_LINK = re.compile(
    r"^(?P<fence>`{3,}).*?^(?P=fence)$|\[(?P<text>[^\]\n]*(?:\n[^\]\n]*)?)\]\((?P<target>[^)\s]+)\)|`[^`\n]*`",
    re.MULTILINE | re.DOTALL,
)
LOG = logging.getLogger("mkdocs.hooks.site")


def on_config(config: Any) -> Any:
    """Add the pages of folders to the menu."""
    if config.nav:
        for title, folder in (("Games", "games"), ("Linted", "linted"), ("Settings", "settings")):
            config.nav.append(
                {title: [f"{folder}/{path.name}" for path in sorted((ROOT / "docs" / folder).glob("*.md"))]}
            )
        config.nav.append({"Recipes": [page for page in PAGES.values() if page.startswith("recipes/")]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn the page's links to files of the repository into links of the site."""
    name = page.file.src_uri

    def replaced(match: re.Match[str]) -> str:
        target = match["target"]
        return match[0] if target is None else link(match["text"], target, name, match[0])

    return CODE_OR_LINK.sub(replaced, markdown)


def link(text: str, target: str, page: str, written: str) -> str:
    """A link of a page as the site needs it; `written` is how it stands in the file."""
    path, _, anchor = target.partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return written
    source = SOURCES.get(page, f"docs/{page}")
    file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    inside = PAGES.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else None)
    if inside is None or (ROOT / file).is_dir():
        if not (ROOT / file).exists():
            LOG.warning("%s: there is no %s, to which it links", source, file)
        return text
    start = posixpath.relpath(inside, posixpath.dirname(page) or ".")
    return f"[{text}]({start}{'#' if anchor else ''}{anchor})"
