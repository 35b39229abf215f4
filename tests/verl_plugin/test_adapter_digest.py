"""Digests of an adapter are additive over parts, and differ if any value differs."""

import pytest
import torch

from veritas_rl.verl_plugin.adapter_digest import Comparison, canonical, digests_of, mixed, together

NAME = "layers.0.self_attn.q_proj.lora_A"


@pytest.mark.parametrize(
    "name",
    [
        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
        "model.layers.0.self_attn.q_proj.lora_A.default.weight",
        "_fsdp_wrapped_module.base_model.model.model.layers.0._fsdp_wrapped_module.self_attn.q_proj.lora_A.default"
        "._fsdp_wrapped_module.weight",
        "model.layers.0.self_attn.q_proj.lora_A",
        "language_model.model.layers.0.self_attn.q_proj.lora_A",
    ],
)
def test_each_way_to_write_a_name_is_one_name(name: str) -> None:
    assert canonical(name) == NAME


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_parts_add_up_to_the_whole_in_any_order(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veritas_rl.verl_plugin.adapter_digest.CHUNK", 100)
    values, places = torch.randn(30, 11).flatten(), torch.arange(330)
    whole = digests_of([(NAME, values.view(30, 11))], dtype)[NAME]
    order = torch.randperm(330)
    parts = [mixed(NAME, values[some], places[some], dtype) for some in (order[:7], order[7:200], order[200:])]
    # The ranks sum their digests as 64-bit integers.
    assert int(torch.tensor(parts).sum()) == whole == mixed(NAME, values, places, dtype)


def test_any_changed_tensor_changes_the_digest() -> None:
    tensor = torch.randn(8, 4)
    same = digests_of([(NAME, tensor)], torch.float32)
    assert digests_of([(NAME, tensor.clone())], torch.float32) == same
    changed = tensor.clone()
    changed[3, 2] = torch.nextafter(changed[3, 2], torch.tensor(9.0))
    swapped = tensor[[1, 0, *range(2, 8)]]
    for other in (changed, swapped, tensor.flip(0), torch.zeros(8, 4), tensor[:7]):
        assert digests_of([(NAME, other)], torch.float32) != same
    other_name = digests_of([(NAME.replace("q_proj", "k_proj"), tensor)], torch.float32)
    assert set(other_name.values()) != set(same.values())


def test_numbers_are_rounded_as_the_rollout_rounds_them() -> None:
    tensor = torch.randn(8, 4)
    held = digests_of([(NAME, tensor.bfloat16())], torch.bfloat16)
    assert digests_of([(NAME, tensor)], torch.bfloat16) == held
    assert digests_of([(NAME, tensor)], torch.float32) != digests_of([(NAME, tensor.bfloat16())], torch.float32)
    # A sum over ranks turns a negative zero into a positive zero.
    assert digests_of([(NAME, -torch.zeros(2))], torch.float32) == digests_of([(NAME, torch.zeros(2))], torch.float32)


def test_the_line_says_what_is_the_same_or_what_is_not() -> None:
    trained = {"a": 1, "b": 2, "c": 3, "d": 4}
    assert Comparison(trained, dict(reversed(trained.items()))).line() == (
        f"the rollout holds the trainer's adapter: 4 tensors, digest {together(trained)}"
    )
    none = Comparison(trained, {})
    assert not none.is_same
    assert "does not hold the trainer's adapter: it holds no adapter (digests" in none.line()
    line = Comparison(trained, {"a": 1, "b": 9, "c": 9, "e": 5}).line()
    for said in ("1 of 4 tensors are missing: d;", "1 of 4 tensors are not the trainer's: e;", "values: b, c ("):
        assert said in line
