"""A LoRA adapter and the base that it was trained on. Weights are known by their safetensors headers, without torch.

Beside an adapter that we write stands `base_model.json`, which says what its base was and the base's fingerprint. An
adapter on another base of the same shapes loads without a word and plays nonsense.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.errors import UserError

WEIGHTS, SETTINGS, BASE = "adapter_model.safetensors", "adapter_config.json", "base_model.json"

SAMPLE_BYTES = 1024
"""How much of each tensor a fingerprint reads: training moves every tensor, and a whole model takes minutes to read."""

_FACTOR = re.compile(r"(?:base_model\.model\.)?(.+)\.lora_(?:embedding_)?([AB])(?:\.default)?(?:\.weight)?")


@dataclass(frozen=True)
class Header:
    """Where a tensor of a safetensors file is, and what.

    Attributes:
        file: The file.
        dtype: As safetensors writes it: F32, BF16, F16, ...
        shape: Its sizes.
        start: Its first byte in the file.
        size: Its bytes.
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
        UserError: There is no safetensors file, or one cannot be read.
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
    if not files:
        raise UserError(f"{folder} holds no weights: there is no *.safetensors in it")
    found = {name: header for file in files for name, header in _headers_of(file).items()}
    if not found:
        raise UserError(f"{folder} holds no weights: its safetensors files are empty")
    return found


def weights_fingerprint(folder: Path) -> str:
    """SHA-256 over every tensor's name, dtype, shape and first bytes, by name: the same however the files are cut.

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


def record_base(adapter: Path, name: str, base: Path) -> None:
    """Write down beside an adapter what its base is.

    Args:
        adapter: The adapter's folder.
        name: What the base is called: a hub id or a folder.
        base: Where its weights are.
    """
    values = {"name": name, "fingerprint": weights_fingerprint(base)}
    write_whole(adapter / BASE, json.dumps(values, indent=2) + "\n")


def check_adapter(adapter: Path, base: Path) -> None:
    """Refuse an adapter on a base that it was not trained on.

    Where `base_model.json` records a fingerprint, that decides. Otherwise the names do, by their last part: an adapter
    for Qwen/Qwen3-4B goes with any folder Qwen3-4B and with the hub's cache of it. The shapes must fit in any case.

    Args:
        adapter: The folder with adapter_config.json and adapter_model.safetensors.
        base: The folder of the base.

    Raises:
        UserError: It is for another base, or one of the two cannot be read.
    """
    settings = _read_json(adapter / SETTINGS, f"{adapter} is no adapter")
    refused = f"{adapter} is an adapter for another base"
    weights = headers(base)
    for module, shape in adapted_modules(adapter).items():
        weight = weights.get(f"{module}.weight")
        if weight is None:
            raise UserError(f"{refused}: {base} has no {module}")
        # Some layers keep their weight transposed.
        if sorted(weight.shape) != sorted(shape):
            raise UserError(f"{refused}: its {module} is {_by(shape)}, in {base} that is {_by(weight.shape)}")
    record = adapter / BASE
    if record.is_file():
        recorded = _read_json(record, f"{record} is damaged")
        if recorded.get("fingerprint") != weights_fingerprint(base):
            raise UserError(
                f"{refused}: it was trained on {recorded.get('name')}, whose weights are not those in {base}"
            )
        return
    named = settings.get("base_model_name_or_path")
    if named and _last_part(named) != _last_part(str(base)):
        raise UserError(
            f"{refused}: it was trained on {named}, and not on {base}; if these are the same weights, say so with "
            f"base_model_name_or_path in {adapter / SETTINGS}"
        )


def adapted_modules(adapter: Path) -> dict[str, tuple[int, int]]:
    """The modules that a LoRA adapter changes, by their names in the base, with the (out, in) sizes it is made for.

    Raises:
        UserError: The folder holds no whole LoRA adapter.
    """
    sizes: dict[str, dict[str, int]] = {}
    for name, header in _headers_of(adapter / WEIGHTS).items():
        factor = _FACTOR.fullmatch(name)
        if factor is not None and len(header.shape) == 2:
            # A is rank x in, B is out x rank.
            sizes.setdefault(factor[1], {})[factor[2]] = header.shape[1 if factor[2] == "A" else 0]
    if not sizes or any(len(factors) != 2 for factors in sizes.values()):
        raise UserError(f"{adapter / WEIGHTS} holds no LoRA adapter, or only a part of one")
    return {module: (factors["B"], factors["A"]) for module, factors in sizes.items()}


def rank_and_alpha(adapter: Path) -> tuple[int, int]:
    """The rank of an adapter, and its alpha.

    Raises:
        UserError: The folder holds no whole LoRA adapter.
    """
    settings = _read_json(adapter / SETTINGS, f"{adapter} is no adapter")
    adapted_modules(adapter)
    try:
        return int(settings["r"]), int(settings["lora_alpha"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{adapter / SETTINGS} names no rank and alpha ({error})") from error


def public_name(model: str) -> str:
    """What other people call a model: its hub id where it is a folder of the hub's cache, or else what it is."""
    cached = [part for part in Path(model).parts if part.startswith("models--")]
    return cached[-1].removeprefix("models--").replace("--", "/") if cached else model


def base_name(adapter: Path) -> str:
    """What an adapter says its base is: a hub id or a folder."""
    if (adapter / BASE).is_file():
        return str(_read_json(adapter / BASE, f"{adapter / BASE} is damaged").get("name"))
    return str(_read_json(adapter / SETTINGS, f"{adapter} is no adapter").get("base_model_name_or_path"))


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
            raise ValueError("it was cut off")
    except FileNotFoundError as error:
        raise UserError(f"there is no {file}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, MemoryError, OverflowError) as error:
        raise UserError(f"{file} is no whole safetensors file ({error})") from error
    return found


def _read_json(file: Path, wrong: str) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError("it holds no JSON object")
    except (OSError, ValueError) as error:
        raise UserError(f"{wrong}: {file} cannot be read ({error})") from error
    return values


def _last_part(model: str) -> str:
    return Path(public_name(model)).name.lower()


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
