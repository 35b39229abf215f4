"""The main job from end to end, through the real verl, Ray and FSDP, cut to a few steps."""

import json
import os
import subprocess
from pathlib import Path

import psutil
import pytest
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.training


def train(folder: Path, *overrides: str, **variables: str) -> tuple[str, list[dict[str, float]]]:
    """Run the script; what it printed, and the metrics of each step."""
    done = subprocess.run(
        ["bash", "train/scripts/openspiel-ppo-trainer.sh", f"trainer.default_local_dir={folder}", *overrides],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    where = next(line.split()[-1] for line in done.stdout.splitlines() if line.strip().startswith("metrics"))
    return done.stdout, [json.loads(line)["data"] for line in Path(where).read_text().splitlines()]


def test_ppo_trains_a_model_that_was_made_on_the_spot(tmp_path: Path) -> None:
    printed, steps = train(
        tmp_path,
        "trainer.total_training_steps=3",
        "trainer.save_freq=3",
        "veritas_rl.warm_up.steps=30",
        "veritas_rl.evaluation.positions=100",
        "data.train_batch_size=32",
        "trainer.critic_warmup=0",
        # With this off, verl recomputes the log-probabilities and compares them with the rollout's.
        "algorithm.rollout_correction.bypass_mode=false",
    )
    assert len(steps) == 3
    assert all(0 <= step["game/legal"] <= 1 for step in steps)
    assert all(step["critic/score/mean"] == pytest.approx(step["game/value"], abs=1e-6) for step in steps)
    assert all(step["training/rollout_probs_diff_max"] < 1e-3 for step in steps)
    assert all("critic/vf_loss" in step for step in steps)
    for row in ("uniform random legal player", "before", "after the warm-up", "after RL"):
        assert row in printed
    report = json.loads(
        next(Path(line.split()[-1]) for line in printed.splitlines() if "report.json" in line).read_text()
    )
    assert report["after RL"]["legal"]["count"] == 100
    pictures = [Path(line.split()[-1]) for line in printed.splitlines() if line.strip().startswith("learning curve")]
    assert pictures[0].read_bytes().startswith(b"\x89PNG")
    trained = AutoModelForCausalLM.from_pretrained(tmp_path / "global_step_3/actor/huggingface")
    assert trained.num_parameters() == 855168
    left = [process.name() for process in psutil.process_iter() if str(tmp_path) in " ".join(process.cmdline())]
    assert not left


def test_grpo_trains_on_every_game_that_is_named(tmp_path: Path) -> None:
    _, steps = train(
        tmp_path,
        "trainer.total_training_steps=2",
        "trainer.save_freq=-1",
        "veritas_rl.warm_up=null",
        "veritas_rl.evaluation=null",
        "data.train_batch_size=24",
        "data.max_response_length=4",
        "data.custom_cls.config.adapter_config.reward_mode=legal",
        GAME_TYPES="hex,go,chess",
        ALGORITHM="grpo",
    )
    seen = {name.split("/")[1] for step in steps for name in step if name.startswith("game/") and name.count("/") == 2}
    assert seen == {"hex", "go", "chess"}
    assert all("critic/vf_loss" not in step for step in steps)
