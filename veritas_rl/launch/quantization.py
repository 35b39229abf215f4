"""A base in 4 bit under LoRA: the setting `veritas_rl.quantization`. `verl_plugin.nf4` quantizes it."""

from collections.abc import Sequence
from importlib.util import find_spec

from omegaconf import DictConfig

from veritas_rl.errors import UserError, unknown

NF4 = "nf4"
CORRECTION = "algorithm.rollout_correction"

DEFAULTS = {f"{CORRECTION}.bypass_mode": "false", f"{CORRECTION}.rollout_is": "token"}
"""The trainer's base is rounded and the rollout's is not, so their probabilities differ: each token of a reply is
weighted by the trainer's over the rollout's, up to `rollout_is_threshold`. The trainer computes its own for that."""


def overrides(configuration: DictConfig, wanted: Sequence[str]) -> list[str]:
    """The overrides that correct for a base in 4 bit, as far as the person has not set them.

    Args:
        configuration: The resolved configuration.
        wanted: What was set by variables and by the person.
    """
    if configuration.veritas_rl.quantization is None:
        return []
    named = {item.partition("=")[0].lstrip("+") for item in wanted}
    return [f"{key}={value}" for key, value in DEFAULTS.items() if key not in named]


def check(configuration: DictConfig) -> None:
    """What is to be quantized can be.

    Args:
        configuration: The resolved configuration, with the overrides of `overrides`.

    Raises:
        UserError: It cannot, or not with the other settings.
    """
    asked = configuration.veritas_rl.quantization
    if asked is None:
        return
    if asked != NF4:
        raise unknown("veritas_rl.quantization", str(asked), (NF4,))
    setting = f"veritas_rl.quantization={NF4}"
    node, critic = configuration.actor_rollout_ref, configuration.critic
    learners = {"actor_rollout_ref": (node.model, node.actor)}
    if configuration.algorithm.adv_estimator == "gae":
        learners["critic"] = (critic.model, critic)
    for name, (model, settings) in learners.items():
        if model.lora_rank < 1:
            raise UserError(
                f"{setting} keeps the base in 4 bit, on which nothing but adapters can be trained, and "
                f"{name}.model.lora_rank={model.lora_rank}: set ENABLE_LORA=1"
            )
        if settings.strategy != "fsdp2":
            raise UserError(f"{setting} needs FSDP2, which shards codes as they are: set FSDP_STRATEGY=fsdp2")
        if not settings.checkpoint.get("save_lora_only"):
            key = f"{name}{'.actor' if name != 'critic' else ''}.checkpoint.save_lora_only"
            raise UserError(f"{setting} saves adapters alone, because codes are no weights: set {key}=true")
    if node.model.lora.get("merge"):
        raise UserError(f"{setting} cannot merge into codes: set actor_rollout_ref.model.lora.merge=false")
    correction = configuration.algorithm.rollout_correction
    if correction.bypass_mode or correction.rollout_is is None:
        raise UserError(
            f"{setting} trains other probabilities than the rollout has, and nothing would correct for it: leave out "
            f"what sets {' and '.join(DEFAULTS)}"
        )
    if find_spec("bitsandbytes") is None:
        raise UserError(f"{setting} needs bitsandbytes, which is not installed here: bash train/scripts/setup.sh {NF4}")
