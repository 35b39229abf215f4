"""An adapter is accepted with its own base and refused with any other base."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, Qwen3ForCausalLM

from veritas_rl.checkpoints.adapter import (
    adapted_modules,
    check_adapter,
    check_targets,
    headers,
    record_base,
    weights_fingerprint,
)
from veritas_rl.checkpoints.folder import save_model_folder
from veritas_rl.errors import UserError
from veritas_rl.launch.tiny_model import build_tiny_model


@pytest.fixture
def base(bases: dict[str, Path]) -> Path:
    return bases["plain"]


@pytest.fixture
def adapter(base: Path, tmp_path: Path) -> Path:
    """The folder of an adapter as peft writes it: only the name of the base is recorded."""
    model: Any = AutoModelForCausalLM.from_pretrained(base)
    folder = tmp_path / "adapter"
    get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "down_proj"])).save_pretrained(str(folder))
    return folder


def changed(base: Path, folder: Path, **settings: Any) -> Path:
    """The folder of a model with a changed shape."""
    config = AutoConfig.from_pretrained(base)
    for name, value in settings.items():
        setattr(config, name, value)
    config.layer_types = config.layer_types[: config.num_hidden_layers]
    return save_model_folder(Qwen3ForCausalLM(config), AutoTokenizer.from_pretrained(base), folder)


def test_headers_are_what_safetensors_reads(base: Path) -> None:
    tensors = load_file(base / "model.safetensors")
    found = headers(base)
    assert {name: header.shape for name, header in found.items()} == {k: tuple(v.shape) for k, v in tensors.items()}
    name, header = next(iter(found.items()))
    with header.file.open("rb") as file:
        file.seek(header.start)
        raw = torch.frombuffer(bytearray(file.read(header.size)), dtype=torch.float32)
    assert torch.equal(raw, tensors[name].flatten())


def test_a_fingerprint_is_of_the_weights_and_not_of_the_files(base: Path, tmp_path: Path) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(base)
    model.save_pretrained(tmp_path / "cut", max_shard_size="1MB")
    assert len(list((tmp_path / "cut").glob("*.safetensors"))) > 1
    assert weights_fingerprint(tmp_path / "cut") == weights_fingerprint(base)
    with torch.no_grad():
        model.model.layers[3].mlp.up_proj.weight[0, 0] += 1e-6
    model.save_pretrained(tmp_path / "moved")
    assert weights_fingerprint(tmp_path / "moved") != weights_fingerprint(base)
    model.to(torch.bfloat16).save_pretrained(tmp_path / "rounded")
    assert weights_fingerprint(tmp_path / "rounded") != weights_fingerprint(base)


def test_the_modules_of_an_adapter(adapter: Path) -> None:
    found = adapted_modules(adapter)
    assert len(found) == 8
    assert found["model.layers.2.mlp.down_proj"] == (128, 384)


def test_the_right_base_passes(adapter: Path, base: Path) -> None:
    check_adapter(adapter, base)
    record_base(adapter, "hub/name", base)
    check_adapter(adapter, base)


@pytest.mark.parametrize(
    ("named", "folder", "fits"),
    [
        ("Qwen/Qwen3-4B", "Qwen3-4B", True),
        ("Qwen/Qwen3-4B", "qwen3-4b", True),
        ("Qwen/Qwen3-4B", "models--Qwen--Qwen3-4B/snapshots/0123", True),
        ("/cache/hub/models--Qwen--Qwen3-4B/snapshots/0123", "Qwen3-4B/", True),
        (None, "Qwen3-4B", True),
        ("Qwen/Qwen3-4B", "Qwen3-4B-Instruct-2507", False),
        ("Qwen/Qwen3-4B", "models--Qwen--Qwen3-1.7B/snapshots/Qwen3-4B", False),
    ],
)
def test_without_a_record_names_decide(
    adapter: Path, base: Path, tmp_path: Path, named: str | None, folder: str, fits: bool
) -> None:
    settings = adapter / "adapter_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "base_model_name_or_path": named}))
    copy = tmp_path / "models" / folder
    shutil.copytree(base, copy)
    if fits:
        check_adapter(adapter, copy)
    else:
        with pytest.raises(UserError, match=r"for another base: it was trained on .*, not on"):
            check_adapter(adapter, copy)


def test_with_a_record_weights_decide_and_not_names(adapter: Path, base: Path, tmp_path: Path) -> None:
    record_base(adapter, "hub/name", base)
    check_adapter(adapter, Path(shutil.copytree(base, tmp_path / "by another name")))
    with pytest.raises(UserError, match="it was trained on hub/name, whose weights differ from those in"):
        check_adapter(adapter, build_tiny_model(tmp_path / base.name, seed=9))


def test_other_shapes_are_refused_whatever_the_name(adapter: Path, base: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model\.layers\.0\.mlp\.down_proj .*128 x 384.*128 x 256"):
        check_adapter(adapter, changed(base, tmp_path / "narrow" / base.name, intermediate_size=256))
    with pytest.raises(UserError, match=r"has no model\.layers\.3\."):
        check_adapter(adapter, changed(base, tmp_path / "shallow" / base.name, num_hidden_layers=3))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def half(file: Path) -> None:
    save_file({name: tensor for name, tensor in load_file(file).items() if "lora_A" in name}, file)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("adapter_config.json", Path.unlink, "is not an adapter"),
        ("adapter_config.json", lambda file: file.write_text("["), "is not an adapter"),
        ("adapter_model.safetensors", Path.unlink, r"adapter_model\.safetensors does not exist"),
        ("adapter_model.safetensors", cut, "is not a complete safetensors file"),
        ("adapter_model.safetensors", lambda file: file.write_bytes(b""), "is not a complete safetensors file"),
        ("adapter_model.safetensors", half, "is not a complete LoRA adapter"),
        ("base_model.json", lambda file: file.write_text("[]"), "is damaged"),
    ],
)
def test_damaged_files_of_an_adapter_are_named(
    adapter: Path, base: Path, name: str, damage: Callable[[Path], Any], message: str
) -> None:
    damage(adapter / name)
    with pytest.raises(UserError, match=message):
        check_adapter(adapter, base)


def test_a_base_without_weights(adapter: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no weights"):
        check_adapter(adapter, tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "gone.safetensors"}}')
    with pytest.raises(UserError, match=r"lacks gone\.safetensors, which its index names"):
        check_adapter(adapter, tmp_path)


def test_it_imports_without_torch() -> None:
    program = "import sys, veritas_rl.checkpoints.adapter; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("targets", ["all-linear", ["q_proj", "mlp.down_proj"], r".*\.(q|k)_proj"])
def test_modules_of_the_base_are_accepted(base: Path, targets: str | list[str]) -> None:
    check_targets("model.target_modules", targets, base)


@pytest.mark.parametrize(
    ("targets", "named"),
    [(["q_proj", "q_porj"], "q_porj"), (["norm"], "norm"), (["proj"], "proj"), (r".*\.wq", r".*\.wq")],
)
def test_modules_that_the_base_does_not_have_are_refused(base: Path, targets: str | list[str], named: str) -> None:
    known = "down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj"
    with pytest.raises(UserError) as refused:
        check_targets("model.target_modules", targets, base)
    assert str(refused.value) == f"model.target_modules names {named}, but the linear layers of {base} are {known}"
