"""Failures of long runs: a full disk, a stalled step, a batch with a NaN, a clock that jumps."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.verl_plugin.saved_batch import read

ROOT = Path(__file__).resolve().parents[1]
LAUNCHER = [sys.executable, "-m", "veritas_rl.launch.main"]

FEW = (
    "veritas_rl.warm_up=null",
    "veritas_rl.evaluation=null",
    "data.train_batch_size=16",
    "veritas_rl.critic_warmup=0",
)
"""Settings for a short run."""

pytestmark = [pytest.mark.training, pytest.mark.long]


def logs(folder: Path) -> Path:
    """The log folder of the run whose checkpoints are in a folder."""
    return Path(json.loads((folder / "run.json").read_text())["folder"])


def steps_of(folder: Path) -> list[int]:
    """The steps with written metrics."""
    file = logs(folder) / "metrics.jsonl" if (folder / "run.json").exists() else None
    return [json.loads(line)["step"] for line in file.read_text().splitlines()] if file and file.exists() else []


def wait_for(reached: Callable[[], bool], run: subprocess.Popen[bytes], log: Path) -> None:
    while not reached():
        assert run.poll() is None, log.read_text()
        time.sleep(0.1)


def on_a_disk(script: str, tmp_path: Path, steps: int, *typed: str) -> str:
    """What a script prints in which "$0" is an empty folder, "$@" a run in it, and file systems can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = [*LAUNCHER, *FEW, f"trainer.default_local_dir={folder}/run", f"trainer.total_training_steps={steps}"]
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script, str(folder), *command, "trainer.save_freq=1", *typed],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode == 77 or "unshare:" in done.stdout:
        pytest.skip("no file system can be mounted here")
    print(done.stdout)
    return done.stdout


def test_a_run_saves_and_leaves_before_its_disk_is_full_and_goes_on_on_a_larger_one(tmp_path: Path) -> None:
    """The disk of 24 MiB is too small for the four checkpoints of the run and the spare space."""
    script = (
        'mount -t tmpfs -o size=24m tmpfs "$0" || exit 77; "$@"; echo "code $?"; ls "$0"/run/*/checkpoint.json; '
        'mount -o remount,size=200m "$0"; "$@"; echo "code $?"; ls "$0"/run/*/checkpoint.json; cat "$0"/run/run.json'
    )
    few = ("trainer.max_actor_ckpt_to_keep=null", "veritas_rl.spare_disk_gib=0.01")
    first, second = on_a_disk(script, tmp_path, 4, *few).split("code 2\n")
    assert "the disk is nearly full: " in first
    (error,) = (line for line in first.splitlines() if line.startswith("error:"))
    saved = re.findall(r"global_step_(\d+)/checkpoint.json", second.partition("resuming")[0])
    assert saved, "nothing was saved"
    assert f"step {saved[-1]} is saved; free some" in error
    assert "type the same command again" in error
    assert f"resuming from step {saved[-1]} of 4" in second
    assert "code 0" in second
    assert "global_step_4/checkpoint.json" in second


def test_a_last_step_that_finds_its_disk_full_is_an_error_and_is_trained_again(tmp_path: Path) -> None:
    """Another program fills the disk between the checkpoint of the first of two steps and the end of the second."""
    script = (
        'mount -t tmpfs -o size=100m tmpfs "$0" || exit 77; '
        '(until [ -e "$0/run/global_step_1/checkpoint.json" ]; do sleep 0.05; done; sleep 0.3; '
        'head -c 100m /dev/zero >"$0/other") 2>/dev/null & '
        '"$@"; echo "code $?"; rm "$0/other"; "$@"; echo "code $?"; ls "$0"/run/*/checkpoint.json'
    )
    first, second = on_a_disk(script, tmp_path, 2, "veritas_rl.spare_disk_gib=0.01").split("code 2\n")
    (error,) = (line for line in first.splitlines() if line.startswith("error:"))
    assert "step 1 is saved; free some" in error
    assert "resuming from step 1 of 2" in second
    assert "code 0" in second
    assert "global_step_2/checkpoint.json" in second


def test_a_step_that_stalls_is_named_with_its_stacks_and_the_run_goes_on(tmp_path: Path) -> None:
    folder, log = tmp_path / "checkpoints", tmp_path / "printed"
    command = [
        *LAUNCHER,
        *FEW,
        f"trainer.default_local_dir={folder}",
        "trainer.total_training_steps=4",
        "trainer.save_freq=-1",
        "veritas_rl.stall.seconds=8",
        "veritas_rl.stall.times=3",
    ]
    with log.open("ab") as printed:
        run = subprocess.Popen(command, cwd=ROOT, stdout=printed, stderr=printed)
        wait_for(lambda: 2 in steps_of(folder), run, log)
        worker = next(
            child
            for child in psutil.Process(run.pid).children(recursive=True)
            if "ray::TaskLoopWorker" in " ".join(child.cmdline()[:1])
        )
        worker.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: "stopped by a signal" in log.read_text(), run, log)
        finally:
            worker.send_signal(signal.SIGCONT)
        assert run.wait() == 0, log.read_text()
    (line,) = (line for line in log.read_text().splitlines() if "stopped by a signal" in line)
    print(line)
    assert re.match(r"step [34] has not ended for \d+ s, and the last ones took \d+\.\d s: ", line)
    assert re.search(rf"ray::TaskLoopWorker(\.\w+)? \(process {worker.pid}\) is stopped by a signal", line)
    stacks = next((logs(folder) / "stalls").glob("step_[34].txt")).read_text()
    # The trainer waits for the worker, and the stacks of every process are listed.
    for words in ("on_sample_begin", "ray::WorkerDict", "ray::TaskRunnerV1", "ray::TaskLoopWorker", "raylet"):
        assert words in stacks
    assert steps_of(folder) == [1, 2, 3, 4]


