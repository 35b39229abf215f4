"""Forecast the rollout's memory on one GPU: weights, activations, and the remaining KV cache."""

from dataclasses import dataclass

from veritas_rl.planning.devices import GIB, Device
from veritas_rl.planning.models import Shape
from veritas_rl.planning.settings import Rollout, Settings

CONTEXT = int(0.6 * GIB)
"""Memory of a process on a GPU: CUDA's context, its libraries and their workspaces. Assumed."""

GRAPHS = int(1.0 * GIB)
"""vLLM's captured CUDA graphs, which stay while it sleeps. Assumed."""


@dataclass(frozen=True)
class Server:
    """The rollout's server on one GPU, or as a process on a CPU.

    Attributes:
        shape: The model.
        rollout: The rollout's settings.
        device: The device.
        lora_rank: The rank of the adapter; 0 without an adapter.
        cpu: Whether the server runs on a CPU.
    """

    shape: Shape
    rollout: Rollout
    device: Device
    lora_rank: int
    cpu: bool

    @property
    def weights(self) -> int:
        """Weights on this GPU."""
        return self.shape.parameters() * self.rollout.weight_bytes // self.rollout.tensor_parallel

    @property
    def adapter(self) -> int:
        """The adapter's weights."""
        if not self.lora_rank:
            return 0
        return sum(a * b for a, b in self.shape.adapter_tensors(self.lora_rank)) * self.rollout.weight_bytes

    @property
    def activations(self) -> int:
        """The largest forward pass: a layer of all batched tokens, and fp32 logits of all sequences, twice."""
        shape, width = self.shape, self.rollout.weight_bytes
        tokens = self.rollout.batched_tokens
        layer = tokens * width * (4 * shape.hidden + 3 * shape.intermediate // self.rollout.tensor_parallel)
        return layer + self.rollout.sequences * shape.vocabulary * (width + 8)

    @property
    def token(self) -> int:
        """Bytes of the KV cache for one token on this GPU."""
        return 2 * self.shape.layers * self.shape.keys * self.rollout.weight_bytes // self.rollout.tensor_parallel

    @property
    def share(self) -> int:
        """The server's memory limit."""
        if self.rollout.name == "transformers":
            return self.weights + self.adapter + self.activations + self.cache
        return int(self.device.memory * self.rollout.share)

    @property
    def longest(self) -> int:
        """The longest sequence in tokens."""
        return self.rollout.context

    @property
    def room(self) -> int:
        """The server's share without the weights."""
        return self.share - self.weights - self.adapter

    @property
    def cache(self) -> int:
        """The KV cache: `room` without the memory of activations and process. Negative if those do not fit."""
        if self.rollout.name == "transformers":
            return self.rollout.sequences * self.longest * self.token
        return self.room - self.activations - (0 if self.cpu else CONTEXT)

    @property
    def context(self) -> int:
        """The process's GPU memory while the server sleeps: CUDA's context and graphs, which its share does
        not include."""
        return 0 if self.cpu else CONTEXT + (0 if self.rollout.eager or self.rollout.name == "transformers" else GRAPHS)

    @property
    def at_once(self) -> int:
        """The number of longest sequences that fit into the cache."""
        return max(0, self.cache // (self.token * self.longest))

    @property
    def asleep(self) -> int:
        """Memory that stays on the device while the trainer works. The CPU's engine frees its cache when no reply is
        left."""
        if self.cpu:
            return self.weights + self.adapter
        return self.context if self.rollout.sleeps else self.share

    @property
    def backup(self) -> int:
        """Weights that are kept on the host while the server sleeps. Under LoRA the trainer sends only adapters, so the
        server keeps its base."""
        return self.weights if self.lora_rank and self.rollout.sleeps and self.rollout.name == "vllm" else 0


def server_of(settings: Settings, shape: Shape, device: Device) -> Server:
    """The rollout's server of a run."""
    return Server(shape, settings.rollout, device, settings.actor.lora_rank, settings.cpu)
