"""The setting `veritas_rl.quantization`: LoRA on a 4-bit base model, which `verl_plugin.nf4` quantizes."""

from collections.abc import Sequence
from importlib.util import find_spec

from omegaconf import DictConfig

from veritas_rl.errors import UserError, unknown
from veritas_rl.verl_plugin import algorithms

NF4 = "nf4"
CORRECTION = "algorithm.rollout_correction"

DEFAULTS = {f"{CORRECTION}.bypass_mode": "false", f"{CORRECTION}.rollout_is": "token"}
"""The trainer's base is quantized and the rollout's is not, so their probabilities differ. Each token is weighted by
the ratio of trainer to rollout probability, up to `rollout_is_threshold`. The trainer recomputes its own
probabilities."""


def overrides(configuration: DictConfig, wanted: Sequence[str]) -> list[str]:
    """The overrides that correct for a 4-bit base, except keys that the user has set.

    Args:
        configuration: The resolved configuration.
        wanted: The overrides of environment variables and command line.
    """
    if configuration.veritas_rl.quantization is None:
        return []
    named = {item.partition("=")[0].lstrip("+") for item in wanted}
    return [f"{key}={value}" for key, value in DEFAULTS.items() if key not in named]


def check(configuration: DictConfig) -> None:
    """Check that the other settings allow quantization.

    Args:
        configuration: The resolved configuration, with the overrides of `overrides`.

    Raises:
        UserError: The setting is unknown, or contradicts another setting.
    """
    asked = configuration.veritas_rl.quantization
    if asked is None:
        return
    if asked != NF4:
        raise unknown("veritas_rl.quantization", str(asked), (NF4,))
    setting = f"veritas_rl.quantization={NF4}"
    node, critic = configuration.actor_rollout_ref, configuration.critic
    learners = {"actor_rollout_ref": (node.model, node.actor)}
    if algorithms.has_critic(configuration):
        learners["critic"] = (critic.model, critic)
    for name, (model, settings) in learners.items():
        if model.lora_rank < 1:
            raise UserError(
                f"{setting} needs LoRA, because only adapters can be trained on a 4-bit base, and "
                f"{name}.model.lora_rank={model.lora_rank}: set ENABLE_LORA=1"
            )
        if settings.strategy != "fsdp2":
            raise UserError(f"{setting} needs FSDP2, which can shard quantized weights: set FSDP_STRATEGY=fsdp2")
        if not settings.checkpoint.get("save_lora_only"):
            key = f"{name}{'.actor' if name != 'critic' else ''}.checkpoint.save_lora_only"
            raise UserError(f"{setting} can save only adapters: set {key}=true")
    if node.model.lora.get("merge"):
        raise UserError(
            f"{setting} cannot merge adapters into quantized weights: set actor_rollout_ref.model.lora.merge=false"
        )
    correction = configuration.algorithm.rollout_correction
    if correction.bypass_mode or correction.rollout_is is None:
        raise UserError(
            f"{setting} makes the trainer's probabilities differ from the rollout's, which needs a correction: leave "
            f"out the overrides of {' and '.join(DEFAULTS)}"
        )


def check_installed(configuration: DictConfig) -> None:
    """Check that this machine has the package that quantizes, if the run needs it.

    Raises:
        UserError: It is not installed.
    """
    asked = configuration.veritas_rl.quantization
    if asked is not None and find_spec("bitsandbytes") is None:
        raise UserError(
            f"veritas_rl.quantization={asked} needs bitsandbytes, which is not installed: run bash "
            f"train/scripts/setup.sh {asked}"
        )