def test_a_batch_with_a_nan_is_saved_and_its_step_named_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    command = [
        *LAUNCHER,
        *FEW,
        f"trainer.default_local_dir={tmp_path}",
        "trainer.total_training_steps=3",
        "trainer.save_freq=1",
        "trainer.n_gpus_per_node=2",
        "actor_rollout_ref.rollout.n=2",
        "data.custom_cls.config.adapter_config.reward_mode=legal",
    ]
    planted = {"VERL_USE_EXTERNAL_MODULES": "nan_batch", "PYTHONPATH": f"{ROOT}/tests"}
    environment = {**os.environ, **planted, "ALGORITHM": "grpo"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    (error,) = (line for line in done.stderr.splitlines() if line.startswith("error:"))
    print(error)
    said = re.match(
        r"error: step 2: actor/\w+ is nan, .*on ranks? ([\d, ]+) of 2; no finite numbers in its ([\w, ]+); "
        r"the batch is in (\S+/not_finite/step_2.pt); its tasks were openspiel/",
        error,
    )
    assert said, error
    batch = read(Path(said[3]))
    columns = batch["columns"]
    broken = {row for row, scores in enumerate(columns["rm_scores"]) if not scores.isfinite().all()}
    assert len(broken) == 1
    # GRPO compares the two replies to a task, so both advantages are NaN.
    lost = {row for row, values in enumerate(columns["advantages"]) if not values.isfinite().all()}
    assert broken < lost
    assert len(lost) == 2
    assert {int(rank) for rank in said[1].split(", ")} == {batch["rank"][row] for row in lost}
    assert {"advantages", "returns", "rm_scores"} <= set(said[2].split(", "))
    assert all(math.isnan(value) for value in batch["metrics"].values())
    # The checkpoint of the previous step is complete, and its weights are finite.
    (saved,) = tmp_path.glob("global_step_*")
    assert saved.name == "global_step_1"
    assert (saved / "checkpoint.json").exists()
    for shard in saved.glob("actor/model_*.pt"):
        weights = torch.load(shard, weights_only=False)
        assert all(getattr(value, "_local_tensor", value).isfinite().all() for value in weights.values())


def test_fine_tuning_with_a_loss_that_is_no_number_ends_and_names_the_batch(tmp_path: Path) -> None:
    """The NaN loss comes from a NaN weight."""
    model = build_tiny_model(tmp_path / "model", seed=0)
    weights = load_file(model / "model.safetensors")
    next(iter(weights.values())).view(-1)[0] = torch.nan
    save_file(weights, model / "model.safetensors", {"format": "pt"})
    demonstrations = [*("--games", "tic_tac_toe", "--prompt", "brief"), *("--num_demonstrations", "200")]
    tool = [sys.executable, "train/tools/generate_demonstrations.py", *demonstrations, "--output", str(tmp_path)]
    subprocess.run(tool, cwd=ROOT, check=True)
    command = [
        *(sys.executable, "-m", "veritas_rl.launch.sft"),
        *(f"data.train_files={tmp_path}/train.parquet", "data.val_files=null"),
        f"trainer.default_local_dir={tmp_path}/checkpoints",
        "trainer.total_training_steps=4",
        "trainer.save_freq=-1",
        "veritas_rl.evaluation=null",
    ]
    environment = {**os.environ, "AGENT_MODEL_REPO_ID": str(model)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    (error,) = (line for line in done.stderr.splitlines() if line.startswith("error:"))
    print(error)
    said = re.match(r"error: the loss on rank 0 is (nan|inf); the batch is in (\S+/not_finite/rank_0.pt);", error)
    assert said, error
    batch = torch.load(said[2], weights_only=False)
    assert len(batch["input_ids"]) == len(batch["loss_mask"]) > 0


@pytest.mark.parametrize("jump", [-86400, 86400])
def test_a_clock_that_jumps_is_named_and_changes_nothing(jump: int, tmp_path: Path, jumping_clock: Path) -> None:
    folder, log = tmp_path / "checkpoints", tmp_path / "printed"
    command = [
        *LAUNCHER,
        *FEW,
        f"trainer.default_local_dir={folder}",
        "trainer.total_training_steps=4",
        "trainer.save_freq=2",
    ]
    file = tmp_path / "jumped"
    environment = {**os.environ, "LD_PRELOAD": str(jumping_clock), "CLOCK_FILE": str(file), "CLOCK_JUMP": str(jump)}
    with log.open("ab") as printed:
        run = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=printed, stderr=printed)
        wait_for(lambda: 2 in steps_of(folder), run, log)
        file.touch()
        assert run.wait() == 0, log.read_text()
    (line,) = (line for line in log.read_text().splitlines() if "has jumped by" in line)
    print(line)
    assert f"jumped by {jump:+d} s" in line or f"jumped by {jump + 1:+d} s" in line or f"{jump - 1:+d} s" in line
    assert steps_of(folder) == [1, 2, 3, 4]
    assert {path.parent.name for path in folder.glob("*/checkpoint.json")} == {"global_step_2", "global_step_4"}


@pytest.mark.parametrize(
    ("options", "place", "says"),
    [
        ("ro", "checkpoints", "is not writable (Read-only file system): set trainer.default_local_dir to"),
        ("size=64k", "checkpoints", "GiB free, and the checkpoints need 1.0 GiB: free some space, or"),
        ("ro", "train/outputs", "cannot be used (Read-only file system)"),
    ],
)
def test_a_place_that_cannot_be_written_is_named_in_one_line(
    options: str, place: str, says: str, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    mounted = folder if place == "checkpoints" else ROOT / place
    command = [*LAUNCHER, *FEW, f"trainer.default_local_dir={folder}/run"]
    script = f'mount -t tmpfs -o {options} tmpfs "$0" || exit 77; exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script, str(mounted), *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77 or "unshare:" in done.stderr:
        pytest.skip("no file system can be mounted here")
    assert done.returncode == 2, done.stdout + done.stderr
    (error,) = (line for line in done.stderr.splitlines() if line.startswith("error:"))
    print(error)
    assert error.startswith("error: ")
    assert says in error


def test_a_run_whose_shared_memory_is_full_trains_or_says_so(tmp_path: Path) -> None:
    command = [
        *LAUNCHER,
        *FEW,
        f"trainer.default_local_dir={tmp_path}",
        "trainer.total_training_steps=2",
        "trainer.save_freq=-1",
    ]
    script = 'mount -t tmpfs -o size=1m tmpfs /dev/shm || exit 77; head -c 2m /dev/zero > /dev/shm/left; exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script, "bash", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode == 77 or "unshare:" in done.stderr:
        pytest.skip("no file system can be mounted here")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    print(done.returncode, errors)
    if done.returncode:
        assert any("/dev/shm is full" in line for line in errors), done.stdout + done.stderr
    else:
        assert steps_of(tmp_path) == [1, 2]


def test_prompts_that_are_all_too_long_end_the_run_with_the_key_and_the_run_goes_on_with_a_larger_limit(
    tmp_path: Path,
) -> None:
    # The model has random weights, so that only a reward for any reply teaches it something.
    reward, folder = tmp_path / "reward.py", tmp_path / "run"
    reward.write_text("def compute_score(solution_str): return len(solution_str) / 100\n")
    command = [
        *LAUNCHER,
        *FEW,
        f"trainer.default_local_dir={folder}",
        "data.train_batch_size=32",
        "trainer.total_training_steps=6",
        "trainer.save_freq=2",
        "trainer.n_gpus_per_node=2",
        f"reward.custom_reward_function.path={reward}",
    ]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True, check=False)

    done = run("data.max_prompt_length=10")
    assert done.returncode == 2, done.stdout + done.stderr
    error = done.stderr.strip().splitlines()[-1]
    cause = (
        "100% of the prompts are longer than 10 tokens and were not asked (task/overlong): raise data.max_prompt_length"
    )
    assert error.startswith(f"error: no token was learned in the last 5 steps: {cause} (the log is ")
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("nothing is learned: "))
    assert line.startswith("nothing is learned: 100% of the replies have no learned token")
    assert line.endswith(cause)
    steps = [json.loads(line)["data"] for line in (logs(folder) / "metrics.jsonl").read_text().splitlines()]
    assert len(steps) == 4
    for step in steps:
        assert all(map(math.isfinite, step.values()))
        assert step["training/unlearned"] == step["task/overlong"] == 1
        assert min(step["actor/skipped_updates"], step["critic/skipped_updates"]) >= 16
        assert "actor/loss" not in step
    assert steps[-1]["actor/lr"] < steps[0]["actor/lr"]
    # Neither weights nor moments have moved.
    first, last = (
        torch.load(folder / f"global_step_{step}/actor/model_world_size_2_rank_0.pt", weights_only=False)
        for step in (2, 4)
    )
    assert all(one.to_local().equal(last[name].to_local()) for name, one in first.items())
    moments = folder / "global_step_4/actor/optim_world_size_2_rank_0.pt"
    assert not torch.load(moments, weights_only=False)["state"]
    done = run("data.max_prompt_length=128")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resuming from step 4 of 6" in done.stdout
    assert steps_of(folder) == [1, 2, 3, 4, 5, 6]
    trained = json.loads((logs(folder) / "metrics.jsonl").read_text().splitlines()[-1])["data"]
    assert trained["actor/skipped_updates"] == trained["training/unlearned"] == 0
    assert math.isfinite(trained["actor/loss"])
