"""`benchmarks/gpu_step.py` runs from end to end with a small model on the CPU, and writes every number."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from veritas_rl.paths import ROOT

pytestmark = [pytest.mark.training, pytest.mark.long]


def test_every_measurement_is_made_on_a_cpu_too(tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    done = subprocess.run(
        [
            *(sys.executable, "benchmarks/gpu_step.py", "--device", "cpu", "--model", "tiny", "--json", file),
            *("--steps", "2", "--prompts", "8", "--rows", "8"),
        ],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(file.read_text())
    rows = {(row["pass"], row["rows"]): row for row in found["passes"]}
    assert len(rows) == 8
    for (name, kind), row in rows.items():
        assert row["seconds"] > 0
        # No upper bound: on a busy machine the matrix rate may be measured too low.
        assert row["mfu"] > 0
        assert row["peak"] > 0
        assert row["forecast"] > 0
        assert kind == "padded" or row["waste"] < rows[name, "padded"]["waste"]
    step = found["step"]
    assert step["ours"]["timing_s/update_weights"] > 0
    assert step["ratio"] == pytest.approx(step["ours"]["timing_s/step"] / step["theirs"]["timing_s/step"])
    assert 0 < step["own_seconds"] < step["ours"]["timing_s/step"]
    for said in ("tokens of replies a second", "goal: 5%", "single-turn example of verl"):
        assert said in done.stdout
