"""The checks that import libraries and start processes: faults of rollout libraries, of a model and of the network."""

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from safetensors.torch import load_file, save_file

from veritas_rl.doctor import probing, thorough
from veritas_rl.doctor.asked import Asked
from veritas_rl.doctor.findings import Finding, collect
from veritas_rl.doctor.thorough import Examination
from veritas_rl.launch.known_faults import PINNED

ANYTHING = """def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)
    return type(name, (), {})
"""
"""The source of a module in which every name exists."""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Writes a module that child processes import instead of the real one."""
    site = tmp_path / "fakes"
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")

    def make(name: str, text: str) -> None:
        *parents, last = name.split(".")
        folder = site
        for parent in parents:
            folder = folder / parent
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / "__init__.py").exists():
                (folder / "__init__.py").write_text(ANYTHING)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{last}.py").write_text(text)

    return make


def examined(check: str, *overrides: str, model: Path | None = None, **environment: str) -> list[Finding]:
    examination = Examination(Asked(overrides, environment), str(model) if model else None)
    return list(collect([(name, run) for name, run in examination.checks() if name == check]))


TORCH = """from types import SimpleNamespace
__version__ = "2.11.0"
version = SimpleNamespace(cuda={cuda!r})
cuda = SimpleNamespace(is_available=lambda: False)
"""
"""The source of a torch that sees no GPU."""


@pytest.mark.parametrize(
    ("cuda", "hardware", "state", "words", "mend"),
    [
        (None, "cpu", "ok", "2.11.0, built for CPUs", ""),
        (None, "h200x1", "fault", "2.11.0, built for CPUs: it cannot use GPUs", "bash train/scripts/setup.sh"),
        ("13.0", "h200x1", "fault", "2.11.0, built for CUDA 13.0: it sees no GPU", "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_a_torch_that_cannot_use_the_gpus_is_found(
    cuda: str | None, hardware: str, state: str, words: str, mend: str, fake: Callable[[str, str], None]
) -> None:
    fake("torch", TORCH.format(cuda=cuda))
    (found,) = examined("torch", f"hardware={hardware}")
    assert (found.state, found.found, mend in found.mend) == (state, words, True)


def test_a_torch_that_cannot_be_imported_is_found(fake: Callable[[str, str], None]) -> None:
    reason = "libcudart.so.13: cannot open shared object file: No such file or directory"
    fake("torch", f"raise ImportError({reason!r})")
    (found,) = examined("torch", "hardware=h200x1")
    assert (found.state, found.found) == ("fault", f"ImportError: {reason}")
    assert found.mend == PINNED


def test_a_flash_attn_of_another_torch_is_found(fake: Callable[[str, str], None]) -> None:
    symbol = "/site/flash_attn_2_cuda.cpython-311.so: undefined symbol: _ZN3c104cuda9SetDeviceEi"
    fake("flash_attn", f"raise ImportError({symbol!r})")
    (found,) = examined("flash_attn", "hardware=cpu")
    assert found.state == "fault"
    assert symbol in found.found
    assert found.mend.startswith("run pip uninstall -y flash-attn")


def test_an_sglang_that_verl_does_not_fit_is_found(fake: Callable[[str, str], None]) -> None:
    for module in ("sglang.srt.entrypoints.engine", "sglang.srt.entrypoints.http_server", "sglang.srt.server_args"):
        fake(module, ANYTHING)
    missing = "ReleaseMemoryOccupationReqInput"
    fake("sglang.srt.managers.io_struct", ANYTHING.replace("('__')", f"('__') or name == {missing!r}"))
    (found,) = examined("rollout", "hardware=h200x1", "rollout=sglang")
    assert found.state == "fault"
    assert f"cannot import name '{missing}' from 'sglang.srt.managers.io_struct'" in found.found
    assert "ROLLOUT_BACKEND=sglang VENV=.venv-sglang" in found.mend


def test_a_vllm_that_cannot_be_imported_is_found(
    fake: Callable[[str, str], None], installed: Callable[[str, str], None]
) -> None:
    installed("vllm", "0.24.0")
    reason = "/site/vllm/_C.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEi"
    fake("vllm", f"raise ImportError({reason!r})")
    (found,) = examined("rollout", "hardware=h200x1", "rollout=vllm")
    assert (found.state, found.found) == ("fault", f"ImportError: {reason}")
    assert found.mend == PINNED


@pytest.mark.parametrize(("index", "state"), [(6, "ok"), (14, "fault")])
def test_a_patch_of_torch_that_does_not_fit_is_found(index: int, state: str, fake: Callable[[str, str], None]) -> None:
    fake("sglang.srt.patch_torch", f"_REDUCE_TENSOR_ARG_DEVICE_INDEX = {index}")
    (found,) = examined("SGLang's patch", "hardware=h200x1", "rollout=sglang")
    assert found.state == state
    if state == "fault":
        assert "index 14 of torch's arguments, but it is at 6" in found.found
        assert found.mend.startswith("set ROLLOUT_BACKEND=vllm")


def test_a_gpu_that_is_not_there_is_found() -> None:
    (found,) = examined("configuration", "hardware=h200x1", "rollout=vllm")
    assert (found.state, found.found) == ("fault", "the configuration needs 1 GPUs, and this machine has 0")
    assert found.mend == "use hardware=cpu"


def test_a_probe_that_does_not_end_is_a_fault(
    fake: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "PROBE_SECONDS", 1)
    fake("pyspiel", "import time; time.sleep(60)")
    (found,) = examined("OpenSpiel")
    assert (found.state, found.found) == ("fault", "the check did not end within 1 s")


def test_openspiel_that_is_not_there_is_found(fake: Callable[[str, str], None]) -> None:
    fake("pyspiel", "raise ModuleNotFoundError(\"No module named 'pyspiel'\")")
    (found,) = examined("OpenSpiel")
    assert (found.state, found.mend) == ("fault", "run bash train/scripts/setup.sh")


def test_a_plugin_that_is_not_there_is_found(
    installed: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A package of this name without entry points hides the real one. Probes search their own folder first, and the
    # root of an editable installation has the real package's entry points.
    installed("veritas_rl", "0.1.0")
    monkeypatch.setattr(probing, "ROOT", tmp_path)
    (found,) = examined("plugin")
    assert (found.state, found.mend) == ("fault", "bash train/scripts/setup.sh")
    assert "verl cannot find this package's plugin: run pip install -e ." in found.found


@pytest.mark.parametrize(
    ("reason", "mend"),
    [
        ("The current node timed out during startup", "run ray stop --force"),
        ("AF_UNIX path length cannot exceed 107 bytes", "set RAY_TMPDIR=/tmp"),
    ],
)
def test_a_ray_that_does_not_start_is_found(reason: str, mend: str, fake: Callable[[str, str], None]) -> None:
    fake("ray", f"def init(**settings):\n    raise RuntimeError({reason!r})\n")
    (found,) = examined("Ray", "hardware=cpu")
    assert (found.state, reason in found.found, found.mend.startswith(mend)) == ("fault", True, True)


def test_weights_with_other_names_are_found(tiny_model: Path, tmp_path: Path) -> None:
    (sound,) = examined("weight names", "hardware=cpu", model=tiny_model)
    assert sound.state == "ok"
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    save_file(
        {name.replace("model.layers", "block"): one for name, one in weights.items()}, folder / "model.safetensors"
    )
    (found,) = examined("weight names", "hardware=h200x1", model=folder)
    assert found.state == "fault"
    assert "vllm ends with \"There is no module or parameter named 'block' in Qwen3ForCausalLM\"" in found.found
    (found,) = examined("weight names", "hardware=cpu", "lora=off", "rollout=transformers", model=folder)
    assert "transformers would use random weights" in found.found


def test_a_class_that_the_rollout_does_not_know_is_found(tiny_model: Path) -> None:
    short = ["data.max_prompt_length=512", "data.max_response_length=512"]
    examination = Examination(Asked(["hardware=h200x1", *short], {}), str(tiny_model))
    examination._found["rollout"] = {"architectures": ["LlamaForCausalLM"]}
    (found,) = examination.read_model()
    assert (found.state, "vllm has no class Qwen3ForCausalLM" in found.found) == ("fault", True)


def test_a_gpu_that_others_use_is_found(gpus: Callable[..., None]) -> None:
    gpus(143_000, 20_000, total=143_771)
    (found,) = examined("free GPU memory", "hardware=h200x2")
    assert found.state == "fault"
    assert found.found.startswith("GPU 1 has 19.5 of 140.4 GiB free, and the rollout needs ")
    assert "nvidia-smi" in found.mend
    (other,) = examined("free GPU memory", "hardware=h200x1", CUDA_VISIBLE_DEVICES="0")
    assert other.state == "ok"
    (less,) = examined("free GPU memory", "hardware=h200x2", GPU_MEMORY_UTILIZATION="0.1")
    assert less.state == "ok"


def test_a_plan_that_does_not_fit_is_found() -> None:
    sound, large = (
        examined("memory", "hardware=rtx24g", f"actor_rollout_ref.model.path={model}")[0]
        for model in ("Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-72B-Instruct")
    )
    assert sound.state in ("ok", "warning")
    assert (large.state, bool(large.mend)) == ("fault", True)


def test_supervised_fine_tuning_is_planned_too() -> None:
    asked = Asked(["hardware=h200x1"], {}, sft=True)
    examination = Examination(asked, "Qwen/Qwen2.5-72B-Instruct")
    found = {one.check: one for one in collect([(name, run) for name, run in examination.checks() if name in SFT])}
    assert {name: found[name].state for name in SFT} == SFT
    assert found["configuration"].mend == "use hardware=cpu"


SFT = {
    "rollout": "ok",
    "Ray": "skipped",
    "configuration": "fault",
    "memory": "fault",
    "free GPU memory": "skipped",
}
"""The findings for supervised fine-tuning of a large model on a machine without a GPU."""


@pytest.fixture
def server() -> Iterator[Any]:
    """A server that answers each path with a status, headers and a body that a test chooses."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            status, headers, body = httpd.answers.get(self.path, (404, {}, "{}"))
            httpd.asked.append(dict(self.headers))
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body.encode())

        do_GET = do_POST = do_HEAD = answer

        def log_message(self, format: str, *args: Any) -> None:
            return

    httpd: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.answers, httpd.asked = {}, []
    httpd.url = f"http://127.0.0.1:{httpd.server_port}"
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield httpd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture
def hub(server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replace the hub by the server."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    # The library copied the constant when it was imported.
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", server.url)
    return server


MODEL = "some/model"
CHECKED = f"/api/models/{MODEL}/auth-check"


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        ((200, {}, "{}"), "ok", "may be downloaded; no token is set"),
        ((403, {"X-Error-Code": "GatedRepo"}, "{}"), "fault", "some/model is gated, and no token is set"),
        ((404, {"X-Error-Code": "RepoNotFound"}, "{}"), "fault", "the hub has no model some/model that you may read"),
        ((503, {}, "{}"), "fault", "does not answer"),
    ],
)
def test_an_answer_of_the_hub_becomes_a_row(
    answer: tuple[int, dict[str, str], str], state: str, words: str, hub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    hub.answers[CHECKED] = answer
    found = examined("Hugging Face", "hardware=cpu", f"actor_rollout_ref.model.path={MODEL}")[0]
    assert (found.state, words in found.found) == (state, True), found
    assert bool(found.mend) == (state == "fault")


def test_a_clock_that_is_not_the_hubs_is_found(hub: Any) -> None:
    hub.answers = {CHECKED: (200, {}, "{}"), "/": (200, {"Date": "Tue, 01 Jan 2030 00:00:00 GMT"}, "")}
    found = examined("Hugging Face", "hardware=cpu", f"actor_rollout_ref.model.path={MODEL}")[1]
    assert (found.check, found.state, "minutes behind that of" in found.found) == ("clock", "fault", True)


def test_no_network_is_named(hub: Any, monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{free_port}")
    found = examined("Hugging Face", "hardware=cpu", f"actor_rollout_ref.model.path={MODEL}")
    assert [one.state for one in found] == ["fault"]
    assert "HTTPS_PROXY" in found[0].mend


@pytest.mark.parametrize(
    ("viewer", "state"), [({"username": "somebody"}, "ok"), (None, "fault")], ids=["known", "unknown"]
)
def test_a_key_that_wandb_does_not_know_is_found(viewer: object, state: str, server: Any) -> None:
    server.answers["/graphql"] = (200, {}, json.dumps({"data": {"viewer": viewer}}))
    logs = "trainer.logger=[console,file,wandb]"
    set_up = {"WANDB_API_KEY": "secret-key", "WANDB_BASE_URL": server.url}
    (found,) = examined("Weights & Biases", "hardware=cpu", logs, **set_up)
    assert (found.state, "secret-key" in str(found)) == (state, False)
    assert httpx.BasicAuth("api", "secret-key")._auth_header == server.asked[-1]["Authorization"]


def test_layers_of_the_sandbox_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"limits", "processes", "user", "network", "pid", "root", "privileges", "seccomp", "landlock"}

    def without(*missing: str) -> Finding:
        monkeypatch.setattr(thorough, "layers", lambda: {name: (name not in missing, "") for name in held})
        (found,) = examined("sandbox")
        return found

    assert without("network", "user").state == "ok"
    assert without("network", "seccomp").found == "no layer of the sandbox keeps Trace's programs from the network"
    assert without("root", "landlock").state == "fault"


def test_engines_are_listed_with_how_they_are_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("veritas_rl.envs.openspiel.engines.process.GAMES_FOLDERS", ())
    program = tmp_path / "gnugo"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (found,) = examined("engines")
    there, _, missing = found.found.partition("; not installed: ")
    assert ("gtp:gnugo" in there, "uci:stockfish" in missing, "apt-get install stockfish" in found.mend) == (True,) * 3
