"""The merge from the command line: the script, the tool, and the choice of the checkpoint."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from veritas_rl.checkpoints import layout
from veritas_rl.checkpoints.assemble import merge_checkpoint
from veritas_rl.checkpoints.layout import CheckpointInfo, find_checkpoint, write_info
from veritas_rl.errors import UserError
from veritas_rl.paths import ROOT

Checkpoints = dict[str, Path]


def copied(checkpoint: Path, folder: Path) -> Path:
    return Path(shutil.copytree(checkpoint, folder / "experiment" / checkpoint.name))


def test_the_newest_whole_checkpoint_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "EXPERIMENTS", tmp_path)
    with pytest.raises(UserError, match="has no complete checkpoint"):
        find_checkpoint("", "")
    for age, name in ((300, "b/global_step_90"), (200, "a/global_step_50"), (100, "a/global_step_100")):
        (tmp_path / name).mkdir(parents=True)
        write_info(tmp_path / name, CheckpointInfo(1, "base", 1))
        written = (tmp_path / name / "checkpoint.json").stat().st_mtime - age
        os.utime(tmp_path / name / "checkpoint.json", (written, written))
    (tmp_path / "a/global_step_150").mkdir()  # incomplete
    assert find_checkpoint("", "") == tmp_path / "a/global_step_100"
    assert find_checkpoint("", "50") == tmp_path / "a/global_step_50"
    assert find_checkpoint(str(tmp_path / "b"), "") == tmp_path / "b/global_step_90"
    assert find_checkpoint(str(tmp_path / "a"), "150") == tmp_path / "a/global_step_150"
    with pytest.raises(UserError, match=r"GLOBAL_STEP=60 is not in .*: use one of 50, 100, 150"):
        find_checkpoint(str(tmp_path / "a"), "60")
    with pytest.raises(UserError, match="has no folder global_step_N; set it to one of its experiments: a, b"):
        find_checkpoint(str(tmp_path), "")


def bash(command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )


def test_the_script_is_sourced_with_folders_from_where_one_stands(
    checkpoints: Checkpoints, bases: dict[str, Path], tmp_path: Path
) -> None:
    copied(checkpoints["lora-1"], tmp_path)
    done = bash(
        f"before=$(set -o; pwd; declare -F); . {ROOT}/train/scripts/merge.sh; code=$?\n"
        'after=$(set -o; pwd; declare -F); [ "$before" = "$after" ] || echo changed; echo "still here, $code"',
        tmp_path,
        CHECKPOINT_BASE="experiment",
        GLOBAL_STEP="7",
        TARGET_DIR="a/merged",
        AGENT_MODEL_REPO_ID=str(bases["plain"]),
    )
    assert done.stdout.splitlines()[-1] == "still here, 0", done.stderr
    assert "28 of 47" in done.stdout
    assert (tmp_path / "a/merged/model.safetensors").is_file()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"GLOBAL_STEP": "8"}, "GLOBAL_STEP=8 is not in"),
        ({"CHECKPOINT_BASE": "nowhere"}, "has no folder global_step_N"),
        ({"TARGET_DIR": "experiment"}, "experiment is not empty"),
        ({}, "lacks the shard"),
    ],
)
def test_a_mistake_ends_at_once_with_one_line(
    checkpoints: Checkpoints, tmp_path: Path, variables: dict[str, str], message: str
) -> None:
    checkpoint = copied(checkpoints["full-2"], tmp_path)
    (checkpoint / "actor/model_world_size_2_rank_1.pt").unlink()
    common = {"CHECKPOINT_BASE": "experiment", "GLOBAL_STEP": "", "TARGET_DIR": "merged"}
    done = bash(f"bash {ROOT}/train/scripts/merge-ppo.sh", tmp_path, **{**common, **variables})
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert [path.name for path in tmp_path.iterdir()] == ["experiment"]


def test_the_merge_tool_writes_a_model_and_never_overwrites(
    checkpoints: Checkpoints, bases: dict[str, Path], tmp_path: Path
) -> None:
    merge_checkpoint(checkpoints["lora-1"], tmp_path / "merged", str(bases["plain"]))
    tool = f"{sys.executable} {ROOT}/train/tools/merge_adapter_into_base.py --base_model {bases['plain']}"
    done = bash(f"{tool} --adapter_model merged --output_dir again", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "28 of 47" in done.stdout
    assert (tmp_path / "again/merge.json").is_file()
    done = bash(f"{tool} --adapter_model merged --output_dir again", tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "again is not empty" in done.stderr
