"""The shape of a model from its `config.json`: its dimensions, and the shapes of its parameters.

A shape comes from a local folder, from the cache of the Hugging Face hub, from a table of published configurations, or
from the hub, in this order. Only the configuration is loaded.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from veritas_rl.errors import UserError

FAMILIES = ("qwen2", "qwen3", "llama", "mistral")
"""The supported `model_type`s: decoders with gated feed-forward layers."""


class UnknownShape(UserError):
    """The dimensions of a model are not available, or its family is not supported."""


@dataclass(frozen=True)
class Shape:
    """A decoder's dimensions.

    Attributes:
        name: A folder or a hub id.
        source: A description of the source of the dimensions.
        family: The `model_type`.
        hidden: Width of the residual stream.
        layers: The number of layers.
        heads: Attention heads of a layer.
        kv_heads: Heads of keys and values.
        head_dim: Width of a head.
        intermediate: Width of the feed-forward layer.
        vocabulary: The number of tokens.
        tied: Whether the head shares the embedding's weights.
        context: The maximum context in tokens; 0 if the configuration does not state it.
        windows: Whether a layer's attention has a sliding window.
    """

    name: str
    source: str
    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    tied: bool
    context: int = 0
    windows: bool = False

    @property
    def queries(self) -> int:
        """Width of a layer's queries."""
        return self.heads * self.head_dim

    @property
    def keys(self) -> int:
        """Width of a layer's keys, and of its values."""
        return self.kv_heads * self.head_dim

    @property
    def linears(self) -> dict[str, tuple[int, int]]:
        """The linear modules of a layer, which LoRA adapts: (outputs, inputs) by name."""
        hidden, queries, keys, inner = self.hidden, self.queries, self.keys, self.intermediate
        return {
            "q_proj": (queries, hidden),
            "k_proj": (keys, hidden),
            "v_proj": (keys, hidden),
            "o_proj": (hidden, queries),
            "gate_proj": (inner, hidden),
            "up_proj": (inner, hidden),
            "down_proj": (hidden, inner),
        }

    def layer_tensors(self) -> Iterator[tuple[int, ...]]:
        """The shapes of a layer's parameters."""
        yield from self.linears.values()
        yield from ((self.hidden,), (self.hidden,))
        if self.family == "qwen2":
            yield from ((self.queries,), (self.keys,), (self.keys,))
        if self.family == "qwen3":
            yield from ((self.head_dim,), (self.head_dim,))

    def tensors(self, *, critic: bool = False) -> Iterator[tuple[int, ...]]:
        """The shapes of all parameters.

        Args:
            critic: Whether the head has one output with a bias, instead of one output per token of the vocabulary.
        """
        yield self.vocabulary, self.hidden
        for _ in range(self.layers):
            yield from self.layer_tensors()
        yield (self.hidden,)
        if critic:
            yield from ((1, self.hidden), (1,))
        elif not self.tied:
            yield self.vocabulary, self.hidden

    def adapter_tensors(self, rank: int, targets: "tuple[str, ...] | None" = None) -> Iterator[tuple[int, int]]:
        """The shapes of a LoRA adapter's parameters.

        Args:
            rank: The rank of the adapter.
            targets: The names of the adapted modules; None for all linear modules except the head.
        """
        for _ in range(self.layers):
            for name, (outputs, inputs) in self.linears.items():
                if targets is None or name in targets:
                    yield from ((rank, inputs), (outputs, rank))

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer."""
        return sum(map(math.prod, self.layer_tensors()))

    @property
    def linear_parameters(self) -> int:
        """Weights of the linear modules of one layer."""
        return sum(map(math.prod, self.linears.values()))

    def parameters(self, *, critic: bool = False) -> int:
        """Parameters of the model; see `tensors`."""
        return sum(map(math.prod, self.tensors(critic=critic)))

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the embedding, which is as large as the head."""
        return self.vocabulary * self.hidden


def _qwen3(hidden: int, layers: int, heads: int, intermediate: int, tied: bool) -> Shape:
    return Shape("", "", "qwen3", hidden, layers, heads, 8, 128, intermediate, 151_936, tied, 40_960)


def _qwen25(hidden: int, layers: int, heads: int, kv_heads: int, intermediate: int, vocabulary: int) -> Shape:
    width, tied = hidden // heads, vocabulary == 151_936
    return Shape("", "", "qwen2", hidden, layers, heads, kv_heads, width, intermediate, vocabulary, tied, 32_768)


def _llama(hidden: int, layers: int, heads: int, head_dim: int, intermediate: int, tied: bool) -> Shape:
    return Shape("", "", "llama", hidden, layers, heads, 8, head_dim, intermediate, 128_256, tied, 131_072)


