"""The models of the folder models/: their cards hold, and they are small."""

import subprocess
import sys
from pathlib import Path

import pytest

from veritas_rl.checkpoints.kept import MODELS, digest_of, read_card

ROOT = Path(__file__).resolve().parents[1]
NAMES = sorted(path.parent.name for path in MODELS.glob("*/config.json"))


def test_there_are_models() -> None:
    assert "hex_5" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_small_and_its_digest_is_that_of_its_card(name: str) -> None:
    card = read_card(MODELS / name)
    assert card is not None
    assert card.sha256 == digest_of(MODELS / name)
    assert (MODELS / name / "model.safetensors").stat().st_size < 2_000_000
    assert "/" not in (MODELS / name / "merge.json").read_text().replace("veritas-rl/", "")


@pytest.mark.parametrize("name", NAMES)
def test_a_card_holds_in_its_short_form(name: str) -> None:
    tool = [sys.executable, "train/tools/models.py", "check", name, "--short"]
    done = subprocess.run(tool, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{name}: its card holds\n"), done.stderr


def test_a_name_that_is_no_model_is_one_line() -> None:
    tool = [sys.executable, "train/tools/models.py", "check", "chess"]
    done = subprocess.run(tool, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
