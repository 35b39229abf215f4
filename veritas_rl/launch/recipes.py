"""Recipes: `recipe=NAME` loads a folder's `config.yaml`. Only the user's own overrides take precedence over it.

A recipe's `config.yaml` sets what a run needs, and its Hydra defaults list may choose in groups:

    defaults:
      - override /algorithm: grpo
    data:
      max_response_length: 512

The item `/base@_global_: self_play` loads train/verl/config/base/self_play.yaml first, which several recipes share.
`recipe=trace` is the folder train/recipes/trace, and `recipe=path/to/folder` is a folder anywhere.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from veritas_rl.composition import SEARCHED, VERL, quoted, with_bases
from veritas_rl.errors import UserError, unknown
from veritas_rl.paths import ROOT
from veritas_rl.records.description import CONFIG

FOLDER = ROOT / "train/recipes"
WORD = "recipe="


@dataclass(frozen=True)
class Recipe:
    """A recipe that exists.

    Attributes:
        folder: Where its `config.yaml` is.
    """

    folder: Path

    @property
    def name(self) -> str:
        """The recipe's name, which is also the name of its runs."""
        return self.folder.name

    def overrides(self) -> list[str]:
        """The Hydra overrides that load the recipe as a separate group, which is appended last. They also work in
        verl's process."""
        places = (VERL, f"file://{self.folder.parent}")
        return [f"{SEARCHED}[{','.join(map(quoted, places))}]", f"+{self.name}@_global_={Path(CONFIG).stem}"]

    def settings(self) -> dict[str, Any]:
        """The contents of the recipe's `config.yaml` and its bases.

        Raises:
            UserError: A file is not YAML, or not a mapping.
        """
        return OmegaConf.to_container(with_bases(self.folder / CONFIG))  # pyright: ignore[reportReturnType]

    def written(self, key: str) -> list[str]:
        """The value of a key in `config.yaml` and its bases as an override; nothing if they do not set it."""
        value = OmegaConf.select(with_bases(self.folder / CONFIG), key)
        return [] if value is None else [f"{key}={value}"]

    def choices(self) -> dict[str, str]:
        """The choices of the recipe's defaults list, by group."""
        items = [pair for item in self.settings()["defaults"] if isinstance(item, dict) for pair in item.items()]
        return {match[1]: str(value) for key, value in items if (match := re.fullmatch(r"override /(\w+)", key))}


def recipe_of(typed: Sequence[str], taken: Sequence[str]) -> tuple[Recipe | None, list[str]]:
    """The recipe that the user names, and the other overrides.

    Args:
        typed: Overrides. The last `recipe=...` counts.
        taken: Names of Hydra groups, which no recipe may have.

    Raises:
        UserError: The recipe does not exist, or its folder's name is not allowed.
    """
    named = [item.removeprefix(WORD) for item in typed if item.startswith(WORD)]
    others = [item for item in typed if not item.startswith(WORD)]
    return (_find(named[-1], taken) if named and named[-1] else None), others


def _find(given: str, taken: Sequence[str]) -> Recipe:
    folder = Path(given).expanduser().absolute() if "/" in given else FOLDER / given
    if not (folder / CONFIG).is_file():
        if "/" in given:
            raise UserError(f"{folder} is not a recipe: it has no {CONFIG}")
        raise unknown("recipe", given, (path.parent.name for path in FOLDER.glob(f"*/{CONFIG}")))
    if not re.fullmatch(r"[A-Za-z_][\w-]*", folder.name, re.ASCII) or folder.name in taken:
        raise UserError(
            f"{folder.name} is not allowed as the name of a recipe's folder: use letters, digits, _ and -, and not the "
            f"name of a group ({', '.join(taken)})"
        )
    return Recipe(folder)


def absolute(typed: Sequence[str], caller: Path) -> list[str]:
    """The overrides, with a recipe folder relative to `caller` made absolute."""
    return [
        f"{WORD}{caller / Path(item.removeprefix(WORD)).expanduser()}"
        if item.startswith(WORD) and "/" in item
        else item
        for item in typed
    ]