PUBLISHED = {
    r"Qwen/Qwen3-0\.6B(-Base)?": _qwen3(1024, 28, 16, 3072, True),
    r"Qwen/Qwen3-1\.7B(-Base)?": _qwen3(2048, 28, 16, 6144, True),
    r"Qwen/Qwen3-4B(-Base)?": _qwen3(2560, 36, 32, 9728, True),
    r"Qwen/Qwen3-4B-(Instruct|Thinking)-2507": replace(_qwen3(2560, 36, 32, 9728, True), context=262_144),
    r"Qwen/Qwen3-8B(-Base)?": _qwen3(4096, 36, 32, 12_288, False),
    r"Qwen/Qwen3-14B(-Base)?": _qwen3(5120, 40, 40, 17_408, False),
    r"Qwen/Qwen3-32B": _qwen3(5120, 64, 64, 25_600, False),
    r"Qwen/Qwen2\.5-(Coder-)?0\.5B(-Instruct)?": _qwen25(896, 24, 14, 2, 4864, 151_936),
    r"Qwen/Qwen2\.5-(Coder-)?1\.5B(-Instruct)?": _qwen25(1536, 28, 12, 2, 8960, 151_936),
    r"Qwen/Qwen2\.5-(Coder-)?3B(-Instruct)?": _qwen25(2048, 36, 16, 2, 11_008, 151_936),
    r"Qwen/Qwen2\.5-(Coder-)?7B(-Instruct)?": _qwen25(3584, 28, 28, 4, 18_944, 152_064),
    r"Qwen/Qwen2\.5-(Coder-)?14B(-Instruct)?": _qwen25(5120, 48, 40, 8, 13_824, 152_064),
    r"Qwen/Qwen2\.5-(Coder-)?32B(-Instruct)?": _qwen25(5120, 64, 40, 8, 27_648, 152_064),
    r"Qwen/Qwen2\.5-72B(-Instruct)?": _qwen25(8192, 80, 64, 8, 29_568, 152_064),
    r"HuggingFaceTB/SmolLM2-135M(-Instruct)?|smollm2-135m": Shape(
        *("", "", "llama"), 576, 30, 9, 3, 64, 1536, 49_152, tied=True, context=8192
    ),
    r"meta-llama/Llama-3\.2-1B(-Instruct)?": _llama(2048, 16, 32, 64, 8192, True),
    r"meta-llama/Llama-3\.2-3B(-Instruct)?": _llama(3072, 28, 24, 128, 8192, True),
    r"meta-llama/Llama-3\.1-8B(-Instruct)?": _llama(4096, 32, 32, 128, 14_336, False),
}
"""Published configurations by hub id, from the `config.json` of each."""


def shape_of(name: str, source: str, config: Mapping[str, Any]) -> Shape:
    """The shape that a `config.json` describes.

    Args:
        name: A folder or a hub id.
        source: A description of the source of the configuration.
        config: The contents of the `config.json`.

    Raises:
        UnknownShape: The family is not supported, or a dimension is missing.
    """
    family = config.get("model_type")
    if family not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise UnknownShape(
            f"{name} has the model type {family!r}, whose memory cannot be forecast: supported are {known}"
        )
    try:
        heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
        return Shape(
            name=name,
            source=source,
            family=family,
            hidden=hidden,
            layers=int(config["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            intermediate=int(config["intermediate_size"]),
            vocabulary=int(config["vocab_size"]),
            tied=bool(config.get("tie_word_embeddings", False)),
            context=int(config.get("max_position_embeddings") or 0),
            # Configurations of Qwen2 name a window that they do not use.
            windows=bool(config.get("sliding_window") and config.get("use_sliding_window", True)),
        )
    except KeyError as error:
        raise UnknownShape(f"the configuration of {name} lacks {error.args[0]}: name a causal language model") from None


def config_of(shape: Shape) -> dict[str, Any]:
    """The arguments of `AutoConfig.for_model` for this shape, as in a `config.json`; the inverse of `shape_of`."""
    return {
        "model_type": shape.family,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.intermediate,
        "vocab_size": shape.vocabulary,
        "tie_word_embeddings": shape.tied,
        "max_position_embeddings": shape.context,
    }


def find_shape(name: str, *, ask_hub: bool = True) -> Shape:
    """The shape of a named model.

    Args:
        name: A local folder, or a hub id.
        ask_hub: Whether a missing configuration may be downloaded from the Hugging Face hub.

    Raises:
        UnknownShape: The model does not exist, or its family is not supported.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return shape_of(name, f"{folder / 'config.json'}", _read(folder / "config.json", name))
    # Imported here, because most of this module does not need the hub.
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    cached = try_to_load_from_cache(name, "config.json") if name.count("/") == 1 else None
    if isinstance(cached, str):
        return shape_of(name, "the cache of the Hugging Face hub", _read(Path(cached), name))
    for pattern, shape in PUBLISHED.items():
        if re.fullmatch(pattern, name):
            return replace(shape, name=name, source="the table of published configurations in veritas_rl/planning")
    reason = "it is not a folder, not in the hub's cache and not in the table of published configurations"
    if ask_hub:
        try:
            return shape_of(name, "the Hugging Face hub", _read(Path(hf_hub_download(name, "config.json")), name))
        except (OSError, ValueError) as error:
            if isinstance(error, UnknownShape):
                raise
            reason = f"{reason}, and the hub does not have it"
    raise UnknownShape(f"the dimensions of {name} are unknown ({reason}): name a folder with a config.json")


def _read(file: Path, name: str) -> Mapping[str, Any]:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise UnknownShape(f"{name} has no readable config.json: name a model's folder or a hub id") from error
