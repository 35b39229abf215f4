"""The checks of setup.sh before it downloads anything."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOLS = "awk bash cat cut df dirname grep head id mkdir mktemp printf rm sed sha256sum tail"


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


def setup(tools: Path, tmp_path: Path, maker: Path, *words: str, **variables: str) -> str:
    """Run setup.sh, which must fail; return the last line of standard error."""
    done = subprocess.run(
        ["bash", "train/scripts/setup.sh", *words],
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


def test_packages_for_gpus_may_be_wanted_where_there_is_none(machine: Path, tmp_path: Path) -> None:
    for name in ("nvidia-smi", "gcc"):
        (machine / name).unlink()
    assert "Triton needs a C compiler" in setup(machine, tmp_path, python(tmp_path / "python"), "gpu")


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


def test_a_folder_in_which_setuptools_fails_is_named_before_the_downloads(machine: Path, tmp_path: Path) -> None:
    said = setup(machine, tmp_path, python(tmp_path / "python"), VENV=f"{tmp_path}/a $b")
    assert said == (
        f"error: nothing can be installed in {tmp_path}/a $b because of the dollar sign: set VENV to another folder"
    )


def test_a_user_without_a_home_is_named(machine: Path, tmp_path: Path) -> None:
    program(machine / "getent", "exit 2")
    said = setup(machine, tmp_path, python(tmp_path / "python"), HOME="")
    assert re.fullmatch(r"error: the user \d+ has no home: set HOME to a folder that this user can write", said)


def test_a_checkout_that_cannot_be_written_is_named(machine: Path, clone: Path) -> None:
    (clone / "train/outputs").unlink(missing_ok=True)
    (clone / "train/outputs").touch()
    done = subprocess.run(
        ["bash", "train/scripts/setup.sh"],
        cwd=clone,
        env={"PATH": str(machine), "HOME": os.environ["HOME"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line == f"error: {clone}/train/outputs cannot be made: use a checkout that you can write"


def test_the_environment_of_another_system_is_left_alone(machine: Path, tmp_path: Path) -> None:
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/.system").write_text("ubuntu 24.04 in a container\n")
    said = setup(machine, tmp_path, python(tmp_path / "python"))
    assert re.search(rf"{tmp_path}/venv .*ubuntu 24\.04", said)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Another checkout, with what setup.sh reads."""
    made = tmp_path / "clone"
    for name in (
        "train/scripts/setup.sh",
        "train/scripts/dotenv.sh",
        "veritas_rl/__init__.py",
        "pyproject.toml",
        "train/verl",
    ):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, made / name)
    return made


@pytest.mark.parametrize("line", ["VENV={}", 'export VENV="{}"  # on a larger disk', "VENV = '{}'"])
def test_variables_of_dotenv_are_read_and_not_executed(machine: Path, clone: Path, tmp_path: Path, line: str) -> None:
    place = tmp_path / "large disk"
    place.mkdir()
    (machine / "nvidia-smi").unlink()
    program(machine / "df", "echo header; echo /dev/vda 100 50 2097152 50% /")
    maker = python(tmp_path / "python")
    lines = ["# VENV=/elsewhere", f"PYTHON={maker}", f"OTHER=$(touch {tmp_path}/executed)", line.format(place / "venv")]
    (clone / ".env").write_text("\n".join(lines))
    environment = {"PATH": str(machine), "HOME": os.environ["HOME"]}
    for more, named in (({}, place), ({"VENV": f"{tmp_path}/venv"}, tmp_path)):
        done = subprocess.run(
            ["bash", "train/scripts/setup.sh"],
            cwd=clone,
            env=environment | more,
            capture_output=True,
            text=True,
            check=False,
        )
        assert f"error: {named} has 2 GiB free" in done.stderr, done.stderr
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("active", [True, False])
def test_the_environment_of_another_checkout_is_refused(
    machine: Path, tmp_path: Path, clone: Path, active: bool
) -> None:
    folder = machine if active else tmp_path / "venv/bin"
    folder.mkdir(exist_ok=True, parents=True)
    program(folder / ("python3" if active else "python"), f'PYTHONPATH={clone} exec {sys.executable} "$@"')
    said = setup(machine, tmp_path, python(tmp_path / "python"), VENV="" if active else f"{tmp_path}/venv")
    own = f"{ROOT}/.venv"
    expected = f"runs the code of the checkout {clone}, and this is {ROOT}: set VENV={own}"
    assert re.fullmatch(rf"error: the environment \S+ {re.escape(expected)}(-own)?", said)


def test_an_environment_that_has_it_all_needs_no_network_until_versions_change(machine: Path, clone: Path) -> None:
    (machine / "nvidia-smi").unlink()
    program(machine / "python3", f'PYTHONPATH={clone} exec {sys.executable} "$@"')
    variables = {"PATH": str(machine), "HOME": os.environ["HOME"], "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    command = ["bash", "train/scripts/setup.sh"]
    installs = "installing what is missing into the active environment, which has verl 0.9.1\n"
    for said, changed in ((installs, "gpu"), ("", "cpu"), (installs, "cpu")):
        done = subprocess.run(command, cwd=clone, env=variables, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{machine}/python3\n", said)
        with (clone / f"train/verl/versions/{changed}.txt").open("a") as versions:
            versions.write("\n")


def test_sglang_is_not_put_beside_vllm(machine: Path, tmp_path: Path) -> None:
    packages = tmp_path / "packages/vllm-0.24.0.dist-info"
    packages.mkdir(parents=True)
    (packages / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.24.0\n")
    (tmp_path / "venv/bin").mkdir(parents=True)
    program(tmp_path / "venv/bin/python", f'PYTHONPATH={packages.parent} exec {sys.executable} "$@"')
    said = setup(machine, tmp_path, python(tmp_path / "python"), ROLLOUT_BACKEND="sglang")
    assert re.search(rf"{tmp_path}/venv .*vLLM.*SGLang.*VENV", said)


def test_vllm_for_cpus_gets_an_environment_of_its_own(machine: Path, tmp_path: Path) -> None:
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to(sys.executable)
    (tmp_path / "venv/.installed").touch()
    said = setup(machine, tmp_path, python(tmp_path / "python"), "vllm-cpu")
    assert said == (
        f"error: {tmp_path}/venv is an environment without vLLM for CPUs: set VENV to another folder, such as "
        f"VENV={tmp_path}/venv-vllm-cpu"
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_installation_too(machine: Path, clone: Path, number: int, code: int) -> None:
    (machine / "nvidia-smi").unlink()
    began = clone / "began"
    pip = f'if [ "$2" = pip ]; then echo $$ >{began}; exec {shutil.which("sleep")} 600; fi'
    program(machine / "python3", f'{pip}\nPYTHONPATH={clone} exec {sys.executable} "$@"')
    (clone / "train/artifacts/.installed").unlink(missing_ok=True)
    started = subprocess.Popen(
        ["bash", "train/scripts/setup.sh"],
        cwd=clone,
        env={"PATH": str(machine), "HOME": os.environ["HOME"]},
        stderr=subprocess.PIPE,
        text=True,
        # A shell without job control lets what it starts in the background ignore this signal, these tests among them.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not (began.exists() and began.read_text().strip()):
        assert started.poll() is None
        time.sleep(0.05)
    installer = psutil.Process(int(began.read_text()))
    started.send_signal(number)
    assert started.stderr
    assert started.stderr.read().endswith("\ninterrupted: run the same command again to continue\n")
    assert started.wait() == code
    gone, _ = psutil.wait_procs([installer], timeout=10)
    assert gone
