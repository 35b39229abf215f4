"""Qwen3 and its LoRA adapters in plain torch (Yang et al. 2025, Hu et al. 2021), as functions of named weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention, silu

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Shape:
    """What the weights leave open: layers, the width of a head, the base of RoPE, and the epsilon of RMSNorm."""

    layers: int
    head: int
    theta: float
    epsilon: float


def is_adapter(name: str) -> bool:
    """Whether a name is of an adapter's weight."""
    return ".lora_" in name


def merged(weights: Mapping[str, Tensor], scale: float) -> Weights:
    """The weights of the model that base and adapter make together: W + scale * B A."""
    plain: Weights = {}
    for name, weight in weights.items():
        stem = name.removesuffix(".base_layer.weight")
        if stem != name:
            weight = (
                weight + scale * weights[f"{stem}.lora_B.default.weight"] @ weights[f"{stem}.lora_A.default.weight"]
            )
            name = f"{stem}.weight"
        if not is_adapter(name):
            plain[name.removeprefix("base_model.model.")] = weight
    return plain


def without_adapter(weights: Mapping[str, Tensor]) -> Weights:
    """The weights of the base."""
    return merged(weights, 0.0)


def outputs(weights: Weights, head: str, sequences: Sequence[Tensor], shape: Shape) -> list[Tensor]:
    """The outputs of a head after each token: for each sequence (tokens, outputs).

    Sequences are padded on the right, where causal attention does not see the padding.
    """
    longest = max(map(len, sequences))
    x = weights["model.embed_tokens.weight"][torch.stack([pad(ids, (0, longest - len(ids))) for ids in sequences])]
    halves = torch.arange(0, shape.head, 2, dtype=x.dtype) / shape.head
    angles = torch.outer(torch.arange(longest, dtype=x.dtype), shape.theta**-halves).repeat(1, 2)

    def norm(x: Tensor, name: str) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + shape.epsilon) * weights[f"{name}.weight"]

    def rotated(x: Tensor) -> Tensor:
        left, right = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-right, left], -1) * angles.sin()

    for layer in (f"model.layers.{number}" for number in range(shape.layers)):
        y = norm(x, f"{layer}.input_layernorm")
        query, key, value = (
            (y @ weights[f"{layer}.self_attn.{name}_proj.weight"].T).unflatten(-1, (-1, shape.head)).transpose(1, 2)
            for name in "qkv"
        )
        query, key = rotated(norm(query, f"{layer}.self_attn.q_norm")), rotated(norm(key, f"{layer}.self_attn.k_norm"))
        y = scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        x = x + y.transpose(1, 2).flatten(2) @ weights[f"{layer}.self_attn.o_proj.weight"].T
        y = norm(x, f"{layer}.post_attention_layernorm")
        gate, up, down = (weights[f"{layer}.mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
        x = x + (silu(y @ gate.T) * (y @ up.T)) @ down.T
    y = norm(x, "model.norm") @ weights[f"{head}.weight"].T + weights.get(f"{head}.bias", 0)
    return [row[: len(ids)] for row, ids in zip(y, sequences, strict=True)]
