"""The checks of setup.sh before it downloads anything."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOLS = "awk bash cat cut df dirname grep head mkdir mktemp printf rm sed sha256sum"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder for PATH with the tools of a machine with a GPU, a compiler and a recent driver."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in TOOLS.split():
        found = next(Path(folder) / name for folder in ("/usr/bin", "/bin") if (Path(folder) / name).exists())
        (tools / name).symlink_to(found)
    program(tools / "gcc", "exit 0")
    driver(tools, "580.65.06")
    return tools


def program(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)  # a link to the real program, which must stay as it is
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def driver(tools: Path, version: str) -> None:
    program(tools / "nvidia-smi", f"echo {version}")


def python(path: Path, include: str = "") -> Path:
    """A fake interpreter that cannot make an environment, so nothing is downloaded; its headers are in `include`."""
    fake = f'case "$2" in *get_path*) echo {include}; exit ;; esac\n' if include else ""
    program(path, f'[ "$1" = -m ] && exit 1\n{fake}exec {sys.executable} "$@"')
    return path


def setup(tools: Path, tmp_path: Path, maker: Path, **variables: str) -> str:
    """Run setup.sh, which must fail; return the last line of standard error."""
    done = subprocess.run(
        ["bash", "train/scripts/setup.sh"],
        cwd=ROOT,
        env={
            "PATH": str(tools),
            "HOME": os.environ["HOME"],
            "VENV": f"{tmp_path}/venv",
            "PYTHON": str(maker),
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    return done.stderr.splitlines()[-1]


def test_a_machine_that_has_it_all_goes_on(machine: Path, tmp_path: Path) -> None:
    (tmp_path / "Python.h").touch()
    assert "could not create a virtual environment" in setup(
        machine, tmp_path, python(tmp_path / "python", str(tmp_path))
    )


def test_an_old_driver_is_named(machine: Path, tmp_path: Path) -> None:
    driver(machine, "550.54.15")
    said = setup(machine, tmp_path, python(tmp_path / "python"))
    assert said == (
        "error: the NVIDIA driver is 550.54.15, but CUDA 13 needs 580 or newer: update the driver of this machine"
    )


def test_a_driver_that_does_not_answer_is_named(machine: Path, tmp_path: Path) -> None:
    program(machine / "nvidia-smi", f"trap '' TERM INT\nexec {sys.executable} -c 'import time; time.sleep(30)'")
    said = setup(machine, tmp_path, python(tmp_path / "python"), NVIDIA_SMI_SECONDS="1")
    assert said == "error: nvidia-smi did not answer within 1 s: restart this machine"


def test_a_driver_that_fails_is_no_gpu(machine: Path, tmp_path: Path) -> None:
    program(machine / "nvidia-smi", "echo NVIDIA-SMI has failed; exit 9")
    (machine / "gcc").unlink()  # which only GPUs need
    assert "could not create a virtual environment" in setup(machine, tmp_path, python(tmp_path / "python"))


def test_a_missing_compiler_is_named(machine: Path, tmp_path: Path) -> None:
    (machine / "gcc").unlink()
    assert "Triton needs a C compiler" in setup(machine, tmp_path, python(tmp_path / "python"))


def test_missing_headers_are_named(machine: Path, tmp_path: Path) -> None:
    said = setup(machine, tmp_path, python(tmp_path / "python", f"{tmp_path}/include"))
    assert f"Triton needs {tmp_path}/include/Python.h, which is missing: run apt-get install python3-dev" in said


@pytest.mark.parametrize(("gpu", "needed"), [(True, 20), (False, 3)])
def test_a_full_disk_is_named(machine: Path, tmp_path: Path, gpu: bool, needed: int) -> None:
    (tmp_path / "Python.h").touch()
    program(machine / "df", "echo header; echo /dev/vda 100 50 2097152 50% /")
    if not gpu:
        (machine / "nvidia-smi").unlink()
    said = setup(machine, tmp_path, python(tmp_path / "python", str(tmp_path)))
    assert said == (
        f"error: {tmp_path} has 2 GiB free, and {needed} GiB are needed: free some space, or set VENV to a folder on a "
        "larger disk"
    )


def test_the_environment_of_another_system_is_left_alone(machine: Path, tmp_path: Path) -> None:
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/.system").write_text("ubuntu 24.04 in a container\n")
    said = setup(machine, tmp_path, python(tmp_path / "python"))
    assert re.search(rf"{tmp_path}/venv .*ubuntu 24\.04", said)


def test_sglang_is_not_put_beside_vllm(machine: Path, tmp_path: Path) -> None:
    packages = tmp_path / "packages/vllm-0.24.0.dist-info"
    packages.mkdir(parents=True)
    (packages / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.24.0\n")
    (tmp_path / "venv/bin").mkdir(parents=True)
    program(tmp_path / "venv/bin/python", f'PYTHONPATH={packages.parent} exec {sys.executable} "$@"')
    said = setup(machine, tmp_path, python(tmp_path / "python"), ROLLOUT_BACKEND="sglang")
    assert re.search(rf"{tmp_path}/venv .*vLLM.*SGLang.*VENV", said)
