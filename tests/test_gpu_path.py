"""RL training as on a GPU: packed rows, adapters, bf16 and compiled entropy of hardware=h200x1, no CPU patch.

Without a CUDA device the tests train on the CPU with the same settings, except for the device.
"""

import itertools
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from veritas_rl.launch.configuration import compose_configuration, tasks_of
from veritas_rl.launch.small_model import lessons_of
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.launch.warmup import warm_up

ROOT = Path(__file__).resolve().parents[1]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
DTYPES = ("dtype", "model_dtype", "mixed_precision", "use_torch_compile", "param_offload", "optimizer_offload")
"""The settings for the precision of the computation, and for where the weights are."""

pytestmark = pytest.mark.training


def train(folder: Path, model: Path, device: str, *overrides: str, **variables: str) -> list[dict[str, float]]:
    """Run the script on a device with the settings of one H200; return the metrics of each step."""
    environment = {**os.environ}
    if device == "cuda":
        environment.pop("VERL_PLATFORM", None)  # which is the CPU in all tests
    done = subprocess.run(
        [
            *("bash", "train/scripts/openspiel-ppo-trainer.sh", "hardware=h200x1", "start=pretrained"),
            "rollout=transformers",
            *(f"trainer.default_local_dir={folder}", f"trainer.device={device}", "+ray_kwargs.ray_init.num_gpus=1"),
            *("veritas_rl.attention=sdpa", "trainer.val_before_train=false"),
            *("data.train_batch_size=32", "data.max_prompt_length=256", "data.max_response_length=8"),
            # Legal moves would often all be worth the same, and then nothing is learned.
            *(f"data.custom_cls.config.adapter_config.{said}" for said in ("prompt=brief", "reward_mode=outcome")),
            # The warm-up prompts of the model do not state the limit of a reply.
            *("veritas_rl.say_limit=false", "actor_rollout_ref.rollout.agent.num_workers=1"),
            *("trainer.save_freq=1", "trainer.test_freq=-1"),
            *overrides,
        ],
        cwd=ROOT,
        env={
            **environment,
            "VERITAS_RL_CPU_PATCHES": "0",
            # The machine may not have the GPU that the settings expect.
            "DOCTOR": "0",
            "AGENT_MODEL_REPO_ID": str(model),
            "GAME_TYPES": "tic_tac_toe",
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line)["data"] for line in (logs(folder) / "metrics.jsonl").read_text().splitlines()]


@dataclass(frozen=True)
class Trained:
    """A run on a device: the folder of its checkpoints, and the metrics of its steps."""

    device: str
    folder: Path
    steps: Sequence[dict[str, float]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model that was warmed up to answer with a move; a model with random weights would get no reward."""
    folder = tmp_path_factory.mktemp("models")
    tasks = tasks_of(compose_configuration(["hardware=cpu", "start=made", "lora=off", "rollout=transformers"]), "train")
    warm_up(
        build_tiny_model(folder / "random", seed=0),
        folder / "warm",
        [one for k, task in enumerate(itertools.islice(tasks, 512)) for one in lessons_of(task, str(k))],
        steps=40,
        batch_size=64,
        learning_rate=3e-3,
        seed=0,
        on_step=lambda progress: None,
    )
    return folder / "warm"


def logs(folder: Path) -> Path:
    """The log folder of the run whose checkpoints are in a folder."""
    return Path(json.loads((folder / "run.json").read_text())["folder"])


def adapter(step: Path) -> dict[str, Any]:
    """The actor's weights in a checkpoint."""
    return torch.load(step / "actor/model_world_size_1_rank_0.pt", weights_only=False)


@pytest.fixture(scope="module", params=DEVICES)
def trained(request: pytest.FixtureRequest, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run of two steps."""
    folder = tmp_path_factory.mktemp("run")
    return Trained(request.param, folder, train(folder, model, request.param, "trainer.total_training_steps=2"))


def test_adapters_and_critic_are_trained_and_saved(trained: Trained) -> None:
    first, steps = trained.folder, trained.steps
    used: Any = OmegaConf.load(logs(first) / ".hydra/config.yaml")
    asked = compose_configuration(["hardware=h200x1"])
    for key in ("actor_rollout_ref.actor.fsdp_config", "critic.fsdp"):
        ours, theirs = OmegaConf.select(used, key), OmegaConf.select(asked, key)
        assert {name: ours.get(name) for name in DTYPES} == {name: theirs.get(name) for name in DTYPES}
    assert used.actor_rollout_ref.rollout.dtype == asked.actor_rollout_ref.rollout.dtype == "bfloat16"
    assert used.actor_rollout_ref.model.lora_rank == 32
    assert len(steps) == 2
    # The adapter of the rollout is checked before step 1 and after each step.
    assert (logs(first) / "verl.log").read_text().count("the rollout holds the trainer's adapter: ") == 3
    for step in steps:
        assert step["actor/waste"] < 1.05
        assert step["critic/waste"] < 1.05
        # Trainer and rollout compute in bf16, but add in different orders.
        assert step["training/rollout_probs_diff_mean"] < 0.02
        assert step["actor/grad_norm"] > 0
        assert step["critic/grad_norm"] > 0


@pytest.mark.long
def test_a_checkpoint_of_adapters_and_critic_is_gone_on_from(trained: Trained, model: Path, tmp_path: Path) -> None:
    first = trained.folder / "global_step_1"
    (again,) = train(tmp_path, model, trained.device, "trainer.total_training_steps=2", RESUME_FROM=str(first))
    assert again["training/global_step"] == 2
    assert again["training/rollout_probs_diff_mean"] < 0.02
    one, two = adapter(first), adapter(tmp_path / "global_step_2")
    assert one.keys() == two.keys()
    assert all("lora_" in name for name in one)
    assert any(not torch.equal(one[name].to_local(), two[name].to_local()) for name in one)


@pytest.mark.gpu
def test_replies_to_one_task_are_compared_and_an_adapter_is_merged(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (step,) = train(
        folder,
        model,
        "cuda",
        "trainer.total_training_steps=1",
        "actor_rollout_ref.rollout.n=2",
        "actor_rollout_ref.actor.optim.lr=0.01",
        ALGORITHM="grpo",
    )
    assert "critic/vf_loss" not in step
    done = subprocess.run(
        ["bash", "train/scripts/merge-ppo.sh"],
        cwd=ROOT,
        env={**os.environ, "CHECKPOINT_BASE": str(folder), "TARGET_DIR": str(tmp_path / "merged")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "merged/lora_adapter/adapter_model.safetensors").is_file()
