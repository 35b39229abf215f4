"""Attention of short sequences in bf16 on a CPU."""

import copy
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from veritas_rl.verl_plugin.cpu import attention

SHAPE: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def model(dtype: torch.dtype) -> Any:
    torch.manual_seed(0)
    made: Any = LlamaForCausalLM(LlamaConfig(**SHAPE, **attention_of("sdpa")))
    return made.to(dtype)


def attention_of(name: str) -> dict[str, Any]:
    return {"attn_implementation": name}


def computed(made: Any, ids: torch.Tensor, **inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits, and the gradient of their sum of squares in the first layer's keys."""
    made.zero_grad()
    logits = made(input_ids=ids, use_cache=False, **inputs).logits
    (logits.float() ** 2).sum().backward()
    return logits.float(), made.model.layers[0].self_attn.k_proj.weight.grad.float()


def masked(ids: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A mask under which every third token is not seen by later ones."""
    seen = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
    seen[:, ::3] &= torch.eye(ids.shape[1], dtype=torch.bool)[:, ::3]
    hidden = torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, torch.finfo(torch.bfloat16).min)
    return hidden.expand(len(ids), 1, -1, -1)


@pytest.mark.parametrize("with_mask", [False, True])
def test_it_differs_from_exact_attention_by_no_more_than_torch_does(*, with_mask: bool) -> None:
    plain, half = model(torch.float32), model(torch.bfloat16)
    short = copy.deepcopy(half)
    attention.install(short)
    assert short.config._attn_implementation == attention.NAME
    ids = torch.randint(0, 64, (3, 40), generator=torch.Generator().manual_seed(0))
    exact, torchs, ours = (
        computed(one, ids, **({"attention_mask": masked(ids, one.dtype)} if with_mask else {}))
        for one in (plain, half, short)
    )
    for wanted, given, found in zip(exact, torchs, ours, strict=True):
        assert not torch.equal(found, given)
        assert (found - wanted).abs().max() <= 2 * (given - wanted).abs().max()


@pytest.mark.parametrize(
    ("dtype", "tokens", "padded"),
    [(torch.bfloat16, attention.LONGEST + 1, False), (torch.float32, 40, False), (torch.bfloat16, 40, True)],
)
def test_all_else_is_left_to_torch(dtype: torch.dtype, tokens: int, *, padded: bool) -> None:
    given = model(dtype)
    short = copy.deepcopy(given)
    attention.install(short)
    ids = torch.randint(0, 64, (2, tokens), generator=torch.Generator().manual_seed(0))
    inputs = {"attention_mask": torch.ones_like(ids).index_fill(1, torch.tensor([0]), 0)} if padded else {}
    for ours, torchs in zip(computed(short, ids, **inputs), computed(given, ids, **inputs), strict=True):
        assert torch.equal(ours, torchs)


def test_eager_attention_is_kept() -> None:
    made = LlamaForCausalLM(LlamaConfig(**SHAPE, **attention_of("eager")))
    attention.install(made)
    assert made.config._attn_implementation == "eager"
