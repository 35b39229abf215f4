"""Merge shards, or an adapter into its base with peft, and then compare the result.

The target folder is written only if the comparison succeeds. Everything runs on the CPU, and needs 1.5 times the memory
of the model in float32.
"""

import dataclasses
import gc
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from veritas_rl.checkpoints import compare
from veritas_rl.checkpoints.adapter import (
    SETTINGS,
    WEIGHTS,
    adapted_modules,
    check_adapter,
    check_mergeable,
    headers,
    rank_and_alpha,
    record_base,
    target_modules,
    weights_fingerprint,
)
from veritas_rl.checkpoints.folder import check_empty, whole_folder
from veritas_rl.checkpoints.layout import (
    ADAPTER,
    MERGE_REPORT,
    META,
    CheckpointInfo,
    LoraInfo,
    check_shards,
    read_info,
    reading,
    role_folder,
    shard_files,
)
from veritas_rl.checkpoints.models import Base, copy_own_files, dtype_name, load_adapter, load_model, saved_dtype
from veritas_rl.checkpoints.origin import Origin, licence_of, origin_of, versions
from veritas_rl.checkpoints.shards import whole_state
from veritas_rl.errors import UserError
from veritas_rl.paths import ROOT, in_checkout


class NothingTrained(UserError):
    """A checkpoint's model is identical to its base."""


def merge_checkpoint(checkpoint: Path, target: Path, base_name: str | None = None) -> compare.Proof:
    """Merge a checkpoint into a Hugging Face folder, which is written atomically and only if the comparison succeeds.

    Args:
        checkpoint: `.../global_step_N`.
        target: The new folder, which must be missing or empty.
        base_name: The base, if the checkpoint records none or its recorded folder is missing.

    Raises:
        UserError: A file is missing, damaged or does not fit, or the model equals its base.
    """
    check_empty(target)
    with reading(checkpoint):
        return _merge_checkpoint(checkpoint, target, base_name)


def _merge_checkpoint(checkpoint: Path, target: Path, base_name: str | None) -> compare.Proof:
    info = read_info(checkpoint)
    check_shards(checkpoint)
    base = _base_of(checkpoint, info, base_name)
    own = role_folder(checkpoint) / "huggingface"
    state = whole_state(shard_files(checkpoint))
    lora = {name: tensor for name, tensor in state.items() if ".lora_" in name}
    with _written(target) as beside:
        if not lora:
            origin = origin_of(checkpoint, info, None, base.folder if base else None)
            proof = _write_state(state, beside, own, base, str(checkpoint), origin)
        elif base is None:
            raise UserError(
                f"{checkpoint} contains an adapter but does not record its base: set AGENT_MODEL_REPO_ID to the base"
            )
        else:
            _check_frozen(state, base)
            del state
            _write_adapter(lora, beside / ADAPTER, checkpoint, info, base)
            origin = origin_of(checkpoint, info, _lora_of(beside / ADAPTER), base.folder)
            proof = _write_merged(beside, own, base, str(checkpoint), origin)
    return proof


def merge_adapter(base_name: str, adapter: Path, target: Path, *, trust_remote_code: bool = False) -> compare.Proof:
    """Merge an adapter into its base; see `merge_checkpoint`.

    Args:
        base_name: A folder or a hub id.
        adapter: The adapter's folder, or a merged model's folder with `lora_adapter` in it, whose configuration and
            tokenizer are then used.
        target: The new folder, which must be missing or empty.
        trust_remote_code: Whether code in the model's folder may be run.

    Raises:
        UserError: A file is missing, damaged or does not fit, or the model equals its base.
    """
    check_empty(target)
    base = Base.find(base_name)
    own = base.folder
    trained = (adapter.parent if adapter.name == ADAPTER else adapter) / MERGE_REPORT
    if (adapter / ADAPTER).is_dir():
        own, adapter = (adapter if (adapter / "config.json").is_file() else own), adapter / ADAPTER
    check_mergeable(adapter)
    check_adapter(adapter, base.folder)
    with _written(target) as beside:
        (beside / ADAPTER).mkdir()
        for name in (SETTINGS, WEIGHTS):
            shutil.copyfile(adapter / name, beside / ADAPTER / name)
        known = read_origin(trained) if trained.is_file() else Origin()
        origin = dataclasses.replace(
            known, lora=_lora_of(adapter), licence=licence_of(base.folder), versions=versions()
        )
        return _write_merged(beside, own, base, str(adapter), origin, trust_remote_code)


