"""Engines that compute the prompt of a group once have the results of the ordinary engines."""

import types
from copy import deepcopy
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tensordict import TensorDict
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config
from verl.utils import tensordict_utils as tu
from verl.utils import torch_functional

from veritas_rl.shared_prompts import LONGEST
from veritas_rl.verl_plugin.columns import from_rows
from veritas_rl.verl_plugin.cpu.engine import CpuEngineWithLMHead, CpuEngineWithSharedPrompts
from veritas_rl.verl_plugin.shared_prompts import EngineWithSharedPrompts, packed

SHAPE: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
GROUPS = [(12, [3, 1, 7, 2]), (5, [4]), (9, [6, 6]), (12, [2, 5, 1, 1, 8])]
"""The length of a prompt and the lengths of its replies."""


def batch(
    groups: list[tuple[int, list[int]]], shuffle: bool = False, filling: int = 0, copies: int = 1, **settings: Any
) -> TensorDict:
    """Groups of replies, each reply so many times, and rows that fill a batch, in the form that verl passes."""
    draw = torch.Generator().manual_seed(0)
    rows = []
    for prompt, replies in groups:
        asked = torch.randint(4, 250, (prompt,), generator=draw).tolist()
        rows += [(asked, torch.randint(4, 250, (reply,), generator=draw).tolist()) for reply in replies] * copies
    # What verl adds to fill a batch: a prompt of one token, and a reply that is not learned.
    rows += [([2], [2])] * filling
    if shuffle:
        rows = [rows[index] for index in torch.randperm(len(rows), generator=draw).tolist()]
    columns = {
        "prompts": [asked for asked, _ in rows],
        "responses": [reply for _, reply in rows],
        "input_ids": [asked + reply for asked, reply in rows],
        "position_ids": [[*range(len(asked) + len(reply))] for asked, reply in rows],
        # Of a reply of several turns, the tokens of others are not learned.
        "response_mask": [
            [int(len(asked) > 1 and place % 3 < 2) for place in range(len(reply))] for asked, reply in rows
        ],
    }
    made = TensorDict({name: from_rows(one, torch.int64) for name, one in columns.items()}, batch_size=[len(rows)])
    tu.assign_non_tensor(made, use_remove_padding=False, **settings)
    return made


def engine_of(kind: type, module: Any, dtype: torch.dtype) -> Any:
    """An engine without a process group, which can only prepare inputs and outputs."""
    engine = object.__new__(kind)
    engine.module = module
    engine.pad_to_length = False
    engine.engine_config = types.SimpleNamespace(
        entropy_checkpointing=kind is EngineWithSharedPrompts,
        entropy_from_logits_with_chunking=kind is EngineWithSharedPrompts,
        entropy_from_logits_chunk_size=4,
    )
    engine.compute_entropy_from_logits = torch_functional.entropy_from_logits_with_chunking
    engine._autocast_dtype = dtype
    return engine


