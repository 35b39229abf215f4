"""The forecast work against torch's FLOP counter, and times calculated by hand."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM

from veritas_rl.planning.duration import forward_work
from veritas_rl.planning.models import find_shape, shape_of
from veritas_rl.planning.plan import Plan


def test_the_work_of_a_pass_is_what_torch_counts() -> None:
    dimensions = {"hidden_size": 256, "intermediate_size": 700, "num_hidden_layers": 3, "num_attention_heads": 8}
    config = AutoConfig.for_model("qwen3", **dimensions, num_key_value_heads=2, head_dim=64, vocab_size=3000)
    config._attn_implementation = "eager"
    with torch.random.fork_rng():
        model: Any = AutoModelForCausalLM.from_config(config)
    tokens = torch.zeros(2, 128, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=tokens, use_cache=False)
    # Eager attention also computes the masked upper half of the scores.
    scores = 2 * 2 * 256 * 128 * config.num_attention_heads * config.head_dim * 3
    counted = counter.get_total_flops() - scores / 2
    assert forward_work(shape_of("it", "here", config.to_dict()), 256, 128, head=True) == pytest.approx(
        counted, rel=1e-3
    )


def test_a_forward_pass_is_two_operations_a_parameter() -> None:
    shape = find_shape("Qwen/Qwen3-8B", ask_hub=False)
    assert forward_work(shape, 1, 1, head=True) == pytest.approx(
        2 * (shape.parameters() - shape.embedding_parameters), rel=1e-3
    )


def test_a_step_takes_less_on_more_gpus_and_more_with_padding(planned: Callable[..., Plan]) -> None:
    common = ("data.train_batch_size=256", "algorithm=grpo")
    one, four = (sum(planned(f"h200x{ranks}", *common).seconds().values()) for ranks in (1, 4))
    assert four < one
    flash = "veritas_rl.attention=flash_attention_2"
    packed, padded = (
        planned("h200x1", *common, flash, f"actor_rollout_ref.model.use_remove_padding={packed}").seconds()[
            "actor's update"
        ]
        for packed in ("true", "false")
    )
    assert padded == pytest.approx(2.5 * packed, rel=1e-6)


def test_tokens_of_a_step(planned: Callable[..., Plan]) -> None:
    plan = planned("h200x1", "algorithm=grpo", "data.train_batch_size=32", "data.max_response_length=1000")
    assert plan.tokens() == (32 * 8 * 522, 32 * 8 * 500)
