"""Runs that an earlier version was killed in go on with this one, and their checkpoints are merged."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EARLIER = "8385cdb"
NOT_CODE = shutil.ignore_patterns("artifacts", "outputs", "models", "parquet", "__pycache__")
SMALL = ["trainer.total_training_steps=4", "trainer.save_freq=2", "veritas_rl.evaluation.positions=40"]

pytestmark = [pytest.mark.training, pytest.mark.long]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of the earlier version."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    archive = subprocess.run(["git", "archive", EARLIER], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"this clone does not have the commit {EARLIER}")
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
    return folder


def python(checkout: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    # A folder of PYTHONPATH is searched before the installed package.
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", **variables}
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([sys.executable, *words], cwd=checkout, env=environment, **piped)


def update(checkout: Path) -> None:
    """Replace the code by that of this version, as `git pull` does."""
    shutil.rmtree(checkout / "veritas_rl")
    shutil.rmtree(checkout / "train/verl")
    for name in ("veritas_rl", "train", "docs"):
        shutil.copytree(ROOT / name, checkout / name, ignore=NOT_CODE, dirs_exist_ok=True)


def killed(checkout: Path, *words: str, saved: str) -> None:
    """Run the trainer until a file of a checkpoint exists, and kill it."""
    process = python(checkout, *words)
    while not list(checkout.glob(saved)):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def finished(checkout: Path, *words: str, **variables: str) -> str:
    process = python(checkout, *words, **variables)
    printed = process.communicate()[0]
    assert process.returncode == 0, printed
    return printed


def test_reinforcement_learning_goes_on(checkout: Path) -> None:
    typed = ["-m", "veritas_rl.launch.main", *SMALL, "veritas_rl.warm_up.steps=20", "data.train_batch_size=32"]
    killed(checkout, *typed, saved="train/artifacts/RL/checkpoints/*/global_step_2/checkpoint.json")
    update(checkout)
    printed = finished(checkout, *typed)
    assert "resuming from step 2 of 4" in printed
    (run,) = checkout.glob("train/artifacts/RL/checkpoints/*")
    merged = {"CHECKPOINT_BASE": str(run), "GLOBAL_STEP": "2", "TARGET_DIR": "train/models/merged"}
    assert "merged model" in finished(checkout, "-m", "veritas_rl.checkpoints.merge", **merged)


def test_fine_tuning_goes_on(checkout: Path) -> None:
    few = ["--games", "tic_tac_toe", "--expert", "exact", "--prompt", "brief", "--num_demonstrations", "400"]
    finished(checkout, "train/tools/generate_demonstrations.py", *few, "--output", "train/parquet")
    typed = ["-m", "veritas_rl.launch.sft", *SMALL, "data.train_batch_size=16"]
    killed(checkout, *typed, saved="train/artifacts/checkpoints/*/latest_checkpointed_iteration.txt")
    update(checkout)
    assert "resuming from step 2 of 4" in finished(checkout, *typed)
