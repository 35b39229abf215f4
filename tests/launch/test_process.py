"""The launcher's messages about a changed clock and a full disk during a run."""

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from veritas_rl.datasets.rows import sft_row, write_parquet
from veritas_rl.launch import rl, sft
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.process import full_disk

CPU = Hardware(cores=2, gpus=0, gpu_bytes=0)

WATCHED = """
import time
from pathlib import Path
from veritas_rl.launch.process import ClockWatch

watch = ClockWatch()
time.sleep(0.1)
print(watch())
Path("jumped").touch()
print(watch())
time.sleep(0.1)
print(watch())
Path("jumped").unlink()
print(watch())
"""


@pytest.mark.parametrize("jump", [-86400, 7200])
def test_each_jump_is_named_once(jump: int, tmp_path: Path, jumping_clock: Path) -> None:
    environment = {"LD_PRELOAD": str(jumping_clock), "CLOCK_FILE": "jumped", "CLOCK_JUMP": str(jump)}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    before, first, again, back = done.stdout.splitlines()
    assert before == again == "None"
    assert first.startswith(f"the clock of this machine has jumped by {jump:+d} s: ")
    assert back.startswith(f"the clock of this machine has jumped by {-jump:+d} s: ")


def test_fine_tuning_ends_before_its_disk_is_full_and_rl_looks_itself(tmp_path: Path) -> None:
    task = {"env": "trace", "case": "level_1", "prompt": "brief", "seed": 7}
    rows = [sft_row([{"role": "user", "content": "x"}], "y", "trace", task) for _ in range(80)]
    write_parquet(tmp_path / "train.parquet", rows)
    files = [f"data.train_files={tmp_path}/train.parquet", "data.val_files=null"]
    place, now = f"trainer.default_local_dir={tmp_path}/checkpoints", datetime.now()
    assert full_disk(sft.plan([*files, place, "veritas_rl.spare_disk_gib=0"], {}, CPU, now)) is None
    vast = "veritas_rl.spare_disk_gib=1e9"
    said = full_disk(sft.plan([*files, place, vast], {}, CPU, now))
    assert said is not None
    assert f" free for {tmp_path}/checkpoints, and what a run writes (veritas_rl.spare_disk_gib) need " in said
    assert "type the same command to resume from the last checkpoint" in said
    assert full_disk(rl.plan([place, vast], {}, CPU, now)) is None
