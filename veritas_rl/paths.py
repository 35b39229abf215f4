"""Where the checkout is: verl loads files of train/ by path, so the package works from a checkout only."""

from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""


def experiment_name(recipe: str, now: datetime) -> str:
    """What a run of a recipe is called that begins now. A sweep may start several in the same second."""
    return f"{recipe}-{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03d}"


def outputs_folder(now: datetime) -> Path:
    """Where a run that begins now writes its logs and reports."""
    return ROOT / "train/outputs" / f"{now:%Y-%m-%d}" / f"{now:%H-%M-%S}-{now.microsecond // 1000:03d}"
