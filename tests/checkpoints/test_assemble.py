"""A merged model equals the trained weights by an independent calculation; a merge without effect is never written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, LoraModel, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from veritas_rl.checkpoints.adapter import weights_fingerprint
from veritas_rl.checkpoints.assemble import merge_adapter, merge_checkpoint
from veritas_rl.checkpoints.layout import CheckpointInfo, LoraInfo, write_info
from veritas_rl.errors import UserError
from veritas_rl.launch.tiny_model import build_tiny_model

IDS = torch.tensor([[1, 2, 3, 250, 7, 7, 100]])

MERGE_AND_UNLOAD = LoraModel.merge_and_unload

Checkpoints = dict[str, Path]


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=IDS).logits


def copied(checkpoint: Path, folder: Path) -> Path:
    return Path(shutil.copytree(checkpoint, folder / "experiment" / checkpoint.name))


def merged_by_hand(checkpoint: Path, scaling: float) -> dict[str, torch.Tensor]:
    """The model before sharding, with W + scaling B A as the weight of each module that has an adapter."""
    found: dict[str, torch.Tensor] = {}
    state = load_file(checkpoint / "expected.safetensors")
    for name, tensor in state.items():
        if ".lora_" not in name:
            down, up = (name.replace("base_layer.weight", f"lora_{part}.default.weight") for part in "AB")
            delta = state[up].float() @ state[down].float() if "base_layer" in name else 0
            plain = name.removeprefix("base_model.model.").replace(".base_layer", "")
            found[plain] = (tensor.float() + scaling * delta).to(tensor.dtype)
    return found


@pytest.mark.parametrize("name", ["full-1", "full-2", "full-fsdp1-2", "full-replicas-2"])
def test_all_parameters_are_those_that_were_trained(
    checkpoints: Checkpoints, bases: dict[str, Path], tmp_path: Path, name: str
) -> None:
    proof = merge_checkpoint(checkpoints[name], tmp_path / "merged", str(bases["plain"]))
    trained, base = (
        load_file(checkpoints[name] / "expected.safetensors"),
        load_file(bases["plain"] / "model.safetensors"),
    )
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert merged.state_dict().keys() == trained.keys()
    assert all(torch.equal(tensor, trained[key]) for key, tensor in merged.state_dict().items())
    assert proof.weights is not None
    assert proof.weights.compared == len(proof.weights.differing) == proof.shard_tensors == len(trained) == 47
    assert proof.weights.largest == max((trained[key] - base[key]).abs().max().item() for key in base)


def test_a_base_in_bfloat16_with_tied_embeddings(
    checkpoints: Checkpoints, bases: dict[str, Path], tmp_path: Path
) -> None:
    merge_checkpoint(checkpoints["full-tied-2"], tmp_path / "merged", str(bases["tied"]))
    trained = load_file(checkpoints["full-tied-2"] / "expected.safetensors")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert merged.dtype == torch.bfloat16
    assert merged.lm_head.weight is merged.model.embed_tokens.weight
    assert all(torch.equal(tensor, trained[key].bfloat16()) for key, tensor in merged.state_dict().items())
    assert "lm_head.weight" not in load_file(tmp_path / "merged/model.safetensors")


@pytest.mark.parametrize("name", ["lora-1", "lora-2", "lora-fsdp1-2", "lora-whole-2", "lora-some-2"])
def test_an_adapter_is_merged_as_by_hand(
    checkpoints: Checkpoints, bases: dict[str, Path], tmp_path: Path, name: str
) -> None:
    proof = merge_checkpoint(checkpoints[name], tmp_path / "merged", str(bases["plain"]))
    by_hand = merged_by_hand(checkpoints[name], scaling=8 / (3 if name == "lora-2" else 4))
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    for key, tensor in merged.state_dict().items():
        torch.testing.assert_close(tensor, by_hand[key], rtol=0, atol=1e-6)
    adapted = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(bases["plain"]), str(tmp_path / "merged/lora_adapter")
    )
    torch.testing.assert_close(logits(adapted), logits(merged), rtol=0, atol=1e-5)
    assert proof.weights is not None
    assert proof.logits is not None
    assert len(proof.weights.differing) == proof.adapted == (5 if name == "lora-some-2" else 28)
    assert proof.logits.largest < proof.logits.tolerance < proof.logits.adapter
    assert proof.logits.lost < 1e-3


def test_an_adapter_on_a_base_in_bfloat16(checkpoints: Checkpoints, bases: dict[str, Path], tmp_path: Path) -> None:
    proof = merge_checkpoint(checkpoints["lora-tied-2"], tmp_path / "merged", str(bases["tied"]))
    by_hand = merged_by_hand(checkpoints["lora-tied-2"], scaling=2)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert merged.dtype == torch.bfloat16
    for key, tensor in merged.state_dict().items():
        torch.testing.assert_close(tensor, by_hand[key])
    assert proof.logits is not None
    assert proof.logits.lost < 0.25


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"modules_to_save": ["lm_head"]}, r"because it also has whole weights \(modules_to_save: \['lm_head'\]\)"),
        ({"target_modules": ["q_proj", "lm_head"]}, "because it adapts lm_head: train an adapter without it"),
        ({"target_modules": ["q_proj", "embed_tokens"]}, "because it adapts model.embed_tokens: train an adapter"),
    ],
)
@pytest.mark.parametrize("base", ["plain", "tied"])
def test_an_adapter_of_more_than_layers_is_refused_by_its_cause(
    bases: dict[str, Path], tmp_path: Path, base: str, settings: dict[str, Any], said: str
) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(bases[base])
    given = {"r": 2, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM", **settings}
    get_peft_model(model, LoraConfig(**given)).save_pretrained(str(tmp_path / "adapter"))
    with pytest.raises(UserError, match=f"adapter cannot be merged, {said}"):
        merge_adapter(str(bases[base]), tmp_path / "adapter", tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_the_adapter_names_its_base_and_its_modules(
    checkpoints: Checkpoints, bases: dict[str, Path], tmp_path: Path
) -> None:
    merge_checkpoint(checkpoints["lora-some-2"], tmp_path / "merged", str(bases["plain"]))
    folder = tmp_path / "merged/lora_adapter"
    settings = json.loads((folder / "adapter_config.json").read_text())
    assert settings["target_modules"] == ["model.layers.1.mlp.up_proj", "q_proj"]
    assert (settings["r"], settings["lora_alpha"]) == (4, 8)
    assert settings["base_model_name_or_path"] == str(bases["plain"])
    recorded = json.loads((folder / "base_model.json").read_text())
    assert recorded == {"name": str(bases["plain"]), "fingerprint": weights_fingerprint(bases["plain"])}


def test_configuration_and_tokenizer_come_from_the_checkpoint(
    checkpoints: Checkpoints, bases: dict[str, Path], tmp_path: Path
) -> None:
    checkpoint = copied(checkpoints["lora-1"], tmp_path)
    own = checkpoint / "actor/huggingface"
    config = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 77, "dtype": "bfloat16"}))
    (own / "generation_config.json").write_text('{"temperature": 0.25, "do_sample": true}')
    tokenizer: Any = AutoTokenizer.from_pretrained(own)
    tokenizer.chat_template = "ours:{{ messages[0]['content'] }}"
    tokenizer.save_pretrained(own)
    merge_checkpoint(checkpoint, tmp_path / "merged", str(bases["plain"]))
    written = json.loads((tmp_path / "merged/config.json").read_text())
    assert written == {**config, "max_position_embeddings": 77, "dtype": "float32"}
    assert json.loads((tmp_path / "merged/generation_config.json").read_text())["temperature"] == 0.25
    assert AutoTokenizer.from_pretrained(tmp_path / "merged").chat_template == tokenizer.chat_template


def test_the_proof_is_written_down(checkpoints: Checkpoints, bases: dict[str, Path], tmp_path: Path) -> None:
    proof = merge_checkpoint(checkpoints["lora-2"], tmp_path / "merged", str(bases["plain"]))
    written = json.loads((tmp_path / "merged/merge.json").read_text())
    assert written["weights"] == {
        "compared": 47,
        "differing": 28,
        "largest": proof.weights and proof.weights.largest,
        "unmatched": [],
    }
    assert written["logits"]["prompts"] == 3
    assert written["logits"]["agreeing"] == written["logits"]["places"] > 200
    assert written["logits"]["disagreeing"] == []
    assert written["origin"]["step"] == 7
    assert (written["origin"]["lora"]["rank"], written["origin"]["lora"]["alpha"]) == (3, 8)
    assert written["origin"]["versions"]["torch"] == torch.__version__
    assert written["base_fingerprint"] == weights_fingerprint(bases["plain"])


def test_an_adapter_folder_and_a_merged_one_merge_alike(
    checkpoints: Checkpoints, bases: dict[str, Path], tmp_path: Path
) -> None:
    merge_checkpoint(checkpoints["lora-2"], tmp_path / "merged", str(bases["plain"]))
    merge_adapter(str(bases["plain"]), tmp_path / "merged", tmp_path / "from merged")
    merge_adapter(str(bases["plain"]), tmp_path / "merged/lora_adapter", tmp_path / "from adapter")
    expected = load_file(tmp_path / "merged/model.safetensors")
    for folder in ("from merged", "from adapter"):
        found = load_file(tmp_path / folder / "model.safetensors")
        assert all(torch.equal(found[key], tensor) for key, tensor in expected.items())
        assert (tmp_path / folder / "lora_adapter/base_model.json").is_file()
        # merge.json still has the step and the settings of the training.
        origin = json.loads((tmp_path / folder / "merge.json").read_text())["origin"]
        assert (origin["step"], origin["lora"]["rank"], origin["on_hub"]) == (7, 3, False)


def test_settings_of_the_adapter_that_training_went_on_from_hold(
    checkpoints: Checkpoints, bases: dict[str, Path], tmp_path: Path
) -> None:
    checkpoint = copied(checkpoints["lora-1"], tmp_path)
    began = tmp_path / "began"
    began.mkdir()
    settings = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "use_rslora": True}
    (began / "adapter_config.json").write_text(json.dumps(settings))
    lora = LoraInfo(4, 8, "all-linear", str(began))
    write_info(checkpoint, CheckpointInfo(7, str(bases["plain"]), 1, lora))
    merge_checkpoint(checkpoint, tmp_path / "merged")
    by_hand = merged_by_hand(checkpoint, scaling=8 / 4**0.5)
    for key, tensor in load_file(tmp_path / "merged/model.safetensors").items():
        torch.testing.assert_close(tensor, by_hand[key], rtol=0, atol=1e-6)
    shutil.rmtree(began)
    with pytest.raises(UserError, match=r"the adapter .*began, from which training continued, cannot be read"):
        merge_checkpoint(checkpoint, tmp_path / "again")


def test_without_a_base_nothing_is_compared_and_that_is_said(checkpoints: Checkpoints, tmp_path: Path) -> None:
    proof = merge_checkpoint(checkpoints["full-2"], tmp_path / "merged")
    assert (proof.base, proof.weights, proof.shard_tensors) == (None, None, 47)
    with pytest.raises(UserError, match="set AGENT_MODEL_REPO_ID"):
        merge_checkpoint(checkpoints["lora-2"], tmp_path / "adapter")


@pytest.mark.parametrize(
    ("name", "base", "message"),
    [
        ("full-still-2", "plain", "training changed nothing: all 47 tensors equal those of"),
        ("lora-zero-2", "plain", "nothing was merged, because all 47 tensors equal those of"),
        ("lora-faint-2", "tied", "rounding to bfloat16 lost"),
    ],
)
def test_a_merge_without_effect_never_appears(
    checkpoints: Checkpoints, bases: dict[str, Path], tmp_path: Path, name: str, base: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        merge_checkpoint(checkpoints[name], tmp_path / "merged", str(bases[base]))
    assert not list(tmp_path.iterdir())


def not_at_all(model: LoraModel) -> Any:
    return model.unload()


def by_a_hundredth_too_much(model: LoraModel) -> Any:
    for module in model.modules():
        if isinstance(module, LoraLayer):
            module.scaling["default"] *= 1.01
    return MERGE_AND_UNLOAD(model)


def but_for_one_layer(model: LoraModel) -> Any:
    layers: Any = model.model
    layers.model.layers[2].self_attn.v_proj.lora_B["default"].weight.data.zero_()
    return MERGE_AND_UNLOAD(model)


def and_the_norm_too(model: LoraModel) -> Any:
    merged: Any = MERGE_AND_UNLOAD(model)
    merged.model.norm.weight.data[0] += 1e-4
    return merged


@pytest.mark.parametrize(
    ("merge", "message"),
    [
        (not_at_all, "nothing was merged"),
        (by_a_hundredth_too_much, "does not answer as"),
        (but_for_one_layer, "does not answer as"),
        (and_the_norm_too, "model.norm.weight changed in the merge although it has no adapter"),
    ],
)
def test_a_wrong_merge_never_appears(
    checkpoints: Checkpoints,
    bases: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    merge: Callable[[LoraModel], Any],
    message: str,
) -> None:
    monkeypatch.setattr(LoraModel, "merge_and_unload", merge)
    with pytest.raises(UserError, match=message):
        merge_checkpoint(checkpoints["lora-1"], tmp_path / "merged", str(bases["plain"]))
    assert not list(tmp_path.iterdir())


def zero_alpha(checkpoint: Path) -> None:
    """Set alpha to 0, the fallback of verl's own merger if it finds no alpha."""
    record = checkpoint / "actor/lora_train_meta.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "lora_alpha": 0}))


