"""The tensors of a model, against those that transformers and peft make from the same configuration."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForTokenClassification

from veritas_rl.planning.models import UnknownShape, config_of, find_shape, shape_of

DIMENSIONS = {
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 500,
}

PUBLISHED = {
    "Qwen/Qwen3-0.6B": 596_049_920,
    "Qwen/Qwen3-1.7B": 1_720_574_976,
    "Qwen/Qwen3-4B-Instruct-2507": 4_022_468_096,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-14B": 14_768_307_200,
    "Qwen/Qwen3-32B": 32_762_123_264,
    "Qwen/Qwen2.5-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen2.5-1.5B-Instruct": 1_543_714_304,
    "Qwen/Qwen2.5-3B": 3_085_938_688,
    "Qwen/Qwen2.5-7B-Instruct": 7_615_616_512,
    "Qwen/Qwen2.5-14B": 14_770_033_664,
    "Qwen/Qwen2.5-32B": 32_763_876_352,
    "Qwen/Qwen2.5-72B-Instruct": 72_706_203_648,
    "HuggingFaceTB/SmolLM2-135M-Instruct": 134_515_008,
    "meta-llama/Llama-3.2-1B-Instruct": 1_235_814_400,
    "meta-llama/Llama-3.2-3B": 3_212_749_824,
    "meta-llama/Llama-3.1-8B-Instruct": 8_030_261_248,
}
"""The number of parameters, from the models' cards and weight files."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_have_their_published_size(name: str) -> None:
    shape = find_shape(name, ask_hub=False)
    assert shape.parameters() == PUBLISHED[name]
    assert "table" in shape.source
    assert shape_of(name, shape.source, config_of(shape)) == shape


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama", "mistral"])
def test_every_tensor_is_that_of_transformers(family: str, tied: bool) -> None:
    config = AutoConfig.for_model(family, **DIMENSIONS, tie_word_embeddings=tied)
    shape = shape_of("it", "here", config.to_dict())
    described: dict[str, Any] = {**config.to_dict(), "num_labels": 1}
    with torch.device("meta"):
        actor: Any = AutoModelForCausalLM.from_config(config)
        critic: Any = AutoModelForTokenClassification.from_config(AutoConfig.for_model(**described))
        assert sorted(shape.tensors()) == sorted(tuple(tensor.shape) for tensor in actor.parameters())
        assert sorted(shape.tensors(critic=True)) == sorted(tuple(tensor.shape) for tensor in critic.parameters())
        adapted: Any = get_peft_model(actor, LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"))
        adapters = [tuple(tensor.shape) for name, tensor in adapted.named_parameters() if "lora_" in name]
    assert sorted(shape.adapter_tensors(8)) == sorted(adapters)
    assert sum(map(math.prod, shape.adapter_tensors(8, ("q_proj", "v_proj")))) == 3 * 8 * (96 + 192 + 96 + 64)


def test_a_folder_comes_before_the_table(tmp_path: Path) -> None:
    config = {"model_type": "llama", **{key: value for key, value in DIMENSIONS.items() if key != "head_dim"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    shape = find_shape(str(tmp_path))
    assert (shape.head_dim, shape.tied) == (16, False)
    assert str(tmp_path) in shape.source


def test_an_unknown_model_shape_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UnknownShape, match="not a folder, not in the hub's cache and not in the table"):
        find_shape("nobody/nothing-4B", ask_hub=False)
    with pytest.raises(UnknownShape, match="has no readable config"):
        find_shape(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mamba"}))
    with pytest.raises(UnknownShape, match="'mamba'"):
        find_shape(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3", "hidden_size": 8}))
    with pytest.raises(UnknownShape, match="lacks num_attention_heads"):
        find_shape(str(tmp_path))
