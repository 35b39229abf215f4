"""A run continues without the server of Weights & Biases, and its logs are synced later."""

import io
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from rich.console import Console

from veritas_rl.launch import rl
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.wandb_sync import check_server, sync_command
from veritas_rl.paths import ROOT

CPU = Hardware(cores=2, gpus=0, gpu_bytes=0)
SERVER = Path(__file__).resolve().parents[1] / "wandb_server.py"

LOGGING = """
import wandb
wandb.init(project="p", name="n", config={})
for step in (1, 2):
    wandb.log({"reward": step / 4}, step=step)
wandb.finish()
"""


@contextmanager
def serving(port: int, log: Path) -> Iterator[None]:
    """A server that writes its requests into a file."""
    process = subprocess.Popen([sys.executable, str(SERVER), str(port), str(log)])
    try:
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def server(free_port: int, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of a server, and the file with its requests."""
    log = tmp_path / "requests.txt"
    with serving(free_port, log):
        yield f"http://127.0.0.1:{free_port}", log


def sync(words: Sequence[str], address: str) -> None:
    """Run `wandb sync` against a server."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("wandb")), *words],
        env={**os.environ, "WANDB_BASE_URL": address, "WANDB_MODE": "online"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def planned(folder: Path) -> rl.RlRun:
    logger = "trainer.logger=[console,file,wandb]"
    return rl.plan([logger, f"trainer.default_local_dir={folder}/checkpoints"], {}, CPU, datetime.now())


def checked(run: rl.RlRun) -> str:
    text = io.StringIO()
    check_server(run, Console(file=text, width=300))
    return text.getvalue()


def test_without_a_server_a_run_logs_offline_and_what_it_logged_is_synced_later(
    tmp_path: Path, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, log = server
    for name, value in {
        "WANDB_BASE_URL": "http://127.0.0.1:9",
        "WANDB_DIR": str(tmp_path),
        "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WANDB_MODE", "online")
    run = planned(tmp_path)
    said = checked(run)
    assert said.startswith("Weights & Biases does not answer at http://127.0.0.1:9 (")
    assert "the run logs offline" in said
    assert os.environ["WANDB_MODE"] == "offline"
    assert sync_command(run) is None  # nothing was logged yet
    subprocess.run([sys.executable, "-c", LOGGING], env={**os.environ, **run.environment()}, check=True)
    command = sync_command(run)
    assert command is not None
    words = shlex.split(command)
    assert words[:2] == ["wandb", "sync"]
    # The server is available again, and the user runs the command.
    sync(words[1:], address)
    sent = log.read_text()
    assert f"/{run.record.wandb_run_id}/file_stream" in sent
    assert '\\"reward\\":0.5' in sent
    assert sync_command(run) is None


def test_a_server_that_answers_is_logged_to_and_one_that_nobody_asked_for_is_not_looked_for(
    tmp_path: Path, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(tmp_path)
    monkeypatch.setenv("WANDB_BASE_URL", server[0])
    monkeypatch.delenv("WANDB_MODE")
    assert checked(run) == ""
    assert "WANDB_MODE" not in os.environ
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert checked(run) == ""
    monkeypatch.delenv("WANDB_MODE")
    alone = rl.plan([f"trainer.default_local_dir={tmp_path}/other"], {}, CPU, datetime.now())
    assert checked(alone) == ""


@pytest.mark.training
@pytest.mark.long
def test_a_run_whose_server_is_lost_continues_and_is_synced_later(
    tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, logs = f"http://127.0.0.1:{free_port}", tmp_path / "wandb"
    first, second = tmp_path / "before.txt", tmp_path / "after.txt"
    variables = {
        "WANDB_MODE": "online",
        "WANDB_BASE_URL": address,
        "WANDB_DIR": str(tmp_path),
        "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567",
        "WANDB_FINISH_TIMEOUT": "5",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    command = [
        *("bash", "train/scripts/openspiel-ppo-trainer.sh", f"trainer.default_local_dir={tmp_path}/checkpoints"),
        *("trainer.logger=[console,file,wandb]", "trainer.total_training_steps=6", "veritas_rl.warm_up.steps=60"),
        *("veritas_rl.evaluation=null", "data.train_batch_size=16", "veritas_rl.critic_warmup=0"),
    ]
    printed = tmp_path / "printed.txt"
    with printed.open("w") as output:
        with serving(free_port, first):
            run = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
            while not (first.exists() and "/file_stream" in first.read_text()):
                assert run.poll() is None, printed.read_text()
                time.sleep(0.1)
        assert run.poll() is None, "the run ended before its server was lost"
        assert run.wait(300) == 0, printed.read_text()
    assert '\\"training/global_step\\":6' not in first.read_text()
    commands = [line.partition(": ")[2] for line in printed.read_text().splitlines() if ": wandb sync" in line]
    (folder,) = logs.glob("run-*")
    assert commands == [f"wandb sync --include-online {folder}"]
    with serving(free_port, second):
        sync(shlex.split(commands[0])[1:], address)
    assert '\\"training/global_step\\":6' in second.read_text()
