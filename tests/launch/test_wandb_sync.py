"""A run goes on without the server of Weights & Biases, and what it logged is sent there later."""

import io
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from rich.console import Console

from veritas_rl.launch import rl
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.wandb_sync import check_server, sync_command

CPU = Hardware(cores=2, gpus=0, gpu_bytes=0)
SERVER = Path(__file__).resolve().parents[1] / "wandb_server.py"

LOGGING = """
import wandb
wandb.init(project="p", name="n", config={})
for step in (1, 2):
    wandb.log({"reward": step / 4}, step=step)
wandb.finish()
"""


@pytest.fixture
def server(free_port: int, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of a server, and the file with what it was sent."""
    log = tmp_path / "requests.txt"
    process = subprocess.Popen([sys.executable, str(SERVER), str(free_port), str(log)])
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", free_port)) == 0:
                break
        time.sleep(0.05)
    yield f"http://127.0.0.1:{free_port}", log
    process.kill()
    process.wait()


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
    # The server is back, and the command is typed.
    done = subprocess.run(
        [str(Path(sys.executable).with_name(words[0])), *words[1:]],
        env={**os.environ, "WANDB_BASE_URL": address, "WANDB_MODE": "online"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
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
