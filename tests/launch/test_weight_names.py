"""A checkpoint whose weight names differ from those of its class is detected before a rollout refuses it."""

import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from veritas_rl.errors import UserError
from veritas_rl.launch.weight_names import model_class, stored_names, unknown_parts


def renamed(tiny_model: Path, tmp_path: Path, old: str, new: str) -> Path:
    """A copy of the model with renamed weights, in two files."""
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    items = [(name.replace(old, new, 1), tensor) for name, tensor in sorted(weights.items())]
    for number in range(2):
        save_file(dict(items[number::2]), folder / f"model-{number}.safetensors")
    return folder


def test_a_model_as_it_was_saved_passes(tiny_model: Path) -> None:
    names = stored_names(str(tiny_model))
    assert len(names) > 10
    assert unknown_parts(names, model_class(str(tiny_model)), exact=True) == []


@pytest.mark.parametrize(
    ("old", "new", "unknown"),
    [
        ("model.layers", "block", ["block"]),
        ("self_attn.q_proj", "attn.q_proj", ["model.layers.0.attn", "model.layers.1.attn"]),
    ],
)
def test_other_names_are_found(old: str, new: str, unknown: list[str], tiny_model: Path, tmp_path: Path) -> None:
    folder = str(renamed(tiny_model, tmp_path, old, new))
    for exact in (True, False):
        found = unknown_parts(stored_names(folder), model_class(folder), exact=exact)
        assert found[: len(unknown)] == unknown


def test_only_transformers_adds_the_prefix_of_the_model(tiny_model: Path, tmp_path: Path) -> None:
    folder = str(renamed(tiny_model, tmp_path, "model.", ""))
    names, made = stored_names(folder), model_class(folder)
    assert "layers" in unknown_parts(names, made, exact=True)
    assert unknown_parts(names, made, exact=False) == []


def test_names_of_quantized_weights_and_computed_ones_pass(tiny_model: Path) -> None:
    made = model_class(str(tiny_model))
    names = [
        "model.layers.0.self_attn.q_proj.qweight",
        "model.layers.0.self_attn.q_proj.weight.absmax",
        "model.layers.0.self_attn.rotary_emb.inv_freq",
    ]
    assert unknown_parts(names, made, exact=True) == []


def test_a_folder_without_weights_and_a_broken_file_are_named(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no \*\.safetensors"):
        stored_names(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"no weights at all")
    with pytest.raises(UserError, match="cannot be read"):
        stored_names(str(tmp_path))
    with pytest.raises(UserError, match="the hub returned no weight names"):
        stored_names("nobody/nothing")
