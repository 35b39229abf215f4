"""Attention for training short sequences in bf16 on a CPU.

torch fuses attention into one kernel. Its backward pass in bf16 takes several times as long as the plain products if
sequences are short (benchmarks/real_model.py), so these sequences get the plain products.
"""

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "sdpa_short"
"""The name of this attention in transformers."""

LONGEST = 256
"""The most tokens of a sequence that gets plain products. Their memory and time grow with the square of the length."""


def install(module: Any) -> None:
    """Let a model whose attention is "sdpa" use this one, which gives the same up to rounding."""
    if module.config._attn_implementation == "sdpa":
        module.set_attn_implementation(NAME)


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of `query` [rows, heads, tokens, size] over fewer key-value heads: [rows, tokens, heads, size]."""
    rows, heads, tokens, size = query.shape
    shared = key.shape[1]
    short = query.dtype == torch.bfloat16 and tokens == key.shape[2] <= LONGEST
    causal = kwargs.get("is_causal") is not False and getattr(module, "is_causal", True)
    known = causal if attention_mask is None else attention_mask.dtype != torch.bool
    if not short or not known or dropout:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, **kwargs
        )
    if attention_mask is None:  # no row is padded on the left
        attention_mask = query.new_full((tokens, tokens), torch.finfo(query.dtype).min).triu(1)
    # The query heads that share keys and values are computed as the tokens of one head.
    grouped = (query * (size**-0.5 if scaling is None else scaling)).reshape(rows, shared, -1, size)
    scores = (grouped @ key.transpose(-1, -2)).view(rows, heads, tokens, tokens) + attention_mask
    weights = torch.softmax(scores, dim=-1)  # torch computes it in fp32
    output = weights.view(rows, shared, -1, tokens) @ value
    return output.view(rows, heads, tokens, -1).transpose(1, 2), None


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
