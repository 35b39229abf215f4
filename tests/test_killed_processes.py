"""If a process of a run dies, the run ends soon and names the process, and the same command resumes the run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = [pytest.mark.training, pytest.mark.long]


# Each way in which a run ends: by the kernel, by verl, and by the launcher. The benchmark kills every kind.
@pytest.mark.parametrize("kinds", ["SimpleStorageUnit,WorkerDict,launcher", "raylet,gcs_server,OpponentServer"])
def test_the_death_of_a_process_is_named_and_the_same_command_resumes(kinds: str, tmp_path: Path) -> None:
    output = tmp_path / "killed.jsonl"
    command = [sys.executable, "benchmarks/killed_processes.py", "--moments", "1", "--output", output]
    done = subprocess.run([*command, "--kinds", kinds], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    deaths = [json.loads(line) for line in output.read_text().splitlines()]
    assert sorted(death["kind"] for death in deaths) == sorted(kinds.split(","))
    # A finished benchmark repeats nothing.
    finished = {path: path.stat().st_mtime_ns for path in tmp_path.glob("killed.jsonl-*/finished")}
    assert finished
    subprocess.run([*command, "--kinds", kinds], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("killed.jsonl-*/finished")} == finished
    assert len(output.read_text().splitlines()) == len(deaths)
