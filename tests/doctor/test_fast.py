"""The fast checks: each fault is provoked, and found with its fix."""

import re
import resource
import socket
import sys
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from veritas_rl.doctor import fast
from veritas_rl.doctor.asked import Asked
from veritas_rl.doctor.findings import Finding, collect
from veritas_rl.paths import ROOT

Usage = namedtuple("Usage", "total used free")
CPU = Asked(["hardware=cpu"], {})


def one(check: str, asked: Asked = CPU) -> Finding:
    """The finding of a check that has exactly one."""
    (found,) = many(check, asked)
    return found


def many(check: str, asked: Asked = CPU) -> list[Finding]:
    return list(collect([(name, run) for name, run in fast.checks(asked) if name == check]))


def test_this_machine_has_no_fault() -> None:
    assert [found for found in collect(fast.checks(CPU)) if found.state == "fault"] == []


def test_another_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    found = one("Python")
    assert (found.state, "3.10.4 is not supported" in found.found) == ("fault", True)
    assert "setup.sh" in found.mend


@pytest.mark.parametrize(
    ("name", "version", "state"), [("ray", "2.9.0", "fault"), ("ray", "2.60.7", "warning"), ("verl", "0.9.2", "fault")]
)
def test_another_version_than_the_pinned_one_is_named(
    name: str, version: str, state: str, installed: Callable[[str, str], None]
) -> None:
    installed(name, version)
    found = next(found for found in many("packages") if found.check == name)
    assert found.state == state
    assert found.found.startswith(f"{version} is installed, ")
    assert found.mend.startswith(f"pip install '{name}==")


def test_transformers_that_verl_excludes_is_a_fault(installed: Callable[[str, str], None]) -> None:
    installed("transformers", "4.56.1")
    found = [found for found in many("packages") if found.check == "transformers"]
    assert [one.state for one in found] == ["warning", "fault"]
    assert "verl requires" in found[-1].found


@pytest.mark.parametrize("backend", ["vllm", "sglang"])
def test_the_rollout_is_compared_with_the_pin(backend: str, installed: Callable[[str, str], None]) -> None:
    asked = Asked(["hardware=h200x1"], {"ROLLOUT_BACKEND": backend})
    missing = next(found for found in many("packages", asked) if found.check == backend)
    assert (missing.state, "not installed" in missing.found) == ("fault", True)
    installed(backend, "0.4.1")
    old = next(found for found in many("packages", asked) if found.check == backend)
    assert (old.state, old.found.startswith("0.4.1 is installed, 0.")) == ("fault", True)
    assert old.mend.endswith("bash train/scripts/setup.sh")
    assert {"vllm", "sglang"} & {found.check for found in many("packages", asked)} == {backend}


def test_supervised_fine_tuning_needs_no_rollout() -> None:
    asked = Asked(["hardware=h200x1"], {"ROLLOUT_BACKEND": "vllm"}, sft=True)
    assert {"vllm", "sglang"} & {found.check for found in many("packages", asked)} == set()


def test_a_plugin_that_is_not_there_is_named(installed: Callable[[str, str], None]) -> None:
    # A package of this name without entry points hides the real one.
    installed("veritas_rl", "0.1.0")
    found = next(found for found in many("packages") if found.check == "plugin")
    assert (found.state, found.mend) == ("fault", "pip install -e . in its root")


def test_an_old_driver_and_no_driver_are_named(gpus: Callable[..., None]) -> None:
    on_gpu = Asked(["hardware=h200x1"], {})
    assert one("driver", on_gpu).found == "nvidia-smi lists no GPU"
    gpus(140_000, driver="550.54.15")
    found = one("driver", Asked([], {}))
    assert (found.state, found.mend) == ("fault", "update the driver of this machine")
    assert found.found == "550.54.15 is too old, CUDA 13 needs 580 or newer"
    gpus(140_000, 140_000)
    assert one("driver", Asked([], {})).found == "580.65.06; 2 x NVIDIA H200, 140 GiB"


def test_the_driver_is_the_one_that_the_set_up_asks_for() -> None:
    (number,) = re.findall(r"^least_driver=(\d+)$", (ROOT / "train/scripts/setup.sh").read_text(), re.MULTILINE)
    assert int(number) == fast.LEAST_DRIVER


def test_a_compiler_that_is_missing_is_named(gpus: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(140_000)
    assert one("compiler", Asked([], {"CC": "/no/such/gcc"})).found.startswith("/no/such/gcc is missing")
    assert one("compiler", Asked([], {})).state == "ok"
    monkeypatch.setattr(fast.sysconfig, "get_path", lambda name: "/no/such/include")
    assert "/no/such/include/Python.h" in one("compiler", Asked([], {})).found


@pytest.mark.parametrize(
    ("total", "free", "asked", "state"),
    [
        (64 << 20, 60 << 20, CPU, "fault"),
        (64 << 20, 64 << 20, CPU, "ok"),
        (64 << 20, 64 << 20, Asked(["hardware=h200x1"], {}), "warning"),
        (32 << 30, 1 << 20, Asked(["hardware=h200x1"], {}), "fault"),
    ],
)
def test_little_shared_memory_is_named(
    total: int, free: int, asked: Asked, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast.shutil, "disk_usage", lambda folder: Usage(total, total - free, free))
    found = one("shared memory", asked)
    assert found.state == state
    assert ("--ipc host" in found.mend) == (state != "ok")


def test_no_shared_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "SHARED_MEMORY", tmp_path / "shm")
    assert one("shared memory").state == "fault"


