"""The engines for a CPU give the same results as verl's own engines."""

import types
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from transformers import AutoModelForCausalLM, AutoModelForTokenClassification
from verl.utils import tensordict_utils as tu

from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.verl_plugin.cpu.engine import CpuEngineWithLMHead, CpuEngineWithValueHead


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / "model", seed=0)


def batch(**settings: Any) -> TensorDict:
    """Samples of several lengths, in the form that verl passes to an engine."""
    rows = [torch.randint(4, 250, (length,), generator=torch.Generator().manual_seed(length)) for length in (5, 9, 2)]
    positions = [torch.arange(len(row)) for row in rows]
    made = TensorDict(
        {
            name: torch.nested.as_nested_tensor(values, layout=torch.jagged)
            for name, values in (("input_ids", rows), ("position_ids", positions))
        },
        batch_size=[len(rows)],
    )
    tu.assign_non_tensor(made, use_remove_padding=False, **settings)
    return made


def computed(engine: Any, data: TensorDict, *, by_verl: bool) -> tuple[dict[str, Any], torch.Tensor]:
    """An engine's outputs for a batch by name, and the gradient of their sum of squares in the first layer."""
    module = engine.module
    module.zero_grad()
    verl = super(type(engine), engine) if by_verl else engine
    inputs, output_args = verl.prepare_model_inputs(data)
    made = verl.prepare_model_outputs(module(**inputs, use_cache=False), output_args, data, None)
    flat = {name: nested.values() for name, nested in made.items()}
    sum((values**2).sum() for values in flat.values()).backward()  # pyright: ignore[reportAttributeAccessIssue]
    return flat, module.model.layers[0].mlp.up_proj.weight.grad.clone()


def engine_of(kind: type, module: Any) -> Any:
    """An engine without a process group, which can only prepare inputs and outputs."""
    engine = object.__new__(kind)
    engine.module = module
    engine.pad_to_length = False
    engine.engine_config = types.SimpleNamespace(entropy_checkpointing=False)
    return engine


def both_agree(engine: Any, data: TensorDict) -> set[str]:
    ours, our_gradient = computed(engine, data, by_verl=False)
    theirs, their_gradient = computed(engine, data, by_verl=True)
    assert ours.keys() == theirs.keys()
    for name, values in ours.items():
        assert values.shape == (5 + 9 + 2,)
        torch.testing.assert_close(values, theirs[name], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(our_gradient, their_gradient, rtol=1e-3, atol=1e-4)
    return set(ours)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_and_entropy_are_those_of_verl(model: Path, temperature: float) -> None:
    module = AutoModelForCausalLM.from_pretrained(model)
    data = batch(temperature=temperature, calculate_entropy=True)
    assert both_agree(engine_of(CpuEngineWithLMHead, module), data) == {"log_probs", "entropy"}


@pytest.mark.parametrize("fine_tuning", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_logits_are_made_of_prompts(model: Path, dtype: torch.dtype, *, fine_tuning: bool) -> None:
    module = AutoModelForCausalLM.from_pretrained(model, dtype=dtype)
    data, prompts, replies = batch(temperature=1.0, calculate_entropy=True), (3, 6, 1), (2, 3, 1)
    # The last row is padding of the batch, so its reply is masked.
    masks = [torch.full((length,), int(length > 1)) for length in replies]
    predicted = torch.tensor(
        [
            prompt - 1 <= place < prompt - 1 + reply and reply > 1
            for prompt, reply in zip(prompts, replies, strict=True)
            for place in range(prompt + reply)
        ]
    )

    def made(*, by_verl: bool) -> tuple[dict[str, Any], Any]:
        engine = engine_of(CpuEngineWithLMHead, module)
        module.zero_grad()
        verl: Any = super(CpuEngineWithLMHead, engine) if by_verl else engine
        inputs, output_args = verl.prepare_model_inputs(data)
        output = module(**inputs, use_cache=False)
        assert output.logits.shape[1] == (9 if by_verl else 9 - (3 - 1))
        found = verl.prepare_model_outputs(output, output_args, data, None)
        flat = {name: nested.values()[predicted] for name, nested in found.items()}
        sum((values.float() ** 2).sum() for values in flat.values()).backward()  # pyright: ignore[reportAttributeAccessIssue]
        return flat, module.model.layers[0].mlp.up_proj.weight.grad.clone()

    theirs, their_gradient = made(by_verl=True)
    asked = [torch.zeros(length, dtype=torch.int64) for length in prompts]
    whole = [torch.cat(parts) for parts in zip(asked, masks, strict=True)]
    columns = {"loss_mask": whole} if fine_tuning else {"prompts": asked, "response_mask": masks}
    for name, values in columns.items():
        data[name] = torch.nested.as_nested_tensor(values, layout=torch.jagged)
    ours, our_gradient = made(by_verl=False)
    off = 1e-5 if dtype == torch.float32 else 2e-2
    assert ours.keys() == theirs.keys() == {"log_probs", "entropy"}
    for name, values in ours.items():
        torch.testing.assert_close(values, theirs[name], rtol=off, atol=off)
    if dtype == torch.float32:
        torch.testing.assert_close(our_gradient, their_gradient, rtol=1e-3, atol=1e-4)


def test_values_are_those_of_verl(model: Path) -> None:
    module = AutoModelForTokenClassification.from_pretrained(model, num_labels=1)
    assert both_agree(engine_of(CpuEngineWithValueHead, module), batch(temperature=1.0)) == {"values"}


def test_outputs_beyond_log_probabilities_are_computed_by_verl(model: Path) -> None:
    module = AutoModelForCausalLM.from_pretrained(model)
    data = batch(temperature=1.0, calculate_sum_pi_squared=True)
    ours, _ = computed(engine_of(CpuEngineWithLMHead, module), data, by_verl=False)
    assert set(ours) == {"log_probs", "sum_pi_squared"}
