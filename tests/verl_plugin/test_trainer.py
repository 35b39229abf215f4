"""The trainer's changes to verl's validation."""

from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from verl.trainer.ppo.core_algos import get_adv_estimator_fn

from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.verl_plugin.advantages import nothing_for_the_actor
from veritas_rl.verl_plugin.loop_worker import engine_seed
from veritas_rl.verl_plugin.saved_batch import other_folders
from veritas_rl.verl_plugin.trainer import TaskTrainer


def validated(groups: list[str], scores: list[float]) -> dict[str, float]:
    """The trainer's metrics of a validation with one reply per row."""
    trainer: Any = object.__new__(TaskTrainer)
    infos = {"reward": scores, "success": scores, "group": groups, "reason": ["correct"] * len(groups)}
    sources, uids = ["openspiel"] * len(groups), [f"row {index}" for index in range(len(groups))]
    return trainer._val_metrics_update(sources, uids, infos, [2] * len(groups))


def test_validation_is_grouped_by_environment_and_group() -> None:
    groups = ["openspiel/hex", "openspiel/hex", "openspiel/go", "trace/level 1"]
    metrics = validated(groups, [1.0, 0.0, 0.0, 1.0])
    core = {name: value for name, value in metrics.items() if name.startswith("val-core/")}
    assert core == {
        "val-core/openspiel/hex/reward/mean@1": 0.5,
        "val-core/openspiel/go/reward/mean@1": 0.0,
        "val-core/trace/level 1/reward/mean@1": 1.0,
    }
    assert metrics["val-aux/openspiel/hex/success/mean@1"] == 0.5


def test_the_estimator_of_each_role_gives_every_token_the_reward_of_its_reply() -> None:
    rewards, mask = torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([[1, 1, 0]])
    advantages, returns = get_adv_estimator_fn("rae")(token_level_rewards=rewards, response_mask=mask, config=None)
    assert advantages.tolist() == returns.tolist() == [[1.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("typed", "zero_advantages", "earned", "left_out"),
    [
        (("algorithm=ppo",), 0.0, False, True),
        (("algorithm=ppo",), 0.0, True, False),
        (("algorithm=ppo", "algorithm.use_kl_in_reward=true"), 0.0, False, False),
        (("algorithm=ppo", "actor_rollout_ref.actor.use_kl_loss=true"), 1.0, False, False),
        (("algorithm=grpo",), 1.0, True, True),
        (("algorithm=rae",), 0.0, False, False),  # the baselines of the roles remember earlier rewards
    ],
)
def test_a_batch_without_rewards_does_not_move_the_actor_by_the_noise_of_the_critic(
    typed: tuple[str, ...], zero_advantages: float, earned: bool, left_out: bool
) -> None:
    # verl's own advantages: no reward and a critic that is not exact.
    gae: Any = get_adv_estimator_fn("gae")
    mask = torch.ones(3, 2)
    noise, _ = gae(torch.zeros(3, 2), torch.tensor([[0.1, 0.2], [0.0, -0.1], [0.3, 0.1]]), mask, 1.0, 1.0)
    assert noise.std() > 0.9
    config = compose_configuration(["hardware=cpu", "start=made", "rollout=transformers", *typed])
    assert nothing_for_the_actor(config, zero_advantages=zero_advantages, earned=earned) == left_out


def test_the_disks_of_logs_of_ray_and_of_weights_and_biases_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", "/logs/metrics.jsonl")
    monkeypatch.setenv("RAY_TMPDIR", "/ray")
    monkeypatch.setenv("WANDB_DIR", "/wandb")
    assert other_folders(OmegaConf.create({"trainer": {"logger": ["file"]}})) == [Path("/logs"), Path("/ray")]
    with_wandb = OmegaConf.create({"trainer": {"logger": ["file", "wandb"]}})
    assert other_folders(with_wandb) == [Path("/logs"), Path("/ray"), Path("/wandb")]


def test_engines_have_another_seed_after_each_resume(tmp_path: Path) -> None:
    config = compose_configuration(
        ["hardware=cpu", "start=made", "veritas_rl.seed=7", f"trainer.default_local_dir={tmp_path}"]
    )
    config.actor_rollout_ref.rollout.name = "vllm"

    def seed(mode: str, start: str | None = None) -> int:
        config.trainer.resume_mode, config.trainer.resume_from_path = mode, start
        return engine_seed(config)

    assert seed("disable") == seed("auto") == 7
    found = [seed("resume_path", f"/run/global_step_{step}") for step in (1, 2, 20)]
    assert len({7, *found}) == 4
    # verl adds the number of the replica, and engines need seeds of 32 bits.
    assert all(0 <= other < 2**32 - 10_000 for other in found)
    (tmp_path / "global_step_20").mkdir()
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("20")
    assert seed("auto") == found[-1]
    # Here the seeds of replies contain the step.
    config.actor_rollout_ref.rollout.name = "transformers"
    assert seed("auto") == 7
