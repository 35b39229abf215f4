"""Patches apply to the pinned verl, and refuse any other version."""

import importlib.metadata
import types
from typing import Any

import pytest
import torch
from transfer_queue.storage.managers import simple_storage_manager
from verl.utils import model, torch_functional

from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.verl_plugin import patches, patching
from veritas_rl.verl_plugin.cpu import patches as cpu_patches


@pytest.mark.parametrize("package", ["verl", "TransferQueue"])
def test_the_pin_is_read_from_the_package(package: str) -> None:
    assert patching.required_version(package) == importlib.metadata.version(package)


def test_patches_are_in_place() -> None:
    assert model.load_valuehead_model.__module__ == "verl.utils.model"
    assert model.load_valuehead_model.__wrapped__  # pyright: ignore[reportFunctionMemberAccess]


def test_the_critic_takes_the_attention_that_is_configured(tmp_path) -> None:
    from transformers import AutoConfig

    folder = build_tiny_model(tmp_path / "model", seed=0)
    config = AutoConfig.from_pretrained(folder, attn_implementation="sdpa")
    config.num_labels = 1
    critic = model.load_valuehead_model(str(folder), torch.float32, config, False)
    assert critic.config._attn_implementation == "sdpa"
    assert critic(torch.tensor([[1, 2, 3]])).logits.shape == (1, 3, 1)


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patching, "required_version", lambda package: "9.9.9")
    with pytest.raises(patching.PatchRefused, match=r"needs verl 9\.9\.9"):
        patches.critic_head.apply(model)
    with pytest.raises(patching.PatchRefused, match=r"needs TransferQueue 9\.9\.9"):
        cpu_patches.small_cells.apply(simple_storage_manager)


def test_a_fault_that_is_gone_is_refused() -> None:
    def load_valuehead_model(local_path: str) -> None: ...

    mended = types.SimpleNamespace(load_valuehead_model=load_valuehead_model)
    with pytest.raises(patching.PatchRefused, match="no longer has the fault"):
        patches.critic_head.apply(mended)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_log_probabilities_are_made_in_fp32_many_at_once(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "CHUNK_ELEMENTS", 70)  # chunks of four rows and a remainder
    random = torch.Generator().manual_seed(0)
    logits = (5 * torch.randn(3, 5, 17, generator=random)).to(dtype).requires_grad_()
    labels, weights = torch.randint(17, (3, 5), generator=random), torch.randn(3, 5, generator=random)
    log_probabilities: Any = torch_functional.logprobs_from_logits_v2
    made = log_probabilities(logits, labels)
    (made * weights).sum().backward()

    exact = logits.detach().double().requires_grad_()
    expected = exact.log_softmax(dim=-1).gather(-1, labels[..., None])[..., 0]
    (expected * weights).sum().backward()
    assert made.dtype == torch.float32
    torch.testing.assert_close(made.double(), expected, atol=1e-5, rtol=1e-5)
    assert logits.grad is not None
    # A gradient has the dtype of its logits.
    torch.testing.assert_close(logits.grad.double(), exact.grad, atol=1e-5, rtol=1e-5 if dtype.itemsize == 4 else 2**-7)
