"""Where the checkout is: verl loads files of train/ by path, so the package works from a checkout only."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""
