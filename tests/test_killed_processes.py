"""If any process of a run dies, the run ends soon and names the process, and the same command resumes the run."""

import json
import random
import subprocess
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.training

STEPS = 30
MOMENTS = 5
"""How often a process of a kind is killed, each time in the resumed run."""
LATEST = 3.0
"""Seconds after a step in which a process is killed: two or three steps."""
WITHIN = 60.0
"""The most seconds from the death of a process to the end of the run."""

ACTORS = (
    "ray::SimpleStorageUnit",
    "ray::TransferQueueController",
    "ray::TaskLoopWorker",
    "ray::GenerationServer",
    "ray::WorkerDict",
    "ray::TaskRunnerV1",
)
"""The titles of the actors' processes; each ends with the name of the actor's class."""
OPPONENT = "ray::OpponentServer"
WHOLE_GAMES = (
    *("play=episode", "data.custom_cls.config.adapter_config.opponent=mcts:20"),
    "data.custom_cls.config.curriculum=null",
)
"""The settings of a run with an opponent in a process of its own. Single moves have none, and neither has the first
stage of the curriculum, which plays against random."""
DAEMONS = ("raylet", "gcs_server")


def command(folder: Path, name: str) -> list[str]:
    """A training whose process with this name is killed."""
    return [
        *("bash", "train/scripts/openspiel-ppo-trainer.sh", f"trainer.default_local_dir={folder}"),
        *(f"trainer.total_training_steps={STEPS}", "trainer.save_freq=1", "veritas_rl.warm_up.steps=150"),
        *("veritas_rl.evaluation=null", "data.train_batch_size=16", "veritas_rl.critic_warmup=0"),
        *(WHOLE_GAMES if name == OPPONENT else ()),
    ]


def steps_of(folder: Path) -> list[int]:
    """The steps with written metrics."""
    if not (folder / "run.json").exists():
        return []
    file = Path(json.loads((folder / "run.json").read_text())["folder"]) / "metrics.jsonl"
    return [json.loads(line)["step"] for line in file.read_text().splitlines()] if file.exists() else []


def processes(launcher: int, name: str) -> list[psutil.Process]:
    """The processes of a run with a given name or title."""
    found = []
    for child in psutil.Process(launcher).children(recursive=True):
        try:
            words = [child.name(), *child.cmdline()[:1]]
        except psutil.NoSuchProcess:
            continue
        if any(word.split("/")[-1].startswith(name) for word in words):
            found.append(child)
    return found


def killed(folder: Path, name: str, delay: float) -> str:
    """Start or resume a run, and kill a process `delay` seconds after its next step; return the output of the run."""
    log = folder.parent / "printed.txt"
    before = max(steps_of(folder), default=0)
    with log.open("w") as printed:
        started = subprocess.Popen(command(folder, name), cwd=ROOT, stdout=printed, stderr=printed)
        try:
            while max(steps_of(folder), default=0) <= before:
                assert started.poll() is None, log.read_text()
                time.sleep(0.1)
            time.sleep(delay)
            victim = random.Random(name).choice(processes(started.pid, name))
            family = psutil.Process(started.pid).children(recursive=True)
            victim.kill()
            assert started.wait(WITHIN) == 2, log.read_text()
        finally:
            if started.poll() is None:
                started.kill()
    assert not psutil.wait_procs(family, 30)[1], "the run left processes"
    return log.read_text()


@pytest.mark.parametrize(
    ("name", "moments"),
    [
        ("ray::SimpleStorageUnit", 1),
        *(pytest.param(name, MOMENTS, marks=pytest.mark.long) for name in (*ACTORS, OPPONENT, *DAEMONS)),
    ],
)
def test_the_death_of_a_process_is_named_and_the_same_command_resumes(name: str, moments: int, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    dice = random.Random(f"{name} {moments}")
    for _ in range(moments):
        printed = killed(folder, name, dice.uniform(0, LATEST))
        assert name.removeprefix("ray::") in printed.splitlines()[-1] + printed.splitlines()[-2], printed
    done = subprocess.run(command(folder, name), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = steps_of(folder)
    assert steps == sorted(set(steps))
    assert steps[-1] == STEPS
    # A step has no metrics if the process died after the checkpoint was saved and before the metrics were written.
    assert STEPS - len(steps) <= moments