def computed(kind: type, module: Any, data: Any, dtype: torch.dtype) -> tuple[dict[str, torch.Tensor], Any, int]:
    """Outputs at the places of replies, the gradients of their squares, and the tokens that the model has read."""
    engine = engine_of(kind, module, dtype)
    module.zero_grad()
    inputs, output_args = engine.prepare_model_inputs(data)
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        made = engine.prepare_model_outputs(module(**inputs, use_cache=False), output_args, data, None)
    prompts, offsets = data["prompts"].offsets().diff(), data["input_ids"].offsets()
    predicted = torch.cat(
        [
            torch.arange(start + prompt - 1, end - 1)
            for start, end, prompt in zip(offsets[:-1], offsets[1:], prompts, strict=True)
            if prompt > 1
        ]
    )
    found = {name: column.values()[predicted].float() for name, column in made.items()}
    sum((values**2).sum() for values in found.values()).backward()  # pyright: ignore[reportAttributeAccessIssue]
    gradients = {name: one.grad.clone() for name, one in module.named_parameters() if one.grad is not None}
    return found, gradients, inputs["input_ids"].numel()


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("architecture", [LlamaConfig, Qwen2Config, Qwen3Config])
def test_results_are_those_of_whole_rows(
    architecture: Any, tied: bool, dtype: torch.dtype, attention: str, lora: bool
) -> None:
    torch.manual_seed(0)
    config = architecture(**SHAPE, tie_word_embeddings=tied, attn_implementation=attention)
    module: Any = AutoModelForCausalLM.from_config(config, dtype=dtype)
    if lora:
        module = get_peft_model(module, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
    for data in (
        batch(GROUPS, temperature=1.0, calculate_entropy=True),
        batch(GROUPS, shuffle=True, filling=3, temperature=0.7, calculate_entropy=True),
        batch(GROUPS, temperature=torch.linspace(0.5, 2, 12), calculate_entropy=True),
    ):
        ours, our_gradients, read = computed(CpuEngineWithSharedPrompts, module, data, dtype)
        theirs, their_gradients, all_read = computed(CpuEngineWithLMHead, module, data, dtype)
        assert read < 0.6 * all_read
        assert ours.keys() == theirs.keys() == {"log_probs", "entropy"}
        if dtype == torch.float32:
            for name, values in ours.items():
                torch.testing.assert_close(values, theirs[name], rtol=1e-5, atol=1e-5)
            assert error(our_gradients, their_gradients) < 1e-5
        else:
            exact, exact_gradients, _ = computed(CpuEngineWithLMHead, deepcopy(module).float(), data, torch.float32)
            assert error(ours, exact) < 1.5 * error(theirs, exact)
            assert error(our_gradients, exact_gradients) < 1.5 * error(their_gradients, exact_gradients)


def error(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    """The norm of the difference, as a share of the norm of what is expected."""
    assert found.keys() == expected.keys()
    off = sum(float((values.float() - expected[name].float()).square().sum()) for name, values in found.items())
    return (off / sum(float(values.float().square().sum()) for values in expected.values())) ** 0.5


def test_the_engine_of_gpus_has_the_same_results() -> None:
    torch.manual_seed(0)
    module = AutoModelForCausalLM.from_config(LlamaConfig(**SHAPE))
    data = batch(GROUPS, filling=2, temperature=0.7, calculate_entropy=True)
    ours, our_gradients, _ = computed(EngineWithSharedPrompts, module, data, torch.float32)
    theirs, their_gradients, _ = computed(CpuEngineWithLMHead, module, data, torch.float32)
    assert error(ours, theirs) < 1e-5
    assert error(our_gradients, their_gradients) < 1e-5


@pytest.mark.parametrize("temperature", [0.7, torch.linspace(0.5, 2, 12).repeat(3)], ids=["one", "each"])
def test_equal_replies_are_computed_once(temperature: Any) -> None:
    torch.manual_seed(0)
    module = AutoModelForCausalLM.from_config(LlamaConfig(**SHAPE))
    one = isinstance(temperature, float)
    data = batch(GROUPS, shuffle=one, copies=3, temperature=temperature, calculate_entropy=True)
    ours, our_gradients, read = computed(CpuEngineWithSharedPrompts, module, data, torch.float32)
    theirs, their_gradients, _ = computed(CpuEngineWithLMHead, module, data, torch.float32)
    for name, values in ours.items():
        torch.testing.assert_close(values, theirs[name], rtol=1e-5, atol=1e-5)
    assert error(our_gradients, their_gradients) < 1e-5
    if one:
        once = batch(GROUPS, temperature=temperature, calculate_entropy=True)
        assert read == computed(CpuEngineWithSharedPrompts, module, once, torch.float32)[2]
        engine = engine_of(CpuEngineWithSharedPrompts, module, torch.float32)
        few, many = (engine.prepare_model_inputs(one)[1]["layout"].labels for one in (once, data))
        assert len(few) == len(many)


def rows_of(data: TensorDict) -> list[list[int]]:
    return [sequence.all_rows for sequence in packed(data)]


def test_a_sequence_has_one_prompt_and_at_most_so_many_tokens() -> None:
    data = batch([(100, [300] * 4), (LONGEST, [1, 1]), (3, [1])], temperature=1.0)
    assert rows_of(data) == [[0, 1, 2], [3], [4], [5], [6]]
    data = batch([(100, [300] * 4), (3, [1, 1])], temperature=1.0, max_token_len_per_gpu=700)
    assert rows_of(data) == [[0, 1], [2, 3], [4, 5]]
    assert rows_of(batch([(5, [0, 1, 2]), (4, [0])], temperature=1.0)) == [[0, 1, 2], [3]]
    data = batch([(100, [300, 300])], copies=3, temperature=1.0)
    assert rows_of(data) == [[0, 2, 4, 1, 3, 5]]
    assert packed(data)[0].length == 700


def test_rows_that_fill_a_batch_need_no_logits_and_are_no_reason_to_pack() -> None:
    module = AutoModelForCausalLM.from_config(LlamaConfig(**SHAPE))
    engine = engine_of(CpuEngineWithSharedPrompts, module, torch.float32)
    inputs, _ = engine.prepare_model_inputs(batch([(100, [3, 4, 5])], filling=2, temperature=1.0))
    assert inputs["input_ids"].shape == (2, 112)
    assert inputs["logits_to_keep"] == 13
    alone, _ = engine.prepare_model_inputs(batch([(100, [3]), (90, [4])], filling=2, temperature=1.0))
    assert alone["input_ids"].shape == (4, 103)
    assert "attention_mask" not in alone
