"""The overrides and the refused settings of runs with a 4-bit base."""

import re
from datetime import datetime
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from veritas_rl.errors import UserError
from veritas_rl.launch import quantization
from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.rl import plan

FOUR_BIT = ["hardware=cpu", "start=made", "rollout=transformers", "lora=on", "veritas_rl.quantization=nf4"]


@pytest.fixture(scope="module")
def composed() -> DictConfig:
    """The settings of a 4-bit run on a CPU, without the launcher's overrides."""
    return compose_configuration(FOUR_BIT)


@pytest.fixture
def configuration(composed: DictConfig) -> DictConfig:
    """The settings with the launcher's overrides."""
    made = composed.copy()
    for override in quantization.overrides(made, []):
        key, _, value = override.partition("=")
        OmegaConf.update(made, key, {"false": False}.get(value, value))
    return made


def test_rollout_and_trainer_are_corrected_for_each_other(composed: DictConfig) -> None:
    assert quantization.overrides(composed, FOUR_BIT) == [
        "algorithm.rollout_correction.bypass_mode=false",
        "algorithm.rollout_correction.rollout_is=token",
    ]
    said = "++algorithm.rollout_correction.rollout_is=sequence"
    assert quantization.overrides(composed, [said]) == ["algorithm.rollout_correction.bypass_mode=false"]
    OmegaConf.update(without := composed.copy(), "veritas_rl.quantization", None)
    assert quantization.overrides(without, []) == []


def test_actor_and_critic_learn_of_it(configuration: DictConfig) -> None:
    quantization.check(configuration)
    assert configuration.actor_rollout_ref.model.lora.quantization == "nf4"
    assert configuration.critic.model.lora.quantization == "nf4"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("veritas_rl.quantization", "nf5", "unknown veritas_rl.quantization 'nf5': did you mean nf4?"),
        ("actor_rollout_ref.model.lora_rank", 0, "actor_rollout_ref.model.lora_rank=0: set ENABLE_LORA=1"),
        ("critic.model.lora_rank", 0, "critic.model.lora_rank=0: set ENABLE_LORA=1"),
        ("critic.strategy", "fsdp", "set FSDP_STRATEGY=fsdp2"),
        (
            "actor_rollout_ref.actor.checkpoint.save_lora_only",
            False,
            "set actor_rollout_ref.actor.checkpoint.save_lora_only=true",
        ),
        ("critic.checkpoint.save_lora_only", False, "set critic.checkpoint.save_lora_only=true"),
        ("actor_rollout_ref.model.lora.merge", True, "set actor_rollout_ref.model.lora.merge=false"),
        ("algorithm.rollout_correction.bypass_mode", True, "needs a correction: leave out"),
        ("algorithm.rollout_correction.rollout_is", None, "needs a correction: leave out"),
    ],
)
def test_a_mistake_ends_in_one_line(configuration: DictConfig, key: str, value: object, said: str) -> None:
    OmegaConf.update(configuration, key, value)
    with pytest.raises(UserError, match=re.escape(said)) as caught:
        quantization.check(configuration)
    assert "\n" not in str(caught.value)


def test_a_package_that_is_missing_is_named(configuration: DictConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantization, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"needs bitsandbytes, .* bash train/scripts/setup\.sh nf4$"):
        quantization.check_installed(configuration)


def test_the_launcher_refuses_4_bit_without_adapters(tmp_path: Path) -> None:
    typed = [f"trainer.default_local_dir={tmp_path}", "veritas_rl.quantization=nf4"]
    with pytest.raises(UserError, match="quantization=nf4 needs LoRA"):
        plan(typed, {}, Hardware(cores=2, gpus=0, gpu_bytes=0), datetime(2026, 1, 2, 3, 4, 5))
