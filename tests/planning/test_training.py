"""Activations and logits, against torch's memory for the same tensors; weights and moments calculated by hand."""

import dataclasses
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer, Qwen2RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer, Qwen3RotaryEmbedding
from verl.utils import torch_functional

from veritas_rl.planning.models import Shape, find_shape
from veritas_rl.planning.plan import Plan
from veritas_rl.planning.training import Engine, logit_bytes
from veritas_rl.verl_plugin import patches
from veritas_rl.verl_plugin.nf4 import quantize

LAYERS: dict[str, tuple[Any, Any]] = {
    "qwen3": (Qwen3DecoderLayer, Qwen3RotaryEmbedding),
    "qwen2": (Qwen2DecoderLayer, Qwen2RotaryEmbedding),
    "llama": (LlamaDecoderLayer, LlamaRotaryEmbedding),
}


def stored_for_backward(shape: Shape, dtype: torch.dtype, tokens: int, masked: bool) -> int:
    """Bytes that torch's autograd stores for one layer of this shape, without computing anything."""
    config = AutoConfig.for_model(
        shape.family,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=1,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
    )
    config._attn_implementation = "sdpa"
    made, rotary = LAYERS[shape.family]
    stored: dict[int, int] = {}
    with FakeTensorMode():
        torch.set_default_dtype(dtype)
        layer = made(config, 0)
        torch.set_default_dtype(torch.float32)
        positions = rotary(config)
        known = {parameter.untyped_storage()._cdata for parameter in layer.parameters()}
        entered = torch.zeros(1, tokens, shape.hidden, dtype=dtype, requires_grad=True)
        angles = positions(entered, torch.arange(tokens)[None])
        mask = torch.ones(1, 1, tokens, tokens, dtype=torch.bool) if masked else None
        known |= {angle.untyped_storage()._cdata for angle in angles}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in known and tensor.shape[-2:] != (tokens, tokens):
                stored[storage._cdata] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            kept = layer(entered, attention_mask=mask, position_embeddings=angles)
        del kept
    return sum(stored.values())


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("Qwen/Qwen3-4B", 2),
        ("Qwen/Qwen3-4B", 4),
        ("Qwen/Qwen2.5-1.5B", 2),
        ("Qwen/Qwen2.5-7B", 2),
        ("meta-llama/Llama-3.1-8B", 2),
    ],
)
def test_a_layer_stores_what_torch_stores(name: str, width: int, masked: bool, planned: Callable[..., Plan]) -> None:
    shape = find_shape(name, ask_hub=False)
    role = dataclasses.replace(planned("h200x1").settings.actor, compute_bytes=width, packed=masked)
    forecast = Engine(shape, role, cpu=True).layer_activations()
    dtype = {2: torch.bfloat16, 4: torch.float32}[width]
    measured = stored_for_backward(shape, dtype, 512, masked) / 512
    assert forecast == pytest.approx(measured, rel=0.01)


class Live(TorchDispatchMode):
    """Counts the bytes of all tensors that are alive while the mode is active, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        tree_map_only(torch.Tensor, self._track, made)
        return made

    def _track(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self.known:
            self.known.add(storage._cdata)
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._freed, storage._cdata, storage.nbytes())

    def _freed(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def entropies(logits: torch.Tensor) -> torch.Tensor:
    """Entropies as verl computes them, with the conversions of autocast on a GPU."""
    probabilities = F.softmax(logits, -1, dtype=torch.float32)
    # torch's kernel makes one more tensor internally.
    wide = logits.float()
    total = (wide - wide.amax(-1, keepdim=True)).exp_().sum(-1).log() + wide.amax(-1)
    del wide
    return total - (probabilities * logits).sum(-1)


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize(("update", "entropy"), [(False, True), (True, False)])
def test_logits_take_what_torch_takes(
    width: int, update: bool, entropy: bool, planned: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, vocabulary = 128, 4096
    monkeypatch.setattr(patches, "CHUNK_ELEMENTS", 1 << 14)
    dtype = {2: torch.bfloat16, 4: torch.float32}[width]
    head = torch.randn(vocabulary, 8, dtype=dtype)
    hidden = torch.randn(tokens, 8, dtype=dtype, requires_grad=True)
    labels = torch.randint(0, vocabulary, (tokens,))
    gc.collect()
    with torch.set_grad_enabled(update), Live() as live:

        def forward() -> torch.Tensor:
            logits = hidden @ head.T
            if entropy:
                entropies(logits)
            computed: Any = torch_functional.logprobs_from_logits_v2
            return computed(logits, labels)

        made = forward()
        if update:
            made.sum().backward()
    role = dataclasses.replace(planned("h200x1").settings.actor, compute_bytes=width, packed=True, compiled=False)
    forecast = logit_bytes(role, update=update, entropy=entropy, own_engine=False)
    assert forecast == pytest.approx(live.peak / tokens / vocabulary, rel=0.1)


def test_lora_trains_little_and_keeps_the_base(planned: Callable[..., Plan]) -> None:
    engine = planned("h200x1").actor
    # Each layer has 32 x (inputs + outputs) of q, k, v, o, gate, up and down.
    adapters = 36 * 32 * (2 * (2560 + 4096) + 2 * (2560 + 1024) + 3 * (2560 + 9728))
    assert engine.trained == adapters
    assert engine.weights == 4 * (4_022_468_096 + adapters)
    assert engine.optimizer == 2 * engine.gradients == 8 * adapters


def test_all_parameters_take_sixteen_bytes_divided_by_the_ranks(planned: Callable[..., Plan]) -> None:
    for ranks in (1, 2, 4, 8):
        engine = planned(f"h200x{ranks}", "lora=off").actor
        taken = engine.weights + engine.gradients + engine.optimizer
        assert taken == pytest.approx(16 * 4_022_468_096 / ranks, rel=1e-6)


def test_a_base_in_4_bit_takes_what_its_codes_take(planned: Callable[..., Plan]) -> None:
    plan = planned("rtx24g", "veritas_rl.quantization=nf4")
    engine, shape = plan.actor, plan.shape
    with torch.device("meta"):
        config = AutoConfig.for_model(
            shape.family,
            hidden_size=shape.hidden,
            intermediate_size=shape.intermediate,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.kv_heads,
            vocab_size=shape.vocabulary,
            tie_word_embeddings=shape.tied,
        )
        model: Any = AutoModelForCausalLM.from_config(config)
    quantize(model, torch.bfloat16)
    assert engine.weights == sum(parameter.nbytes for parameter in model.parameters()) + 4 * engine.trained
    assert sum(rows * size for rows, size in engine.codes) == sum(
        parameter.nbytes for parameter in model.parameters() if parameter.dtype == torch.bfloat16
    )
    host = plan.host()["weights, pinned"]
    # Each block is rounded up to a power of two.
    assert 2 * engine.weights < host < 4 * engine.weights
