"""`train/tools/doctor.py` as users and trainer scripts call it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
JOINS = "ray_kwargs.ray_init.address=auto"


def doctor(*typed: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "train/tools/doctor.py", *typed],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_fast_part_is_silent_and_takes_less_than_two_seconds() -> None:
    began = os.times()
    done = doctor("--fast", "--", "episode", "+data.some.key=1", "--cfg=job")
    ended = os.times()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # CPU time, because other programs may run beside the tests. The next test is about what the tool waits for.
    assert ended.children_user + ended.children_system - began.children_user - began.children_system < 2


def test_the_fast_part_does_not_wait_for_an_nvidia_smi_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    began = time.monotonic()
    done = doctor("--fast", PATH=f"{tmp_path}:{os.environ['PATH']}")
    # 2 s on an idle machine. Without --fast, nvidia-smi may take 10 s.
    assert time.monotonic() - began < 8
    assert "warning: driver: nvidia-smi did not answer within 1 s: run nvidia-smi: if it is slow," in done.stderr


@pytest.mark.parametrize("script", ["openspiel-ppo-trainer.sh", "openspiel-SFT-trainer.sh"])
def test_a_trainer_script_ends_with_one_line_for_each_fault(script: str, free_port: int) -> None:
    done = subprocess.run(
        ["bash", f"train/scripts/{script}", "trainer.default_local_dir=/proc/checkpoints", JOINS],
        cwd=ROOT,
        env={**os.environ, "RAY_ADDRESS": f"127.0.0.1:{free_port}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert lines[0].startswith("error: disk: /proc is not writable (")
    # Supervised fine-tuning does not use Ray.
    assert len(lines) == 2 - ("SFT" in script)
    assert lines[1:] in (
        [],
        [
            f"error: Ray's address: the run names 127.0.0.1:{free_port}, where nothing answers (Connection refused): "
            "set RAY_ADDRESS to a running head"
        ],
    )


@pytest.mark.parametrize("off", [{"DOCTOR": "0"}, {"DRY_RUN": "1"}], ids=["off", "dry"])
def test_doctor_0_and_a_dry_run_skip_the_checks(off: dict[str, str], free_port: int) -> None:
    assert doctor("--fast", JOINS, RAY_ADDRESS=f"127.0.0.1:{free_port}", **off).returncode == 0


def test_a_log_is_searched(tmp_path: Path) -> None:
    log = tmp_path / "verl.log"
    log.write_text("ValueError: There is no module or parameter named 'block' in Qwen3ForCausalLM\n")
    done = doctor("--log", str(log), "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["faults"], found["warnings"]) == (1, 1, 0)
    assert found["findings"][0]["check"] == "weight names"
    assert found["findings"][0]["mend"].startswith("set rollout=transformers")
    missing = doctor("--log", str(tmp_path / "none"))
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)


def test_a_python_without_the_package_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-I", ROOT / "train/tools/doctor.py"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "bash train/scripts/setup.sh" in done.stderr


@pytest.mark.long
def test_this_machine_has_no_fault() -> None:
    done = doctor("--json", "--hardware", "cpu", "trainer.logger=[console,file,wandb]", WANDB_MODE="offline")
    found = json.loads(done.stdout)
    assert (done.returncode, found["faults"]) == (0, 0), found
    states = {one["check"]: one["state"] for one in found["findings"]}
    assert {states[name] for name in ("Python", "packages", "torch", "plugin", "OpenSpiel", "Ray")} == {"ok"}
    table = doctor("--hardware", "h200x8", "--model", "Qwen/Qwen3-4B-Instruct-2507")
    assert table.returncode == 1
    assert "nvidia-smi lists no GPU" in table.stdout