def read_origin(report: Path) -> Origin:
    """The origin in a merge.json.

    Raises:
        UserError: The file is damaged.
    """
    try:
        return Origin.from_values(json.loads(report.read_text(encoding="utf-8")).get("origin", {}))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{report} is damaged ({error}): merge again") from error


def _lora_of(adapter: Path) -> LoraInfo:
    return LoraInfo(*rank_and_alpha(adapter), target_modules(adapter))


def _base_of(checkpoint: Path, info: CheckpointInfo | None, named: str | None) -> Base | None:
    if info is None:
        return Base.find(named) if named else None
    try:
        base = Base.find(_from_root(info.base_model))
    except UserError as error:
        if not named:
            raise UserError(f"{error}; set AGENT_MODEL_REPO_ID to its current folder or hub id") from error
        base = Base.find(named)
    if info.base_fingerprint not in (None, weights_fingerprint(base.folder)):
        raise UserError(
            f"the weights in {base.folder} differ from those of {info.base_model}, the base of {checkpoint}: set "
            "AGENT_MODEL_REPO_ID to the right base"
        )
    return base


def _from_root(name: str) -> str:
    """Resolve a folder relative to the checkout, also one that was moved with it. Hub ids stay as they are."""
    folder = in_checkout(ROOT / name)
    return str(folder) if folder.is_dir() else name


def _check_frozen(state: Mapping[str, torch.Tensor], base: Base) -> None:
    there = headers(base.folder)
    for name, tensor in state.items():
        plain = name.removeprefix("base_model.model.").replace(".base_layer.", ".")
        if plain in there:
            with safe_open(there[plain].file, framework="pt") as opened:
                if not torch.equal(opened.get_tensor(plain).to(tensor.dtype), tensor):
                    raise UserError(f"{base.name} is not the base of this checkpoint: {plain} differs")


def _write_adapter(
    lora: Mapping[str, torch.Tensor], folder: Path, checkpoint: Path, info: CheckpointInfo | None, base: Base
) -> None:
    folder.mkdir()
    settings = _settings_of(checkpoint, info)
    settings.base_model_name_or_path = base.name
    settings.inference_mode = True
    # In a model the tensor names include the adapter's name, "default". In a file they do not.
    save_file(
        {re.sub(r"(\.lora_\w+)\.default", r"\1", name): tensor.contiguous() for name, tensor in lora.items()},
        folder / WEIGHTS,
        metadata={"format": "pt"},
    )
    settings.target_modules = _shortest(set(adapted_modules(folder)), base)
    settings.save_pretrained(str(folder))
    check_mergeable(folder)
    check_adapter(folder, base.folder)


def _settings_of(checkpoint: Path, info: CheckpointInfo | None) -> Any:
    """The adapter's settings: from the adapter that training continued from, from verl's record, or from
    checkpoint.json."""
    record = role_folder(checkpoint) / META
    began = info.lora.adapter_path if info is not None and info.lora is not None else None
    try:
        trained = json.loads(record.read_text()) if record.is_file() else {}
        if began is not None:
            settings: Any = LoraConfig.from_pretrained(_from_root(began))
            if trained and (settings.r, settings.lora_alpha) != (trained["r"], trained["lora_alpha"]):
                raise ValueError(f"its rank and alpha differ from those in {record}")
            return settings
        if trained:
            return LoraConfig(r=trained["r"], lora_alpha=trained["lora_alpha"], task_type="CAUSAL_LM")
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"the adapter {began}, from which training continued," if began else str(record)
        raise UserError(f"{what} cannot be read ({error}): restore it, because its settings are needed") from error
    if info is None or info.lora is None:
        raise UserError(f"{record} is missing, and without its alpha the adapter cannot be scaled: restore the file")
    return LoraConfig(r=info.lora.rank, lora_alpha=info.lora.alpha, task_type="CAUSAL_LM")


def _shortest(modules: set[str], base: Base) -> list[str]:
    """Short names for exactly these modules. A name is shortened to its last part if every module of the base with this
    last part has an adapter."""
    every = {name.rpartition(".")[0] for name in headers(base.folder)} - modules
    spared = {module.rpartition(".")[2] for module in every}
    return sorted({last if (last := module.rpartition(".")[2]) not in spared else module for module in modules})


