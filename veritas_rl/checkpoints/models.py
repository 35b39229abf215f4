"""Find, load and complete model folders for a merge."""

import json
import shutil
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from peft import PeftModel
from peft.utils import get_peft_model_state_dict
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
from transformers.utils.logging import disable_progress_bar, set_verbosity_error

from veritas_rl.checkpoints.adapter import WEIGHTS, headers, public_name
from veritas_rl.checkpoints.packaged import is_packaged, provide
from veritas_rl.errors import UserError

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
"""The dtypes that can be merged, by their safetensors names."""

OWN_FILES = (".json", ".jinja", ".model", ".py", ".tiktoken", ".txt")
"""The suffixes of a model's other files: configurations, tokenizers, code."""


@dataclass(frozen=True)
class Base:
    """The start model of a training.

    Attributes:
        name: Its hub id, or its folder.
        folder: The folder of its files.
    """

    name: str
    folder: Path

    @property
    def on_hub(self) -> bool:
        """Whether the name is a hub id."""
        return not Path(self.name).expanduser().is_dir()

    @classmethod
    def find(cls, name: str) -> "Base":
        """Find a model, and download it from the hub or write its folder if necessary.

        Args:
            name: A folder, a hub id or a packaged model's name.

        Raises:
            UserError: The model does not exist.
        """
        if is_packaged(name):
            name = provide(name)
        folder, public = Path(name).expanduser(), public_name(name)
        if folder.is_dir():
            return cls(public, folder.resolve())
        if public.startswith(("/", ".", "~")) or public.count("/") > 1:
            raise UserError(f"the base {name} cannot be read: the folder does not exist")
        try:
            return cls(public, Path(snapshot_download(public)))
        except (OSError, ValueError) as error:
            why = " ".join(str(error).split())[:200]
            raise UserError(f"the base {public} cannot be read ({why})") from error


def quiet() -> None:
    """Silence the progress bars and warnings of transformers. This package does the same checks."""
    disable_progress_bar()
    set_verbosity_error()


def generation_config_of(model: str | Path) -> GenerationConfig:
    """A model's generation config. Without a file it comes from config.json, as in transformers and verl.

    Args:
        model: A folder, or a hub id.

    Raises:
        OSError: The model has no config.json.
    """
    try:
        return GenerationConfig.from_pretrained(model)
    except (OSError, ValueError):
        return GenerationConfig.from_model_config(AutoConfig.from_pretrained(model))


def saved_dtype(folder: Path) -> torch.dtype:
    """The dtype of most of a folder's weights, by size.

    Raises:
        UserError: The weights cannot be read, or have a dtype that cannot be merged, such as a quantized dtype.
    """
    sizes: Counter[str] = Counter()
    for header in headers(folder).values():
        sizes[header.dtype] += header.size
    ((name, _),) = sizes.most_common(1)
    if name not in DTYPES:
        raise UserError(f"the weights in {folder} have dtype {name}: use the model in one of {', '.join(DTYPES)}")
    return DTYPES[name]


def dtype_name(dtype: torch.dtype) -> str:
    """A dtype's name in config.json, such as float32."""
    return str(dtype).removeprefix("torch.")


def load_model(weights: Path, own: Path, dtype: torch.dtype, trust_remote_code: bool = False) -> Any:
    """A transformers model in eval mode, on the CPU.

    Args:
        weights: The folder of the weights.
        own: The folder of config.json.
        dtype: The dtype of its parameters.
        trust_remote_code: Whether code in `own` may be run.

    Raises:
        UserError: The model does not load, or the weights lack a tensor, which transformers would fill with random
            values.
    """
    try:
        config = AutoConfig.from_pretrained(own, local_files_only=True, trust_remote_code=trust_remote_code)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            weights,
            config=config,
            dtype=dtype,
            local_files_only=True,
            output_loading_info=True,
            trust_remote_code=trust_remote_code,
        )
        model, loading = loaded
    except Exception as error:  # transformers and safetensors raise many types of errors for a damaged file
        first = next(iter(str(error).strip().splitlines()), "")
        raise UserError(
            f"{weights} does not load as the model of {own / 'config.json'} ({type(error).__name__}: {first})"
        ) from error
    if loading["missing_keys"]:
        lacking = sorted(loading["missing_keys"])
        raise UserError(f"{weights} lacks {lacking[0]}, so it is not the model of {own / 'config.json'}")
    return model.eval()


def load_adapter(model: Any, adapter: Path) -> Any:
    """A peft model around `model`, with every tensor of the adapter.

    Raises:
        UserError: The adapter does not load completely. peft would only warn.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            adapted = PeftModel.from_pretrained(model, str(adapter)).eval()
    except Exception as error:  # peft, torch and safetensors raise many types of errors for a damaged file
        first = next(iter(str(error).strip().splitlines()), "")
        raise UserError(f"{adapter} does not load on its base ({type(error).__name__}: {first})") from error
    saved = load_file(adapter / WEIGHTS)
    loaded = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    if foreign := saved.keys() ^ loaded.keys():
        raise UserError(
            f"peft does not load {adapter} completely: {min(foreign)} is only in the file or only in the model"
        )
    for name, tensor in saved.items():
        if not torch.allclose(loaded[name], tensor.to(loaded[name].dtype), rtol=0, atol=0, equal_nan=True):
            raise UserError(f"peft changes {adapter} when it loads it: {name} differs")
    return adapted


def copy_own_files(own: Path, folder: Path, dtype: torch.dtype) -> None:
    """Copy a model's configuration, tokenizer and code into a folder, and overwrite existing files.

    Args:
        own: The model's folder. Weights and weight indexes are not copied.
        folder: The target folder.
        dtype: The dtype that config.json shall state.
    """
    for file in sorted(own.iterdir()):
        if file.is_file() and file.suffix in OWN_FILES and not file.name.endswith(".index.json"):
            shutil.copyfile(file, folder / file.name)
    config = folder / "config.json"
    values = json.loads(config.read_text(encoding="utf-8"))
    values.pop("torch_dtype", None)  # the name before transformers 5
    values["dtype"] = dtype_name(dtype)
    config.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
