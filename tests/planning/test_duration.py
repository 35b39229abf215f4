"""The forecast work against torch's FLOP counter, and times calculated by hand."""

import dataclasses
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
    assert forward_work(shape_of("it", "here", config.to_dict()), 256, 128, head=1) == pytest.approx(counted, rel=1e-3)


def test_a_forward_pass_is_two_operations_a_parameter() -> None:
    shape = find_shape("Qwen/Qwen3-8B", ask_hub=False)
    assert forward_work(shape, 1, 1, head=1) == pytest.approx(
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


def test_a_step_waits_for_its_longest_reply(planned: Callable[..., Plan]) -> None:
    plan = planned("h200x8", "algorithm=grpo")
    even = dataclasses.replace(plan, assumed=dataclasses.replace(plan.assumed, longest=plan.assumed.reply))
    # 1,024 more tokens of 8.0 GB of weights at 0.6 of 4.8 TB/s, and 4 ms each.
    waited = 1024 * (2 * 4.022e9 / (0.6 * 4.8e12) + 0.004)
    assert plan.seconds()["rollout"] - even.seconds()["rollout"] == pytest.approx(waited, rel=0.01)


def test_old_log_probabilities_take_what_verl_publishes_of_an_update(planned: Callable[..., Plan]) -> None:
    seconds = planned("h200x8", "algorithm=grpo", "lora=off").seconds()
    assert 0.31 < seconds["old log-probabilities"] / seconds["actor's update"] < 0.53


SMOLLM2 = "actor_rollout_ref.model.path=HuggingFaceTB/SmolLM2-135M-Instruct"

PILOT = (
    *("algorithm=grpo", "lora=on", "data.train_batch_size=32", "veritas_rl.mini_batches.move=2"),
    *("actor_rollout_ref.actor.ppo_epochs=1", "data.max_prompt_length=64", "data.max_response_length=12"),
    *("actor_rollout_ref.rollout.max_num_seqs=256", "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=2048"),
    *("veritas_rl.evaluation.positions=250", "trainer.total_training_steps=22"),
    *("algorithm.rollout_correction.bypass_mode=true", "actor_rollout_ref.actor.use_prefix_grouper=false"),
)
"""A run of tic-tac-toe in brief prompts on two cores, which took 22 minutes, and 25:26 with both judgements. Each reply
had its own prompt."""

FP32, BF16 = (
    (
        f"actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype={short}",
        f"actor_rollout_ref.actor.fsdp_config.model_dtype={short}",
        f"actor_rollout_ref.rollout.dtype={long}",
    )
    for short, long in (("fp32", "float32"), ("bf16", "bfloat16"))
)


def test_a_run_of_a_real_model_on_two_cores_takes_what_was_measured(planned: Callable[..., Plan]) -> None:
    plan = planned("cpu", SMOLLM2, *PILOT, *FP32)
    parts = plan.run_seconds()
    assert list(parts) == ["22 steps", "judging, before and after"]
    assert 22 / 1.5 < parts["22 steps"] / 60 < 22 * 1.5
    assert 25.4 / 1.5 < sum(parts.values()) / 60 < 25.4 * 1.5
    # 262 tokens a second were measured in updates of adapters.
    tokens = sum(plan.tokens())
    assert 262 / 1.5 < tokens / plan.seconds()["actor's update"] < 262 * 1.5
    half = planned("cpu", SMOLLM2, *PILOT, *BF16).run_seconds()
    # Updates in bf16 were 1.9 to 2 times as fast, and decoding 1.6 times.
    assert 1.5 < parts["22 steps"] / half["22 steps"] < 2.1
    doubled = planned("cpu", SMOLLM2, *PILOT, *FP32, "trainer.total_training_steps=44").run_seconds()
    assert doubled["44 steps"] == pytest.approx(2 * parts["22 steps"])


def test_validations_of_a_run_on_gpus_are_counted(planned: Callable[..., Plan]) -> None:
    steps = ("trainer.total_training_steps=100", "trainer.val_before_train=true")
    few, none = (planned("h200x1", *steps, f"trainer.test_freq={each}").run_seconds() for each in (25, -1))
    assert few["validation"] == pytest.approx(5 * none["validation"])
    assert few["100 steps"] == none["100 steps"]