def _write_merged(
    beside: Path, own: Path, base: Base, source: str, origin: Origin, trust_remote_code: bool = False
) -> compare.Proof:
    adapter, dtype = beside / ADAPTER, saved_dtype(base.folder)
    record_base(adapter, base.name, base.folder)
    model = load_adapter(load_model(base.folder, own, dtype, trust_remote_code), adapter)
    model.merge_and_unload().save_pretrained(beside)
    del model
    gc.collect()  # a peft model has reference cycles, and memory may be too small for two models
    copy_own_files(own, beside, dtype)
    weights = compare.compare_weights(beside, base.folder)
    if not weights.differing:
        raise UserError(
            f"nothing was merged, because all {weights.compared} tensors equal those of {base.name}: the adapter is "
            f"zero, or its changes are too small for {dtype_name(dtype)}"
        )
    modules = adapted_modules(adapter)
    if foreign := set(weights.differing) - {f"{module}.weight" for module in modules}:
        raise UserError(
            f"{min(foreign)} changed in the merge although it has no adapter: check that {base.name} is the right base"
        )
    asked = compare.prompts(
        AutoTokenizer.from_pretrained(beside, local_files_only=True, trust_remote_code=trust_remote_code)
    )
    model = load_adapter(load_model(base.folder, own, torch.float32, trust_remote_code), adapter)
    adapted = compare.logits_of(model, asked)
    with model.disable_adapter():
        plain = compare.logits_of(model, asked)
    del model
    gc.collect()
    merged = compare.logits_of(load_model(beside, beside, torch.float32, trust_remote_code), asked)
    proof = compare.Proof(
        source=source,
        base=base.name,
        base_fingerprint=weights_fingerprint(base.folder),
        dtype=dtype_name(dtype),
        weights=weights,
        adapted=len(modules),
        logits=compare.compare_logits(merged, adapted, plain, dtype),
        shard_tensors=None,
        origin=dataclasses.replace(origin, on_hub=base.on_hub),
    )
    compare.check_logits(proof)
    (beside / MERGE_REPORT).write_text(proof.to_json(), encoding="utf-8")
    return proof


def _write_state(
    state: Mapping[str, torch.Tensor], beside: Path, own: Path, base: Base | None, source: str, origin: Origin
) -> compare.Proof:
    try:
        config: Any = AutoConfig.from_pretrained(own, local_files_only=True)
    except (OSError, ValueError) as error:
        raise UserError(f"transformers cannot read the configuration in {own} ({error})") from error
    dtype = saved_dtype(base.folder) if base else config.dtype or next(iter(state.values())).dtype
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    loading = model.load_state_dict(
        {name: tensor.to(dtype) for name, tensor in state.items()}, strict=False, assign=True
    )
    model.tie_weights()
    lacking = [name for name, parameter in model.named_parameters() if parameter.is_meta]
    if lacking or loading.unexpected_keys:
        raise UserError(
            f"the shards do not belong to the model in {own}: {[*lacking, *loading.unexpected_keys][0]} differs"
        )
    model.save_pretrained(beside)
    del model
    copy_own_files(own, beside, dtype)
    equal = compare.compare_state(load_model(beside, beside, dtype).state_dict(), state)
    if any(own.glob("*.safetensors")) and compare.compare_weights(beside, own).differing:
        # With the checkpoint contents "hf_model", verl has also saved the model's weights.
        raise UserError(f"the shards differ from the model that was saved beside them in {own}: use another step")
    weights = compare.compare_weights(beside, base.folder) if base else None
    if base and weights and not weights.differing:
        raise NothingTrained(
            f"training changed nothing: all {weights.compared} tensors equal those of {base.name}, rounded to "
            f"{dtype_name(dtype)}"
        )
    proof = compare.Proof(
        source=source,
        base=base.name if base else None,
        base_fingerprint=weights_fingerprint(base.folder) if base else None,
        dtype=dtype_name(dtype),
        weights=weights,
        adapted=None,
        logits=None,
        shard_tensors=equal,
        origin=dataclasses.replace(origin, on_hub=base is not None and base.on_hub),
    )
    (beside / MERGE_REPORT).write_text(proof.to_json(), encoding="utf-8")
    return proof


@contextmanager
def _written(target: Path) -> Iterator[Path]:
    try:
        with whole_folder(target) as beside:
            yield beside
    except (OSError, SafetensorError) as error:
        raise UserError(f"{target} cannot be written ({error}): choose another folder, or free some space") from error
