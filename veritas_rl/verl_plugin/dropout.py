"""Turn off what a model does at random in training only: dropout, dropped layers, and noise of a router.

The probabilities of rollout, reference and old policy are computed without it. With it in an update, the ratio of the
first update would not be 1, and clipping would act on noise. Supervised fine-tuning keeps the dropout of a model,
because it compares no probabilities.
"""

import re
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from veritas_rl.verl_plugin import algorithms

RANDOM = re.compile("dropout|pdrop|layerdrop|drop_path|jitter")
"""The names of these settings in the configurations of transformers."""


def found(config: Any) -> dict[str, Any]:
    """The settings above 0, by name; those of a part of the model in a dictionary of their own.

    Args:
        config: A configuration of transformers.
    """
    values: dict[str, Any] = {}
    for name, value in vars(config).items():
        if hasattr(value, "to_dict"):
            values |= {name: inner} if (inner := found(value)) else {}
        elif isinstance(value, int | float) and not isinstance(value, bool) and value > 0 and RANDOM.search(name):
            values[name] = value
    return values


def typed(values: dict[str, Any], of: str = "") -> list[str]:
    """The settings in the form `text_config.attention_dropout=0.1`."""
    words: list[str] = []
    for name, value in values.items():
        words += typed(value, f"{of}{name}.") if isinstance(value, dict) else [f"{of}{name}={value}"]
    return words


def turn_off(configuration: DictConfig) -> None:
    """Set these settings of the actor, of its reference and of a critic to 0, by verl's `override_config`.

    Args:
        configuration: The resolved RL configuration, which is changed.
    """
    from transformers import AutoConfig

    models = [configuration.actor_rollout_ref.model]
    if algorithms.has_critic(configuration):
        models.append(configuration.critic.model)
    for model in models:
        path = model.get("hf_config_path") or model.path
        config = AutoConfig.from_pretrained(path, trust_remote_code=model.get("trust_remote_code", False))
        for setting in typed(found(config)):
            with open_dict(model):
                # verl reads the part `model_config` alone if there is one.
                part = "override_config" + (".model_config" if "model_config" in model.override_config else "")
                OmegaConf.update(model, f"{part}.{setting.partition('=')[0]}", 0.0, force_add=True)