def test_a_folder_that_cannot_be_written_is_named() -> None:
    # Not even root can make a file in /proc.
    found = many("disk", Asked(["hardware=cpu", "trainer.default_local_dir=/proc/checkpoints"], {}))[0]
    assert (found.state, found.found.startswith("/proc is not writable (")) == ("fault", True)
    assert "trainer.default_local_dir" in found.mend


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast.shutil, "disk_usage", lambda folder: Usage(10 << 30, 10 << 30, 1 << 20))
    asked = Asked(["hardware=cpu", f"trainer.default_local_dir={tmp_path}"], {})
    assert many("disk", asked)[0] == Finding(
        "disk",
        "fault",
        f"0.0 GiB free for {tmp_path}",
        "free some space, or set trainer.default_local_dir to a folder on a larger disk",
    )


def test_a_path_that_is_too_long_for_rays_sockets_is_named(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 40)
    deep.mkdir()
    found = many("disk", Asked(["hardware=cpu"], {"RAY_TMPDIR": str(deep)}))[-1]
    assert (found.state, found.mend) == ("fault", "set RAY_TMPDIR to a shorter folder, such as /tmp")


def test_few_open_files_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda limit: (256, 512))
    assert (one("open files").state, "512" in one("open files").found) == ("fault", True)
    monkeypatch.setattr(resource, "getrlimit", lambda limit: (1024, 2048))
    assert one("open files").state == "warning"
    monkeypatch.setattr(resource, "getrlimit", lambda limit: (1024, resource.RLIM_INFINITY))
    assert one("open files").state == "ok"


def test_an_address_of_ray_where_nothing_answers_is_named(free_port: int) -> None:
    asked = Asked(["hardware=multinode"], {"RAY_ADDRESS": f"127.0.0.1:{free_port}"})
    found = one("Ray's address", asked)
    assert (found.state, found.mend) == ("fault", "set RAY_ADDRESS to a running head")
    assert f"127.0.0.1:{free_port}, where nothing answers (Connection refused)" in found.found
    with socket.create_server(("127.0.0.1", free_port)):
        assert one("Ray's address", asked).state == "ok"
    named = Asked(["hardware=cpu", "ray_kwargs.ray_init.address=head"], dict(asked.environment))
    assert one("Ray's address", named).found.endswith("is not HOST:PORT")
    # A run on one node starts its own Ray cluster and ignores the variable.
    assert one("Ray's address", Asked(["hardware=h200x8"], dict(asked.environment))).state == "ok"


def test_a_cluster_whose_head_is_gone_is_named(tmp_path: Path, free_port: int) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/ray_current_cluster").write_text(f"127.0.0.1:{free_port}\n")
    found = one("Ray's address", Asked(["hardware=multinode"], {"RAY_TMPDIR": str(tmp_path)}))
    assert (found.state, found.mend) == ("fault", "ray stop --force, and start the head again")
    assert str(tmp_path / "ray/ray_current_cluster") in found.found
    empty = Asked(["hardware=multinode"], {"RAY_TMPDIR": str(tmp_path / "none"), "RAY_ADDRESS": "auto"})
    assert one("Ray's address", empty).found == "the run joins a Ray cluster, but none runs on this machine"


def test_a_name_whose_address_is_not_found_in_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked: ended.wait(60))
    asked = Asked(["hardware=multinode"], {"RAY_ADDRESS": "head:6379"}, limits=fast.LIMITS)
    found = one("Ray's address", asked)
    ended.set()
    assert (found.state, found.found) == ("warning", "the run names head:6379, which did not answer in 0.5 s")


def test_no_key_for_wandb_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    logs = ["hardware=cpu", "trainer.logger=[console,file,wandb]"]
    assert (one("Weights & Biases", Asked(logs, {})).state, one("Weights & Biases").state) == ("fault", "skipped")
    assert one("Weights & Biases", Asked(logs, {"WANDB_MODE": "offline"})).state == "ok"
    secret = one("Weights & Biases", Asked(logs, {"WANDB_API_KEY": "secret-key"}))
    assert (secret.state, "secret-key" in str(secret)) == ("ok", False)
    (tmp_path / ".netrc").write_text("machine api.wandb.ai\n  login user\n  password x\n")
    assert one("Weights & Biases", Asked(logs, {})).state == "ok"


def test_a_clock_in_the_past_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    newest = max(file.stat().st_mtime for file in (ROOT / "veritas_rl").glob("*.py"))
    monkeypatch.setattr(time, "time", lambda: newest - 7200)
    assert (one("clock").state, "2.0 h before" in one("clock").found) == ("fault", True)


def test_a_check_that_fails_says_so_and_the_others_go_on() -> None:
    def crash() -> list[Finding]:
        raise RuntimeError("no such thing")

    found = list(collect([("first", crash), ("Python", fast.python)]))
    assert found[0] == Finding("first", "warning", "the check failed (RuntimeError: no such thing)")
    assert found[1].state == "ok"
