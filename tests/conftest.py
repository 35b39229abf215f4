"""Fixtures and options for all tests."""

import gc
import hashlib
import importlib.util
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.launch.variables import VARIABLES

# Neither the .env of this checkout nor what a person has set for runs of their own changes a test.
os.environ["PYTHON_DOTENV_DISABLED"] = "1"
for variable in VARIABLES:
    if variable.name != "VENV":
        os.environ.pop(variable.name, None)
# Else each of a thousand processes would compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
if Path(sys.prefix, ".installed").is_file():  # which setup.sh leaves in an environment that it has made
    os.environ.setdefault("VENV", sys.prefix)
# With one thread, small models on shared cores are fastest, and their test times vary least.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["WANDB_MODE"] = "offline"
os.environ["VERL_PLATFORM"] = "cpu"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of this project's tests."""
    parser.addoption(
        "--fuzzed-replies",
        type=int,
        default=100_000,
        help="hostile replies that each environment reads, 3000000 before a release",
    )


def pytest_collection_finish() -> None:
    """Leave what the tests import out of garbage collections, each of which would look at all of torch and verl."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


@pytest.fixture
def own_environments(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin without environments of a command line, and forget those of the test, in mine.py, quiz.py or riddles.py."""
    from veritas_rl.envs import places
    from veritas_rl.envs.registry import get_environment

    monkeypatch.setenv(places.VARIABLE, "")
    yield
    for name in ("mine", "quiz", "riddles"):
        sys.modules.pop(name, None)
    places.module_of_file.cache_clear()
    get_environment.cache_clear()


@pytest.fixture(autouse=True)
def platform_of_gpu_tests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes that a test marked `gpu` starts detect their platform, as in normal use."""
    if request.node.get_closest_marker("gpu"):
        monkeypatch.delenv("VERL_PLATFORM", raising=False)


@pytest.fixture
def installed() -> Callable[[str], Any]:
    """Reads the name of an engine; skips the test if the engine is not installed."""

    from veritas_rl.envs.openspiel.engines import check_installed, parse
    from veritas_rl.errors import UserError

    def read(name: str) -> Any:
        spec = parse(name)
        try:
            check_installed(spec)
        except UserError as error:
            pytest.skip(str(error))
        return spec

    return read


@pytest.fixture
def free_port() -> int:
    """A free TCP port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def jumping_clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that makes the clock of a process jump, see `tests/jumping_clock.c`."""
    compiler = shutil.which("gcc")
    if compiler is None or platform.machine() != "x86_64":
        pytest.skip("the clock of a process is set by a library that is compiled, for x86-64")
    library = tmp_path_factory.mktemp("clock") / "jumping_clock.so"
    source = Path(__file__).with_name("jumping_clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small model with random weights. Tests share it: copy it before changing it."""
    from veritas_rl.launch.tiny_model import build_tiny_model

    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny", seed=0)


@pytest.fixture(scope="session")
def small_parameters(tiny_model: Path) -> int:
    """The number of parameters of the small model."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(tiny_model).num_parameters()


@pytest.fixture(scope="session")
def save_checkpoint() -> Callable[[Path, Path, int, float], Path]:
    """Writes a complete checkpoint of one rank, as a trainer does: the base model with its head scaled."""

    import torch
    from transformers import AutoModelForCausalLM

    from veritas_rl.checkpoints.layout import CheckpointInfo, write_info

    def save(run: Path, base: Path, number: int, scale: float) -> Path:
        model: Any = AutoModelForCausalLM.from_pretrained(base)
        with torch.no_grad():
            model.lm_head.weight.mul_(scale)
        folder = run / f"global_step_{number}"
        (folder / "actor").mkdir(parents=True)
        torch.save(model.state_dict(), folder / "actor/model_world_size_1_rank_0.pt")
        own = shutil.copytree(base, folder / "actor/huggingface")
        (own / "model.safetensors").unlink()
        write_info(folder, CheckpointInfo(number, str(base), 1))
        return folder

    return save


def _beside(name: str) -> Any:
    """The module of a file in this folder."""
    spec: Any = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model() -> Iterator[Callable[..., Any]]:
    """Starts servers whose replies a function makes, see `tests/scripted_model.py`."""
    module, models = _beside("scripted_model"), list[Any]()

    def start(say: Callable[[dict[str, Any], Any], str | None]) -> Any:
        models.append(module.Model(say))
        return models[-1]

    yield start
    for one in models:
        one.stop()


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[..., Any]]:
    """Starts servers of environments, see `tests/environment_server.py`."""
    module, servers = _beside("environment_server"), list[Any]()

    def start(*args: Any, **more: Any) -> Any:
        servers.append(module.Server(*args, **more))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def chat_server(tiny_model: Path) -> Iterator[Callable[..., Any]]:
    """Starts OpenAI-compatible servers of the small model, see `tests/chat_server.py`."""
    module, servers = _beside("chat_server"), list[Any]()

    def start(**settings: Any) -> Any:
        servers.append(module.ChatServer(tiny_model, **settings))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need a GPU on a machine without one."""
    import torch

    if torch.cuda.is_available():
        return
    for item in items:
        # By marker, because the keywords of an item also contain the names of its folders.
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(scope="session")
def client_python(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Gives the Python of an environment with another project's client; the environment is made once and cached."""
    clients = (pytestconfig.rootpath / "integrations/clients.txt").read_text().splitlines()
    pins = {line.partition("==")[0]: line for line in clients if "==" in line}

    def make(*requirements: str, install: Path | None = None) -> Path:
        """The Python, with `requirements` and optionally `install`, a project of this repository, installed.

        integrations/clients.txt has the versions of requirements without one.
        """
        python = _base(*(pins.get(requirement, requirement) for requirement in requirements))
        if install is not None:
            copy = tmp_path_factory.mktemp("project") / install.name
            shutil.copytree(install, copy)
            command = [
                sys.executable,
                "-m",
                "uv",
                "pip",
                "install",
                "-q",
                "--no-deps",
                "--python",
                str(python),
                str(copy),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
            if done.returncode:
                pytest.skip(f"{install} cannot be installed here: {' '.join(done.stderr.split())[-300:]}")
        return python

    def _base(*requirements: str) -> Path:
        digest = hashlib.sha256(" ".join(requirements).encode()).hexdigest()[:12]
        name = f"{requirements[0].partition('=')[0]}-{digest}"
        folder = Path(pytestconfig.cache.mkdir("clients")) / name
        python, whole = folder / "bin/python", folder / "whole"
        if whole.exists():
            return python
        shutil.rmtree(folder, ignore_errors=True)
        uv = [sys.executable, "-m", "uv"]
        # A machine without a network may have torch for CPUs in a folder named by PIP_FIND_LINKS.
        links = os.environ.get("PIP_FIND_LINKS")
        small = ["--find-links", links] if links else ["--torch-backend", "cpu"]
        for command in (
            [*uv, "venv", "-q", "--python", sys.executable, str(folder)],
            [*uv, "pip", "install", "-q", "--python", str(python), *small, *requirements],
        ):
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
            except subprocess.TimeoutExpired:
                pytest.skip(f"{name} was not installed within 10 minutes")
            if done.returncode:
                pytest.skip(f"{name} cannot be installed here: {' '.join(done.stderr.split())[-300:]}")
        whole.touch()
        return python

    return make
