"""An incomplete checkpoint is never treated as complete."""

import dataclasses
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from veritas_rl.checkpoints.layout import (
    CheckpointInfo,
    LoraInfo,
    check_shards,
    read_info,
    remove_info,
    step_folder,
    step_of,
    whole_checkpoints,
    write_info,
)
from veritas_rl.errors import UserError

INFO = CheckpointInfo(50, "Qwen/Qwen3-4B", 2, LoraInfo(32, 64, "all-linear", None), "0123")


def checkpoint(folder: Path, step: int, ranks: int = 2, kinds: tuple[str, ...] = ("model",)) -> Path:
    made = step_folder(folder, step)
    (made / "actor").mkdir(parents=True)
    for kind in kinds:
        for rank in range(ranks):
            with zipfile.ZipFile(made / f"actor/{kind}_world_size_{ranks}_rank_{rank}.pt", "w") as shard:
                shard.writestr("archive/data.pkl", b"0" * 1000)
    return made


@pytest.mark.parametrize("info", [INFO, CheckpointInfo(1, "/models/base", 1), dataclasses.replace(INFO, lora=None)])
def test_written_checkpoint_info_is_read_back(tmp_path: Path, info: CheckpointInfo) -> None:
    write_info(tmp_path, info)
    assert read_info(tmp_path) == info
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.json"]


def test_the_format_of_the_file(tmp_path: Path) -> None:
    lora = {"rank": 32, "alpha": 32, "target_modules": ["q_proj"], "adapter_path": "/adapter"}
    values = {"global_step": 7, "base_model": "base", "world_size": 1, "lora": lora, "of_a_later_version": True}
    (tmp_path / "checkpoint.json").write_text(json.dumps(values))
    assert read_info(tmp_path) == CheckpointInfo(7, "base", 1, LoraInfo(32, 32, ["q_proj"], "/adapter"))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"global_step": 1}', '{"lora": 3}', '{"lora": {"rank": 1}}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "checkpoint.json").write_text(text)
    with pytest.raises(UserError, match=r"checkpoint\.json is damaged"):
        read_info(tmp_path)


def test_only_whole_checkpoints_count_and_by_number(tmp_path: Path) -> None:
    for step in (100, 9, 20):
        write_info(checkpoint(tmp_path, step), INFO)
    checkpoint(tmp_path, 200)  # incomplete: the last file is missing
    (tmp_path / "global_step_300.old").mkdir()
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("200")
    assert [path.name for path in whole_checkpoints(tmp_path)] == ["global_step_9", "global_step_20", "global_step_100"]
    assert [step_of(path) for path in whole_checkpoints(tmp_path)] == [9, 20, 100]
    assert whole_checkpoints(tmp_path / "nothing") == []
    assert read_info(tmp_path / "global_step_200") is None


def test_a_checkpoint_that_is_overwritten_no_longer_counts(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, 5)
    remove_info(folder)
    write_info(folder, INFO)
    assert whole_checkpoints(tmp_path) == [folder]
    remove_info(folder)
    assert whole_checkpoints(tmp_path) == []


def test_a_folder_of_another_name_is_no_step() -> None:
    with pytest.raises(UserError, match="actor is not a checkpoint"):
        step_of(Path("somewhere/actor"))


@pytest.mark.parametrize("recorded", [True, False])
def test_complete_shards_pass(tmp_path: Path, recorded: bool) -> None:
    folder = checkpoint(tmp_path, 1)
    if recorded:
        write_info(folder, INFO)
    check_shards(folder)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, 1)
    (folder / "actor/fsdp_config.json").write_text('{"FSDP_version": 2, "world_size": 2}')
    (folder / "actor/model_world_size_2_rank_1.pt").unlink()
    with pytest.raises(UserError, match=r"lacks the shard .*model_world_size_2_rank_1\.pt"):
        check_shards(folder)


@pytest.mark.parametrize("kept", [0, 1, 900])
def test_a_shard_that_was_cut_off_is_named(tmp_path: Path, kept: int) -> None:
    folder = checkpoint(tmp_path, 1)
    shard = folder / "actor/model_world_size_2_rank_0.pt"
    shard.write_bytes(shard.read_bytes()[:kept])
    with pytest.raises(UserError, match=r"truncated shard, .*model_world_size_2_rank_0\.pt"):
        check_shards(folder)


def test_resuming_needs_more_than_merging(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, 1, kinds=("model", "optim"))
    check_shards(folder, kinds=("model", "optim"))
    with pytest.raises(UserError, match=r"extra_state_world_size_2_rank_0\.pt"):
        check_shards(folder, kinds=("model", "optim", "extra_state"))


def test_a_folder_without_shards(tmp_path: Path) -> None:
    (tmp_path / "global_step_1/actor").mkdir(parents=True)
    with pytest.raises(UserError, match="is not a checkpoint of verl's FSDP"):
        check_shards(tmp_path / "global_step_1")


def test_it_imports_without_torch() -> None:
    program = "import sys, veritas_rl.checkpoints.layout; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
