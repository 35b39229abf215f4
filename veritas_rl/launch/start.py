"""The group `start`: how the settings of a run follow from its model.

A model that the launcher made, or one trained from it, is `made`: small, with random weights before its warm-up. Every
other model is `pretrained`. `config.json` carries the mark of a made model, and transformers keeps it whenever the
model is saved, so merged and fine-tuned models have it too.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MADE, PRETRAINED = "made", "pretrained"
GROUP = "start"
MARK = "made_by_veritas_rl"
"""The key in the configuration of a made model. Its value is true."""

VARIABLE = "AGENT_MODEL_REPO_ID"


def is_made(model: str) -> bool:
    """Whether a model is a folder with the mark of a made model.

    Args:
        model: A folder or a hub id.
    """
    try:
        config = json.loads((Path(model).expanduser() / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get(MARK) is True


def choice_for(model: str | None, gpus: int) -> str:
    """The choice of the group for a model.

    Args:
        model: A folder or a hub id; None if the run names none. The launcher then makes one on a CPU. On GPUs the
            hardware group names a pretrained one.
        gpus: The number of GPUs.
    """
    if model is None:
        return PRETRAINED if gpus else MADE
    return MADE if is_made(model) else PRETRAINED


def named_model(
    key: str, overrides: Sequence[str], recipe: Mapping[str, Any], environment: Mapping[str, str]
) -> str | None:
    """The model that a run names: on the command line, in its recipe, or by `VARIABLE`.

    Args:
        key: The Hydra key of the model.
        overrides: The overrides of environment variables and command line.
        recipe: The settings of the recipe.
        environment: The process environment.
    """
    typed = [value for name, _, value in (item.lstrip("+").partition("=") for item in overrides) if name == key]
    if typed:
        value = typed[-1].strip("'\"")
        return None if value in ("", "null") else value
    found: Any = recipe
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, str) and not found.startswith("${"):
        return found
    return environment.get(VARIABLE, "").strip() or None


def chosen_by_model(overrides: Sequence[str], typed: Sequence[str]) -> bool:
    """Whether the model alone has made a run `pretrained`.

    Args:
        overrides: All overrides.
        typed: The overrides of the command line.
    """
    pretrained = any(item.removeprefix("sft_") == f"{GROUP}={PRETRAINED}" for item in overrides)
    return pretrained and not any(item.startswith(f"{GROUP}=") for item in typed)


def identity(overrides: Sequence[str]) -> list[str]:
    """The overrides by which a record identifies a run.

    Records from before this group have no choice of it, and their runs had the settings of made models on CPUs and
    those of pretrained models on GPUs. So these choices are left out.
    """
    cpu = any(item.removeprefix("sft_") == "hardware=cpu" for item in overrides)
    left_out = f"{GROUP}={MADE if cpu else PRETRAINED}"
    return [item for item in overrides if item.removeprefix("sft_") != left_out]
