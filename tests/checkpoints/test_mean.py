"""The mean of models has the mean of their weights, and is refused if their tensors differ."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from veritas_rl.checkpoints.mean import write_mean
from veritas_rl.errors import UserError


def changed(base: Path, folder: Path, seed: int) -> Path:
    """A copy of a model with normal noise on all weights."""
    generator = torch.Generator().manual_seed(seed)
    shutil.copytree(base, folder)
    model: Any = AutoModelForCausalLM.from_pretrained(base)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator))
    model.save_pretrained(folder)
    return folder


def test_each_weight_is_the_mean(tiny_model: Path, tmp_path: Path) -> None:
    folders = [changed(tiny_model, tmp_path / str(seed), seed) for seed in range(3)]
    write_mean(folders, tmp_path / "mean")
    states = [load_file(folder / "model.safetensors") for folder in folders]
    mean = load_file(tmp_path / "mean/model.safetensors")
    assert mean.keys() == states[0].keys()
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, torch.stack([state[name] for state in states]).mean(0))
    loaded: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "mean")
    assert torch.equal(loaded.lm_head.weight, mean["lm_head.weight"])


def test_models_with_other_tensors_have_no_mean(tiny_model: Path, tmp_path: Path) -> None:
    other = shutil.copytree(tiny_model, tmp_path / "other")
    state = load_file(other / "model.safetensors")
    state["lm_head.weight"] = state["lm_head.weight"][:-1].clone()
    save_file(state, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match="they have no mean"):
        write_mean([tiny_model, other], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
