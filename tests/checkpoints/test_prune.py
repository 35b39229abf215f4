"""Old checkpoints are removed, except for the newest complete one and those that are being written or read."""

import subprocess
import sys
from pathlib import Path

import pytest

from veritas_rl.checkpoints.layout import (
    CheckpointInfo,
    reading,
    removing,
    step_folder,
    whole_checkpoints,
    write_info,
)
from veritas_rl.checkpoints.prune import Reason, keep_newest, remove, size_of, verdicts
from veritas_rl.errors import UserError
from veritas_rl.launch.resume import held
from veritas_rl.paths import ROOT

MIB = 2**20

READER = """
import sys
from pathlib import Path
from veritas_rl.checkpoints.layout import reading
with reading(Path(sys.argv[1])):
    print("reading", flush=True)
    sys.stdin.read()
"""


def checkpoint(experiment: Path, step: int, *, whole: bool = True, size: int = MIB) -> Path:
    made = step_folder(experiment, step)
    (made / "actor").mkdir(parents=True)
    (made / "actor/model_world_size_1_rank_0.pt").write_bytes(b"0" * size)
    if whole:
        write_info(made, CheckpointInfo(step, "base", 1))
    return made


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """A folder with the complete checkpoints 10, 20, 30 and 100, and the incomplete checkpoints 25 and 110."""
    for step in (10, 20, 30, 100):
        checkpoint(tmp_path / "run", step)
    for step in (25, 110):
        checkpoint(tmp_path / "run", step, whole=False)
    return tmp_path / "run"


def reasons(experiment: Path, keep: int | None = None, most_bytes: int | None = None) -> dict[int, Reason]:
    found = verdicts(experiment, keep, most_bytes)
    return {int(verdict.checkpoint.name.removeprefix("global_step_")): verdict.reason for verdict in found}


def steps(experiment: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("global_step_")) for path in experiment.glob("global_step_*"))


def test_without_bounds_only_incomplete_checkpoints_are_removed(experiment: Path) -> None:
    assert reasons(experiment) == {
        10: Reason.WANTED,
        20: Reason.WANTED,
        25: Reason.PARTIAL,
        30: Reason.WANTED,
        100: Reason.NEWEST,
        110: Reason.UNFINISHED,
    }


@pytest.mark.parametrize(("keep", "going"), [(1, {10, 20, 25, 30}), (2, {10, 20, 25}), (4, {25}), (9, {25})])
def test_the_newest_few_stay(experiment: Path, keep: int, going: set[int]) -> None:
    assert {verdict.checkpoint for verdict in verdicts(experiment, keep) if verdict.goes} == {
        step_folder(experiment, step) for step in going
    }


def test_the_oldest_go_until_the_size_is_met(experiment: Path) -> None:
    each = size_of(step_folder(experiment, 30))
    # The newer, incomplete checkpoint 110 stays, and its size counts.
    assert reasons(experiment, most_bytes=3 * each)[10] is Reason.OVER
    assert reasons(experiment, most_bytes=3 * each)[20] is Reason.OVER
    assert reasons(experiment, most_bytes=3 * each)[30] is Reason.WANTED
    assert reasons(experiment, most_bytes=5 * each)[10] is Reason.WANTED
    assert reasons(experiment, most_bytes=1)[100] is Reason.NEWEST


def test_without_a_complete_checkpoint_nothing_is_removed(tmp_path: Path) -> None:
    for step in (1, 2):
        checkpoint(tmp_path, step, whole=False)
    assert set(reasons(tmp_path, keep=1, most_bytes=1).values()) == {Reason.UNFINISHED}


def test_a_linked_checkpoint_is_not_removed(experiment: Path, tmp_path: Path) -> None:
    elsewhere = checkpoint(tmp_path / "elsewhere", 5)
    step_folder(experiment, 5).symlink_to(elsewhere)
    assert 5 not in reasons(experiment, keep=1)


def test_a_checkpoint_stays_while_a_process_reads_it(experiment: Path) -> None:
    for step in (10, 25):  # a complete checkpoint and an incomplete one
        folder = step_folder(experiment, step)
        with subprocess.Popen(
            [sys.executable, "-c", READER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        ) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"reading\n"
            assert reasons(experiment, keep=1)[step] is Reason.READ
            assert not remove(folder)
            assert folder.is_dir()
            reader.kill()
        assert remove(folder)
        assert not folder.exists()


def test_several_read_at_once_and_none_while_it_is_removed(experiment: Path) -> None:
    folder = step_folder(experiment, 10)
    with reading(folder), reading(folder):
        assert not remove(folder)
    with removing(folder) as free:
        assert free
        with pytest.raises(UserError, match="global_step_10 is being removed"), reading(folder):
            pass


def test_a_checkpoint_stays_while_a_run_that_started_from_it_lives(experiment: Path, tmp_path: Path) -> None:
    start = step_folder(experiment, 10)
    with held(tmp_path / "other run", start):
        assert reasons(experiment, keep=1)[10] is Reason.READ
    # A run may remove the checkpoint that it started from if the checkpoint is in the run's own folder.
    with held(experiment, start):
        assert reasons(experiment, keep=1)[10] is Reason.BEYOND


def test_the_trainer_keeps_its_last_ones_and_what_is_not_its_own_to_judge(experiment: Path) -> None:
    with reading(step_folder(experiment, 20)):
        keep_newest(experiment, 2)
    assert steps(experiment) == [20, 25, 30, 100, 110]
    keep_newest(experiment, 2)
    assert steps(experiment) == [25, 30, 100, 110]
    assert [path.name for path in whole_checkpoints(experiment)] == ["global_step_30", "global_step_100"]


def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "train/tools/prune_checkpoints.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_tool_only_reports_without_the_option_to_delete(experiment: Path) -> None:
    before = steps(experiment)
    done = tool("--checkpoints", str(experiment), "--keep", "2")
    assert done.returncode == 0, done.stderr
    assert "3 checkpoints would be removed" in done.stdout
    assert steps(experiment) == before
    done = tool("--checkpoints", str(experiment), "--keep", "2", "--yes")
    assert done.returncode == 0, done.stderr
    assert steps(experiment) == [30, 100, 110]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--keep", "0"], "--keep must be at least 1, not 0"),
        (["--max_gib", "0"], "--max_gib must be more than 0, not 0.0"),
        ([], "has no folder global_step_N; set --checkpoints to one of its experiments: run"),
    ],
)
def test_a_mistake_is_one_line(experiment: Path, arguments: list[str], message: str) -> None:
    done = tool("--checkpoints", str(experiment.parent), *arguments)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert message in line


def test_it_imports_without_torch() -> None:
    program = "import sys, veritas_rl.checkpoints.prune; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
