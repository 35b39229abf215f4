"""Shards written by verl are assembled into the original tensors, bit for bit."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from veritas_rl.checkpoints.layout import shard_files
from veritas_rl.checkpoints.shards import whole_state
from veritas_rl.errors import UserError


def expected(checkpoint: Path) -> dict[str, torch.Tensor]:
    return load_file(checkpoint / "expected.safetensors")


def verl_merged(checkpoint: Path, target: Path) -> dict[str, torch.Tensor]:
    """The tensors that verl's own merger writes for a checkpoint."""
    from verl.model_merger.base_model_merger import ModelMergerConfig
    from verl.model_merger.fsdp_model_merger import FSDPModelMerger

    actor = checkpoint / "actor"
    FSDPModelMerger(
        ModelMergerConfig(
            operation="merge",
            backend="fsdp",
            local_dir=str(actor),
            target_dir=str(target),
            hf_model_config_path=str(actor / "huggingface"),
        )
    ).merge_and_save()
    return load_file(target / "model.safetensors")


@pytest.mark.parametrize(
    "name", ["full-1", "full-2", "full-fsdp1-2", "full-replicas-2", "full-tied-2", "lora-1", "lora-2", "lora-whole-2"]
)
def test_shards_are_joined_to_the_original_tensors(checkpoints: dict[str, Path], name: str) -> None:
    whole, before = whole_state(shard_files(checkpoints[name])), expected(checkpoints[name])
    adapter_only = name in ("lora-1", "lora-2")
    assert whole.keys() == {key for key in before if not adapter_only or ".lora_" in key}
    for key, tensor in whole.items():
        assert tensor.dtype == before[key].dtype
        assert torch.equal(tensor, before[key])


def test_verls_merger_finds_the_same_rounded_to_bfloat16(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    whole, theirs = whole_state(shard_files(checkpoints["full-2"])), verl_merged(checkpoints["full-2"], tmp_path)
    assert whole.keys() == theirs.keys()
    assert all(torch.equal(tensor.bfloat16(), theirs[key]) for key, tensor in whole.items())


def test_why_verls_merger_is_not_used_under_lora(
    checkpoints: dict[str, Path], bases: dict[str, Path], tmp_path: Path
) -> None:
    base = load_file(bases["plain"] / "model.safetensors")
    merged = verl_merged(checkpoints["lora-whole-2"], tmp_path / "whole")
    assert all(torch.equal(tensor, base[key].bfloat16()) for key, tensor in merged.items())
    with pytest.raises(RuntimeError, match="no complete model weights"):
        verl_merged(checkpoints["lora-2"], tmp_path / "adapter")


def test_a_shard_that_was_damaged_within_is_named(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(checkpoints["full-2"], tmp_path / "global_step_7"))
    shard = folder / "actor/model_world_size_2_rank_1.pt"
    with shard.open("r+b") as file:
        file.seek(shard.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(UserError, match=r"model_world_size_2_rank_1\.pt is damaged, because the checksum"):
        whole_state(shard_files(folder))


def test_shards_that_do_not_belong_together(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(checkpoints["full-2"], tmp_path / "global_step_7"))
    shutil.copyfile(
        checkpoints["lora-2"] / "actor/model_world_size_2_rank_1.pt", folder / "actor/model_world_size_2_rank_1.pt"
    )
    with pytest.raises(UserError, match="do not belong together"):
        whole_state(shard_files(folder))


def test_a_file_with_code_is_no_shard(tmp_path: Path) -> None:
    torch.save({"code": os.system}, tmp_path / "shard.pt")
    with pytest.raises(UserError, match=r"shard\.pt cannot be read"):
        whole_state([tmp_path / "shard.pt"])
