"""Check that a checkpoint's weight names match its model class.

vLLM and SGLang look each weight up by name. They end a run with "There is no module or parameter named 'block'" if a
name is unknown. transformers only warns, and uses random weights instead.
"""

from collections.abc import Iterable
from pathlib import Path

from torch import device, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from veritas_rl.errors import UserError

COMPUTED = "rotary_emb.inv_freq"
"""A weight in old checkpoints that every model class computes itself."""


def stored_names(model: str) -> list[str]:
    """The names of a checkpoint's weights. Only file headers are read.

    Args:
        model: A folder, or a hub id.

    Raises:
        UserError: The checkpoint has no readable safetensors file.
    """
    from httpx import HTTPError
    from huggingface_hub import get_safetensors_metadata, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError, NotASafetensorsRepoError, OfflineModeIsEnabled
    from safetensors import SafetensorError, safe_open

    folder = Path(model).expanduser()
    cached = None if folder.is_dir() else try_to_load_from_cache(model, "config.json")
    if isinstance(cached, str) and any(Path(cached).parent.glob("*.safetensors")):
        folder = Path(cached).parent
    if not folder.is_dir():
        try:
            return sorted(get_safetensors_metadata(model).weight_map)
        except (
            HfHubHTTPError,
            HTTPError,
            NotASafetensorsRepoError,
            OfflineModeIsEnabled,
            OSError,
            ValueError,
        ) as error:
            raise UserError(f"the hub returned no weight names for {model} ({_first_line(error)})") from error
    names: list[str] = []
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, "pt") as weights:
                names += weights.keys()
        except (OSError, SafetensorError) as error:
            raise UserError(f"{file} cannot be read ({_first_line(error)}): download the model again") from error
    if not names:
        raise UserError(f"{folder} has no *.safetensors file: save the model with save_pretrained()")
    return sorted(names)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def class_names(model: str) -> list[str]:
    """The classes that a model's configuration names, such as ["Qwen3ForCausalLM"]."""
    return list(AutoConfig.from_pretrained(model).architectures or [])


def model_class(model: str) -> PreTrainedModel:
    """The model that a configuration describes, without weights.

    Raises:
        UserError: transformers has no causal language model for this configuration.
    """
    config = AutoConfig.from_pretrained(model)
    with device("meta"):
        try:
            return AutoModelForCausalLM.from_config(config)
        except ValueError as error:
            raise UserError(
                f"transformers has no causal language model class for {model}: choose another model"
            ) from error


def unknown_parts(names: Iterable[str], made: PreTrainedModel, *, exact: bool) -> list[str]:
    """The shortest unknown prefixes of weight names, such as ["block"] or ["model.layers.0.attn"].

    All names below a module without submodules are accepted: quantized weights have other names at this level, and
    experts that are stored one by one are merged into one weight.

    Args:
        names: Names of weights.
        made: The model, with or without weights.
        exact: Whether the prefix of the headless model, such as "model.", is required. transformers adds a missing
            prefix, vLLM and SGLang do not.
    """
    unknown = set[str]()
    for name in names:
        if name.endswith(COMPUTED) or (part := _unknown_part(name, made)) is None:
            continue
        if exact or _unknown_part(name, made.base_model) is not None:
            unknown.add(part)
    return sorted(unknown)


def _unknown_part(name: str, module: nn.Module) -> str | None:
    parts = name.split(".")
    for place, part in enumerate(parts):
        children = dict(module.named_children())
        if part in module._parameters or part in module._buffers or not children:
            return None
        if part not in children:
            return ".".join(parts[: place + 1])
        module = children[part]
    return None
