"""Self-contained HTML pages. Scripts and styles are inline, and a content security policy allows no others."""

import base64
import hashlib
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

BOARDS = ("boards/reading.js", "boards/drawing.js", "boards/boards.js")
"""The scripts of pages with boards; their style is boards/boards.css."""


def render_page(
    template: str, *, scripts: tuple[str, ...], styles: tuple[str, ...], connects: bool = False, **values: Any
) -> str:
    """A page as HTML.

    Args:
        template: A file of this package.
        scripts: Files of this package that are joined into one script, in this order.
        styles: Files that are joined into one style.
        connects: Whether the script may send requests to the page's server.
        values: The values of the template.
    """
    script, style = ("".join(map(_file, names)) for names in (scripts, styles))
    policy = ["default-src 'none'", f"script-src '{_hash(script)}'", f"style-src '{_hash(style)}'"]
    policy += ["connect-src 'self'"] if connects else []
    policy += ["base-uri 'none'", "form-action 'none'"]
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return made.from_string(_file(template)).render(policy="; ".join(policy), js=script, css=style, **values)


def _file(name: str) -> str:
    return files("veritas_rl.viewing").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    """The hash source of a content security policy, https://www.w3.org/TR/CSP3/#grammardef-hash-source."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
