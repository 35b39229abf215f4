"""Paths of the checkout. verl loads files of train/ by path, so the package only works from a checkout."""

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""


def cache_folder() -> Path:
    """The folder `veritas-rl` in the user's cache folder, for results that can always be computed again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "veritas-rl"


def experiment_name(recipe: str, now: datetime) -> str:
    """The name of a run of a recipe that starts now. It has microseconds, because several commands may start within a
    millisecond."""
    return f"{recipe}-{now:%Y%m%d-%H%M%S-%f}"


def outputs_folder(now: datetime) -> Path:
    """The folder of logs and reports of a run that starts now, with microseconds for the same reason."""
    return ROOT / "train/outputs" / f"{now:%Y-%m-%d}" / f"{now:%H-%M-%S-%f}"


RAY_FOLDER = "RAY_TMPDIR"
"""The environment variable that names the folder of Ray's files."""


def ray_folder(environment: Mapping[str, str]) -> Path:
    """The folder of Ray's files, chosen as Ray chooses it."""
    return Path(environment.get(RAY_FOLDER) or environment.get("TMPDIR") or "/tmp")
