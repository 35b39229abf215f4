"""Adapters on a CPU compute what PEFT computes, beside their base and merged."""

from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from veritas_rl.verl_plugin.cpu import adapters


@pytest.fixture
def model() -> Any:
    """A small model with an adapter that changes its results."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    base: Any = LlamaForCausalLM(LlamaConfig(vocab_size=50, max_position_embeddings=64, **sizes))
    made = get_peft_model(base, LoraConfig(r=4, lora_alpha=10, target_modules="all-linear"))
    for name, parameter in made.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(std=0.2)
    return made


def passed(model: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The logits of some tokens, and the gradients of the adapter."""
    model.zero_grad()
    logits = model(torch.arange(24).view(2, 12)).logits
    logits.square().mean().backward()
    return logits.detach(), {name: one.grad for name, one in model.named_parameters() if one.grad is not None}


def test_results_and_gradients_are_those_of_peft(model: Any) -> None:
    with model.disable_adapter():
        base = model(torch.arange(24).view(2, 12)).logits
    logits, gradients = passed(model)
    assert (logits - base).abs().max() > 0.1
    adapters.install(model)
    again, others = passed(model)
    torch.testing.assert_close(again, logits)
    torch.testing.assert_close(others, gradients)
    assert len(others) == 2 * 7 * 2
    with model.disable_adapter():
        torch.testing.assert_close(model(torch.arange(24).view(2, 12)).logits, base)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_adapter_is_merged_in_fp32_alone_and_taken_off_again(model: Any, dtype: torch.dtype) -> None:
    model.to(dtype)
    adapters.install(model)
    weights = {name: one.clone() for name, one in model.named_parameters()}
    logits = model(torch.arange(24).view(2, 12)).logits
    adapters.merge(model)
    changed = [name for name, one in model.named_parameters() if not torch.equal(one, weights[name])]
    assert len(changed) == (14 if dtype == torch.float32 else 0)
    torch.testing.assert_close(model(torch.arange(24).view(2, 12)).logits, logits)
    adapters.unmerge(model)
    torch.testing.assert_close(dict(model.named_parameters()), weights, rtol=0, atol=1e-7)


def test_a_base_keeps_its_weights_while_adapters_come_and_go(model: Any) -> None:
    before = {name: one.clone() for name, one in model.named_parameters() if "lora" not in name}
    torch.manual_seed(1)
    for _ in range(200):
        adapters.unmerge(model)
        for name, one in model.named_parameters():
            if "lora" in name:
                one.data.normal_(std=0.2)
        adapters.merge(model)
    adapters.unmerge(model)
    drift = max((one - before[name]).abs().max() for name, one in model.named_parameters() if name in before)
    assert drift < 1e-5
