"""Patches apply to the pinned verl, and refuse anything else."""

import importlib.metadata
import types

import pytest
import torch
from verl.utils import distributed, model

from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.verl_plugin import patches


def test_the_pin_is_read_from_the_package() -> None:
    assert patches.required_verl() == importlib.metadata.version("verl")


def test_patches_are_in_place() -> None:
    assert distributed.initialize_global_process_group_ray.__module__ == "verl.utils.distributed"
    assert distributed.initialize_global_process_group_ray.__wrapped__  # pyright: ignore[reportFunctionMemberAccess]
    assert model.load_valuehead_model.__wrapped__  # pyright: ignore[reportFunctionMemberAccess]


def test_torchruns_processes_on_a_cpu_meet_over_gloo(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    place = {"LOCAL_RANK": 0, "RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port}
    for name, value in place.items():
        monkeypatch.setenv(name, str(value))
    try:
        assert distributed.initialize_global_process_group() == (0, 0, 1)
        assert torch.distributed.get_backend() == "gloo"
    finally:
        distributed.destroy_global_process_group()


def test_the_critic_takes_the_attention_that_is_configured(tmp_path) -> None:
    from transformers import AutoConfig

    folder = build_tiny_model(tmp_path / "model", seed=0)
    config = AutoConfig.from_pretrained(folder, attn_implementation="sdpa")
    config.num_labels = 1
    critic = model.load_valuehead_model(str(folder), torch.float32, config, False)
    assert critic.config._attn_implementation == "sdpa"
    assert critic(torch.tensor([[1, 2, 3]])).logits.shape == (1, 3, 1)


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "required_verl", lambda: "9.9.9")
    with pytest.raises(patches.PatchRefused, match=r"9\.9\.9"):
        patches.gloo_process_group(distributed)


def test_a_fault_that_is_gone_is_refused() -> None:
    def initialize_global_process_group_ray(backend: str | None = None) -> None: ...

    mended = types.SimpleNamespace(initialize_global_process_group_ray=initialize_global_process_group_ray)
    with pytest.raises(patches.PatchRefused, match="no longer has the fault"):
        patches.gloo_process_group(mended)
