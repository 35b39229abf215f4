"""Packed rows give the same updates as padded rows, without computing padding."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.launch.tiny_model import build_tiny_model

PROGRAM = Path(__file__).with_name("pack_and_pad.py")
MINI_BATCHES = 10


@pytest.fixture(scope="module")
def updates(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The program's output for each update."""
    model = build_tiny_model(tmp_path_factory.mktemp("models") / "model", seed=0)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1", PROGRAM, model],
        env={**os.environ, "VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1", "VERITAS_RL_CPU_PATCHES": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("learner", ["actor", "critic"])
def test_losses_and_gradients_are_those_of_padded_rows(updates: list[dict[str, Any]], learner: str) -> None:
    made = [update for update in updates if update["learner"] == learner]
    assert len(made) == MINI_BATCHES
    for update in made:
        packed, padded = update["loss"]
        assert packed == pytest.approx(padded, abs=1e-5)
        assert update["off"] < 1e-5
        # The gradient is much larger than the difference between packed and padded rows.
        assert update["norm"] > 1e-2


def test_packed_rows_waste_nothing_and_padded_rows_do(updates: list[dict[str, Any]]) -> None:
    packed, padded = zip(*(update["waste"] for update in updates), strict=True)
    assert max(packed) < 1.05
    assert max(padded) > 1.5
