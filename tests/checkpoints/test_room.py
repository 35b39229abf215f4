"""A nearly full disk is reported in time, with the size of a checkpoint."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from veritas_rl.checkpoints.layout import CheckpointInfo, write_info
from veritas_rl.checkpoints.room import DiskWatch, cannot_write, lack_of_room

MIB = 2**20

ON_TMPFS = """
import sys
from pathlib import Path
from veritas_rl.checkpoints.layout import CheckpointInfo, write_info
from veritas_rl.checkpoints.room import DiskWatch
MIB = 2**20
folder = Path(sys.argv[1])
watch = DiskWatch(folder / "run", (folder / "logs",), 4 * MIB)
print(watch.warning(), watch.too_full(), watch.has_room())
for step in (1, 2, 3):
    saved = folder / f"run/global_step_{step}"
    saved.mkdir(parents=True)
    (saved / "weights").write_bytes(bytes(8 * MIB))
    write_info(saved, CheckpointInfo(step, "base", 1))
    print(watch.warning(), watch.too_full(), watch.has_room(), sep="|")
print(watch.advice())
"""

WRITING = """
import sys
from pathlib import Path
from veritas_rl.checkpoints.room import cannot_write
print(cannot_write(Path(sys.argv[1])))
"""


def on_tmpfs(options: str, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with a private tmpfs mounted at a folder."""
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o {options} tmpfs "$0" && exec "$@"', str(folder), *command],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    return done


def test_a_run_is_warned_and_then_asked_to_leave_while_a_checkpoint_still_fits(tmp_path: Path) -> None:
    done = on_tmpfs("size=40m", tmp_path, sys.executable, "-c", ON_TMPFS, str(tmp_path))
    before, first, second, third, advice = done.stdout.splitlines()
    assert before == "None None True"
    # 32 MiB are free; a checkpoint and the spare 4 MiB take 12.4 MiB.
    assert first == "None|None|True"
    # 24 MiB are less than twice 12.4 MiB.
    assert second.startswith("the disk is nearly full: 24 MiB free for ")
    assert second.endswith("at half of that the run saves a checkpoint and ends|None|True")
    # 16 MiB are enough for one more checkpoint, and the warning is not repeated.
    assert third == "None|None|True"
    assert advice.startswith("step 3 is saved; free some")


def test_what_is_short_is_named(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    watch = DiskWatch(tmp_path / "run", (), 2 * free)
    assert "free for " in str(watch.too_full())
    assert "veritas_rl.spare_disk_gib" in str(watch.too_full())
    assert watch.advice().startswith("no checkpoint was saved yet")
    assert lack_of_room(tmp_path / "none/yet", 0, "it") is None
    step = tmp_path / "run/global_step_7"
    step.mkdir(parents=True)
    write_info(step, CheckpointInfo(7, "base", 1))
    assert watch.advice().startswith("step 7 is saved")


@pytest.mark.parametrize("options", ["ro", "size=64k,nr_inodes=1"])
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, options: str) -> None:
    done = on_tmpfs(options, tmp_path, sys.executable, "-c", WRITING, str(tmp_path))
    reason = "Read-only file system" if options == "ro" else "No space left on device"
    assert done.stdout.strip() == f"{tmp_path} is not writable ({reason})"
    assert cannot_write(tmp_path) is None


FULL = """
import errno, io, os, sys
from pathlib import Path
from rich.console import Console
from veritas_rl.errors import exit_on_user_error
from veritas_rl.launch.process import cause_of_end

os.chdir(sys.argv[1])
with open("filler", "wb", buffering=0) as file:
    try:
        while file.write(bytes(1024)):
            pass
    except OSError as error:
        full = OSError(error.errno, error.strerror)  # as torch raises it, without the file
print(cause_of_end(Path("verl.log").absolute(), 1, Console(file=io.StringIO())))

def write() -> None:
    raise full

exit_on_user_error(write)
"""


def test_a_disk_that_filled_up_is_named(tmp_path: Path) -> None:
    done = on_tmpfs(
        "size=64k",
        tmp_path,
        "sh",
        "-c",
        'touch "$0/verl.log" && exec "$@"',
        str(tmp_path),
        sys.executable,
        "-c",
        FULL,
        str(tmp_path),
    )
    reason = "No space left on device"
    assert done.stdout == (
        f"verl ended with exit code 1, and {tmp_path} is not writable ({reason}): free some space, or use a folder on "
        "another disk\n"
    )
    assert done.stderr == f"error: the disk of {tmp_path} cannot be used ({reason})\n"
    assert done.returncode == 2
