"""Check that a LoRA adapter belongs to a base. Only safetensors headers are read, without torch.

A merge writes `base_model.json` beside the adapter, with the base's name and fingerprint. An adapter loads without an
error on another base with the same shapes, and then plays nonsense.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.errors import UserError

WEIGHTS, SETTINGS, BASE = "adapter_model.safetensors", "adapter_config.json", "base_model.json"

SAMPLE_BYTES = 1024
"""How many bytes of each tensor a fingerprint reads. Training changes every tensor, and reading a whole model takes
minutes."""

UNRELATED = ("base_model_name_or_path", "revision", "task_type", "inference_mode", "lora_dropout", "peft_version")
"""Settings of an adapter's file that do not change what its weights mean."""

EMBEDDINGS = ("embed_tokens", "lm_head", "wte", "embed_in", "embed_out")
"""The last parts of the names of embeddings and heads. peft saves their whole weights beside an adapter of them, and
models may share one weight between both, so such adapters are not merged."""

_FACTOR = re.compile(r"(?:base_model\.model\.)?(.+)\.lora_(?:embedding_)?([AB])(?:\.default)?(?:\.weight)?")


@dataclass(frozen=True)
class Header:
    """The header entry of a tensor in a safetensors file.

    Attributes:
        file: The file.
        dtype: The safetensors name: F32, BF16, F16, ...
        shape: The shape.
        start: The offset of its first byte in the file.
        size: Its size in bytes.
    """

    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int