def no_alpha(checkpoint: Path) -> None:
    (checkpoint / "actor/lora_train_meta.json").unlink()


def no_config(checkpoint: Path) -> None:
    (checkpoint / "actor/huggingface/config.json").unlink()


def not_a_number(checkpoint: Path) -> None:
    file = checkpoint / "actor/model_world_size_1_rank_0.pt"
    state = torch.load(file)
    next(iter(state.values())).to_local()[0, 0] = float("nan")
    torch.save(state, file)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (zero_alpha, "nothing was merged"),
        (no_alpha, r"lora_train_meta\.json is missing, and without its alpha"),
        (no_config, r"does not load as the model of .*huggingface/config\.json"),
        (not_a_number, "are not finite"),
    ],
)
def test_a_checkpoint_that_lacks_something(
    checkpoints: Checkpoints, bases: dict[str, Path], tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    checkpoint = copied(checkpoints["lora-1"], tmp_path)
    damage(checkpoint)
    with pytest.raises(UserError, match=message):
        merge_checkpoint(checkpoint, tmp_path / "merged", str(bases["plain"]))
    assert [path.name for path in tmp_path.iterdir()] == ["experiment"]


def test_a_saved_model_that_differs_from_its_shards_is_refused(checkpoints: Checkpoints, tmp_path: Path) -> None:
    checkpoint = copied(checkpoints["full-2"], tmp_path)
    weights = checkpoint / "actor/huggingface/model.safetensors"
    tensors = load_file(weights)
    tensors["model.norm.weight"][5] += 1e-3
    save_file(tensors, weights, metadata={"format": "pt"})
    with pytest.raises(UserError, match="differ from the model that was saved beside them"):
        merge_checkpoint(checkpoint, tmp_path / "merged")


def test_another_base_is_refused(checkpoints: Checkpoints, bases: dict[str, Path], tmp_path: Path) -> None:
    other = build_tiny_model(tmp_path / "other", seed=3)
    with pytest.raises(UserError, match=r"other is not the base of this checkpoint: .* differs"):
        merge_checkpoint(checkpoints["lora-whole-2"], tmp_path / "merged", str(other))
    checkpoint = copied(checkpoints["lora-1"], tmp_path)
    write_info(checkpoint, CheckpointInfo(7, str(other), 1, None, weights_fingerprint(bases["plain"])))
    with pytest.raises(UserError, match=r"the weights in .*other differ from those of .*, the base of"):
        merge_checkpoint(checkpoint, tmp_path / "merged")
    merge_checkpoint(checkpoints["lora-1"], tmp_path / "merged", str(bases["plain"]))
    with pytest.raises(UserError, match="is an adapter for another base"):
        merge_adapter(str(other), tmp_path / "merged", tmp_path / "on other")
    assert not (tmp_path / "on other").exists()


def test_a_base_that_is_gone(checkpoints: Checkpoints, bases: dict[str, Path], tmp_path: Path) -> None:
    checkpoint = copied(checkpoints["lora-1"], tmp_path)
    write_info(checkpoint, CheckpointInfo(7, "/gone/base", 1, None, weights_fingerprint(bases["plain"])))
    with pytest.raises(
        UserError, match=r"/gone/base cannot be read: the folder does not exist; set AGENT_MODEL_REPO_ID"
    ):
        merge_checkpoint(checkpoint, tmp_path / "merged")
    with pytest.raises(UserError, match="the base Qwen/no-such-model cannot be read"):
        merge_adapter("Qwen/no-such-model", checkpoint, tmp_path / "merged")
    assert merge_checkpoint(checkpoint, tmp_path / "merged", str(bases["plain"])).weights is not None