def headers(folder: Path) -> dict[str, Header]:
    """Every tensor of a model's or an adapter's folder, by name. Only the headers are read.

    The format: https://huggingface.co/docs/safetensors/index#format

    Raises:
        UserError: The folder has no safetensors file, or a file cannot be read.
    """
    index = folder / "model.safetensors.index.json"
    try:
        files = (
            sorted({folder / name for name in json.loads(index.read_text())["weight_map"].values()})
            if index.is_file()
            else sorted(folder.glob("*.safetensors"))
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{index} cannot be read ({error})") from error
    if not files and any(folder.glob("pytorch_model*.bin")):
        raise UserError(only_bin(str(folder)))
    if not files:
        raise UserError(f"{folder} has no weights: it has no *.safetensors file")
    if missing := next((file for file in files if not file.exists()), None):
        raise UserError(f"{folder} lacks {missing.name}, which its index names: download or copy the model again")
    found = {name: header for file in files for name, header in _headers_of(file).items()}
    if not found:
        raise UserError(f"{folder} has no weights: its safetensors files are empty")
    return found


def check_size(folder: Path, memory: int, hint: str = "") -> None:
    """Check that a model's weights fit into memory.

    Args:
        folder: The model's folder.
        memory: The memory in bytes.
        hint: What else can be done, for the message.

    Raises:
        UserError: The weights are larger, or cannot be read.
    """
    size = sum(header.size for header in headers(folder).values())
    if size > memory:
        raise UserError(
            f"the weights in {folder} have {size / 2**30:.1f} GiB, and this machine has {memory / 2**30:.1f}: choose a "
            f"smaller model{hint}"
        )


def only_bin(model: str) -> str:
    """The refusal of a model without safetensors, with the command that converts it."""
    target = f"{model.rstrip('/').rpartition('/')[2]}-safetensors"
    code = (
        "import sys, transformers as t; old, new = sys.argv[1:]; "
        "t.AutoModelForCausalLM.from_pretrained(old, dtype='auto').save_pretrained(new); "
        "t.AutoTokenizer.from_pretrained(old).save_pretrained(new)"
    )
    return (
        f"{model} has no safetensors weights, which merging and evaluating need: convert it with "
        f"{shlex.join(['python', '-c', code, model, target])}, and name {target}"
    )


def weights_fingerprint(folder: Path) -> str:
    """SHA-256 over every tensor's name, dtype, shape and first bytes, sorted by name. The division into files does not
    matter.

    Raises:
        UserError: The folder's weights cannot be read.
    """
    digest = hashlib.sha256()
    for name, header in sorted(headers(folder).items()):
        digest.update(json.dumps([name, header.dtype, header.shape]).encode())
        with header.file.open("rb") as file:
            file.seek(header.start)
            digest.update(file.read(min(header.size, SAMPLE_BYTES)))
    return digest.hexdigest()


def start_fingerprint(adapter: Path) -> str:
    """A fingerprint of an adapter's weights and of the settings that say what they mean, such as alpha.

    Raises:
        UserError: The adapter cannot be read.
    """
    settings = _read_json(adapter / SETTINGS, f"{adapter} is not an adapter")
    meaning = {name: value for name, value in settings.items() if name not in UNRELATED}
    text = json.dumps([meaning, weights_fingerprint(adapter)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def record_base(adapter: Path, name: str, base: Path) -> None:
    """Record an adapter's base beside the adapter.

    Args:
        adapter: The adapter's folder.
        name: The base's hub id or folder.
        base: The folder of the base's weights.
    """
    values = {"name": name, "fingerprint": weights_fingerprint(base)}
    write_whole(adapter / BASE, json.dumps(values, indent=2) + "\n")


def check_adapter(adapter: Path, base: Path) -> None:
    """Refuse an adapter on a base that it was not trained on.

    A fingerprint in `base_model.json` decides. Without one, the last parts of the names must be equal: an adapter for
    Qwen/Qwen3-4B fits any folder Qwen3-4B and the hub's cache of it. The shapes must always match.

    Args:
        adapter: The folder with adapter_config.json and adapter_model.safetensors.
        base: The folder of the base.

    Raises:
        UserError: The adapter is for another base, or the adapter or the base cannot be read.
    """
    settings = _read_json(adapter / SETTINGS, f"{adapter} is not an adapter")
    refused = f"{adapter} is an adapter for another base"
    weights = headers(base)
    for module, shape in adapted_modules(adapter).items():
        weight = weights.get(f"{module}.weight")
        if weight is None:
            raise UserError(f"{refused}: {base} has no {module}")
        # Some layers store their weight transposed.
        if sorted(weight.shape) != sorted(shape):
            raise UserError(f"{refused}: its {module} is {_by(shape)}, but that of {base} is {_by(weight.shape)}")
    record = adapter / BASE
    if record.is_file():
        recorded = _read_json(record, f"{record} is damaged")
        if recorded.get("fingerprint") != weights_fingerprint(base):
            raise UserError(
                f"{refused}: it was trained on {recorded.get('name')}, whose weights differ from those in {base}"
            )
        return
    named = settings.get("base_model_name_or_path")
    if named and _last_part(named) != _last_part(str(base)):
        raise UserError(
            f"{refused}: it was trained on {named}, not on {base}; if the weights are the same, set "
            f"base_model_name_or_path in {adapter / SETTINGS} to {base}"
        )


def check_mergeable(adapter: Path) -> None:
    """Refuse an adapter that changes more than the linear modules of a model's layers.

    Raises:
        UserError: The adapter trains whole modules, or adapts an embedding or the head.
    """
    settings = _read_json(adapter / SETTINGS, f"{adapter} is not an adapter")
    for name in ("modules_to_save", "trainable_token_indices"):
        if settings.get(name):
            raise UserError(
                f"{adapter} cannot be merged, because it also has whole weights ({name}: {settings[name]}): train an "
                f"adapter without {name}"
            )
    for module in adapted_modules(adapter):
        if module.rpartition(".")[2] in EMBEDDINGS:
            raise UserError(
                f"{adapter} cannot be merged, because it adapts {module}: train an adapter without it, such as with "
                "target_modules=all-linear"
            )


def adapted_modules(adapter: Path) -> dict[str, tuple[int, int]]:
    """The modules that a LoRA adapter changes, by their names in the base, with their (out, in) sizes.

    Raises:
        UserError: The folder has no complete LoRA adapter.
    """
    sizes: dict[str, dict[str, int]] = {}
    for name, header in _headers_of(adapter / WEIGHTS).items():
        factor = _FACTOR.fullmatch(name)
        if factor is not None and len(header.shape) == 2:
            # A is rank x in, B is out x rank.
            sizes.setdefault(factor[1], {})[factor[2]] = header.shape[1 if factor[2] == "A" else 0]
    if not sizes or any(len(factors) != 2 for factors in sizes.values()):
        raise UserError(f"{adapter / WEIGHTS} is not a complete LoRA adapter")
    return {module: (factors["B"], factors["A"]) for module, factors in sizes.items()}


def rank_and_alpha(adapter: Path) -> tuple[int, int]:
    """The rank and alpha of an adapter.

    Raises:
        UserError: The folder has no complete LoRA adapter.
    """
    settings = _read_json(adapter / SETTINGS, f"{adapter} is not an adapter")
    adapted_modules(adapter)
    try:
        return int(settings["r"]), int(settings["lora_alpha"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{adapter / SETTINGS} has no valid rank and alpha ({error})") from error


def target_modules(adapter: Path) -> list[str]:
    """The last parts of the names of the modules that an adapter changes, sorted.

    Raises:
        UserError: The folder has no complete LoRA adapter.
    """
    return sorted({module.rpartition(".")[2] for module in adapted_modules(adapter)})


def check_targets(key: str, targets: str | Sequence[str], base: Path) -> None:
    """Refuse a new adapter of modules that are no linear layers of the base.

    peft would end with an error after minutes, or ignore a name that matches nothing.

    Args:
        key: The setting's key.
        targets: "all-linear", a regular expression for whole names, or ends of names.
        base: The folder of the base.

    Raises:
        UserError: A name matches no linear layer, or the base cannot be read.
    """
    if targets == "all-linear":
        return
    matrices = [name.removesuffix(".weight") for name, header in headers(base).items() if len(header.shape) == 2]
    for target in [targets] if isinstance(targets, str) else targets:
        pattern = target if isinstance(targets, str) else rf"(.*\.)?{re.escape(target)}"
        if not any(re.fullmatch(pattern, name) for name in matrices):
            known = sorted({name.rpartition(".")[2] for name in matrices} - set(EMBEDDINGS))
            raise UserError(f"{key} names {target}, but the linear layers of {base} are {', '.join(known)}")


def dropout_of(adapter: Path) -> float:
    """The dropout of an adapter's inputs, which its file sets for training.

    Raises:
        UserError: The folder has no adapter.
    """
    return float(_read_json(adapter / SETTINGS, f"{adapter} is not an adapter").get("lora_dropout") or 0)


def public_name(model: str) -> str:
    """A model's hub id if it is a folder of the hub's cache, else the name unchanged."""
    cached = [part for part in Path(model).parts if part.startswith("models--")]
    return cached[-1].removeprefix("models--").replace("--", "/") if cached else model


def base_name(adapter: Path) -> str:
    """The base that an adapter records: a hub id or a folder."""
    if (adapter / BASE).is_file():
        return str(_read_json(adapter / BASE, f"{adapter / BASE} is damaged").get("name"))
    return str(_read_json(adapter / SETTINGS, f"{adapter} is not an adapter").get("base_model_name_or_path"))


def _headers_of(file: Path) -> dict[str, Header]:
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            entries = json.loads(opened.read(length))
        entries.pop("__metadata__", None)
        found = {
            name: Header(file, entry["dtype"], tuple(entry["shape"]), 8 + length + first, last - first)
            for name, entry in entries.items()
            for first, last in [entry["data_offsets"]]
        }
        if file.stat().st_size < max((header.start + header.size for header in found.values()), default=0):
            raise ValueError("it is truncated")
    except FileNotFoundError as error:
        raise UserError(f"{file} does not exist") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, MemoryError, OverflowError) as error:
        why = str(error) or "its header is damaged"  # such as a MemoryError for its length
        raise UserError(f"{file} is not a complete safetensors file ({why})") from error
    return found


def _read_json(file: Path, wrong: str) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError) as error:
        raise UserError(f"{wrong}: {file} cannot be read ({error})") from error
    return values


def _last_part(model: str) -> str:
    return Path(public_name(model)).name.lower()


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
