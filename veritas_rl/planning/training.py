"""Forecast the memory of verl's FSDP engine on one device, part by part, in bytes.

`docs/planning.md` derives the formulas.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from veritas_rl.planning.models import Shape
from veritas_rl.planning.settings import Role

GATHERED_LAYERS = 2
"""Layers whose parameters are gathered at once: the current layer, and the prefetched next layer."""

CODE_BYTES, BLOCK = 0.5, 64
"""Bytes of a 4-bit weight, and weights per fp32 scale, see `verl_plugin.nf4`."""


@dataclass(frozen=True)
class Engine:
    """A model under training on one device.

    Attributes:
        shape: The model.
        role: How the model is trained.
        cpu: Whether the model is trained on a CPU, with this project's engine instead of verl's.
        kept_logits: The share of tokens with logits.
        padding: Computed tokens per real token.
        shared: The tokens of a sequence of several replies to one prompt; 0 if each reply has its own prompt.
    """

    shape: Shape
    role: Role
    cpu: bool = False
    kept_logits: float = 1.0
    padding: float = 1.0
    shared: int = 0

    @property
    def parameters(self) -> int:
        """The number of parameters, including adapters."""
        return self.shape.parameters(critic=self.role.critic) + (self.trained if self.role.lora_rank else 0)

    @property
    def trained(self) -> int:
        """The number of trained parameters."""
        if self.role.lora_rank:
            targets = self.role.lora_targets
            return sum(map(math.prod, self.shape.adapter_tensors(self.role.lora_rank, targets)))
        return self.shape.parameters(critic=self.role.critic)

    @property
    def weights(self) -> int:
        """This device's share of the parameters."""
        codes = int(self._in_four_bit * (CODE_BYTES + 4 / BLOCK))
        return ((self.parameters - self._in_four_bit) * self.role.weight_bytes + codes) // self.role.shards

    @property
    def codes(self) -> list[tuple[int, int]]:
        """The shapes of the codes and scales of a 4-bit base, in bytes."""
        if not self.role.four_bit:
            return []
        sizes = [*self.shape.linears.values()] * self.shape.layers
        return [(rows, int(inputs * each)) for rows, inputs in sizes for each in (CODE_BYTES, 4 / BLOCK)]

    @property
    def _in_four_bit(self) -> int:
        return self.shape.layers * self.shape.linear_parameters if self.role.four_bit else 0

    @property
    def optimizer(self) -> int:
        """This device's share of Adam's two moments."""
        return 2 * self.gradients

    @property
    def gradients(self) -> int:
        """This device's share of the gradients."""
        return self.trained * self.trained_bytes // self.role.shards

    @property
    def trained_bytes(self) -> int:
        """Bytes of a trained parameter. Adapters stay in fp32 over a base in bf16."""
        return 4 if self.role.lora_rank else self.role.weight_bytes

    @property
    def idle(self) -> int:
        """Memory that stays on the device during other phases."""
        return (0 if self.role.param_offload else self.weights) + (0 if self.role.optimizer_offload else self.optimizer)

    @property
    def gathered(self) -> int:
        """Gathered parameters in the compute dtype: those of the root module, and those of the current layers."""
        width = self.role.compute_bytes
        if not self.role.reshard:
            codes = int(self._in_four_bit * (CODE_BYTES + 4 / BLOCK))
            return (self.parameters - self._in_four_bit) * width + codes + self._decoded
        layers = GATHERED_LAYERS + (self.role.shards > 1)  # the buffer of the collective
        layer = self.shape.layer_parameters * width
        if self.role.four_bit:
            linear = self.shape.linear_parameters
            layer += int(linear * (CODE_BYTES + 4 / BLOCK)) - linear * width
        return self.shape.embedding_parameters * width + layers * layer + self._decoded

    @property
    def _decoded(self) -> int:
        """The dequantized weights of one linear layer, which exist while it computes."""
        if not self.role.four_bit:
            return 0
        return max(map(math.prod, self.shape.linears.values())) * self.role.compute_bytes

    @property
    def reduced(self) -> int:
        """Full gradients of a layer and of the head before they are reduced and scattered."""
        if self.role.lora_rank:
            return 0
        head = self.shape.embedding_parameters * self.role.compute_bytes
        return head + self.shape.layer_parameters * (self.role.compute_bytes + self.role.reduce_bytes)

    @property
    def _reduced_last(self) -> int:
        """The embedding, its gradient, and the copy of the gradient that is reduced, at the end of the
        backward pass."""
        if self.role.lora_rank:
            return 0
        return self.shape.embedding_parameters * (2 * self.role.compute_bytes + self.role.reduce_bytes)

    def layer_activations(self) -> int:
        """Bytes per token that the backward pass of one layer needs."""
        shape, width = self.shape, self.role.compute_bytes
        # A norm stores its fp32 input, the normalized input, and its output for the next product.
        norm = 4 + 2 * width
        queries = keys = width  # rotated
        if shape.family == "qwen3":
            # Queries and keys are normalized. The rotation stores nothing.
            queries, keys = queries + 4 + width, keys + 4 + width
        values = width
        attention = shape.queries * (queries + width) + shape.keys * (keys + values) + 4 * shape.heads
        if self._masked:
            # With a mask, keys and values are repeated for each query head.
            attention += 2 * (shape.queries - shape.keys) * width
        return 2 * norm * shape.hidden + attention + 4 * width * shape.intermediate

    @property
    def _masked(self) -> bool:
        """Whether attention gets a mask: for packed or padded rows and shared prompts, but not for rows in the CPU
        engine."""
        return self.shared > 0 or (not self.role.flash and (not self.cpu or self.role.packed))

    def mask(self, tokens: int) -> int:
        """The mask of one micro-batch, as booleans and as the kernel's additive mask."""
        if self.shared:
            return tokens * self.shared * (1 + self.role.compute_bytes)
        if not self._masked or not self.role.packed:
            return 0
        return tokens * tokens * (1 + self.role.compute_bytes)

    def stored(self, tokens: int) -> int:
        """Activations at the end of the forward pass: the inputs of all layers, or everything for their backward
        pass."""
        shape, width = self.shape, self.role.compute_bytes
        around = tokens * (2 * shape.head_dim * 4 + (4 + 2 * width) * shape.hidden)  # positions, the last norm
        each = width * shape.hidden if self.role.checkpointing else self.layer_activations()
        return around + tokens * shape.layers * each

    def transient(self, tokens: int) -> int:
        """Memory of one layer without gradients."""
        shape, width = self.shape, self.role.compute_bytes
        feed_forward = 3 * width * shape.intermediate + 2 * width * shape.hidden
        attention = width * (2 * shape.hidden + 3 * shape.queries + 2 * shape.keys) + 4 * shape.hidden
        return tokens * max(feed_forward, attention) + self.mask(tokens)

    def layer_backward(self, tokens: int) -> int:
        """The recomputed activations of one layer, and gradients of its feed-forward part."""
        again = self.layer_activations() if self.role.checkpointing else 0
        return tokens * (again + 3 * self.role.compute_bytes * self.shape.intermediate) + self.mask(tokens)

    def logits(self, tokens: int, *, update: bool, entropy: bool) -> int:
        """Logits with the intermediates of log-probabilities and entropy.

        Args:
            tokens: The tokens of the micro-batch, including padding.
            update: Whether gradients are computed.
            entropy: Whether entropy is computed too.
        """
        if self.role.critic:
            return tokens * 8
        if self.role.fused_kernels:
            return 0
        each = logit_bytes(self.role, update=update, entropy=entropy, own_engine=self.cpu and not self.role.packed)
        wanted = int(tokens * self.kept_logits) * self.shape.vocabulary
        if entropy and self.role.entropy_chunk is not None and self.role.packed:
            chunk = min(self.role.entropy_chunk, tokens) * self.shape.vocabulary
            plain = logit_bytes(self.role, update=update, entropy=False, own_engine=False)
            return wanted * plain + chunk * 12
        return wanted * each

    def update_parts(self) -> dict[str, int]:
        """The peak of an update, by part."""
        role = self.role
        tokens = int(role.update_tokens * self.padding)
        stored, backward = self.stored(tokens), self.layer_backward(tokens)
        logits = self.logits(tokens, update=True, entropy=role.entropy)
        whole = self.trained * role.reduce_bytes if role.deferred else 0
        fixed = {"weights": self.weights, "optimizer": self.optimizer, "gradients": self.gradients + whole}
        if role.streamed:
            fixed = {}
        moments: list[dict[str, int]] = [
            {"gathered weights": self.gathered, "activations": stored, "logits": logits},
            {"gathered weights": self.gathered + self.reduced, "activations": stored + backward},
            {"gathered weights": self._reduced_last},
            {"optimizer step": 0 if role.fused_optimizer or role.streamed else self._step()},
        ]
        return {**fixed, **max(moments, key=_total)}

    def _step(self) -> int:
        if self.cpu:
            return 2 * self.shape.embedding_parameters * self.role.weight_bytes // self.role.shards
        return self.trained * self.role.weight_bytes // self.role.shards

    def inference_parts(self, *, entropy: bool) -> dict[str, int]:
        """The peak of a pass without gradients, by part."""
        tokens = int(self.role.infer_tokens * self.padding)
        hidden = tokens * self.shape.hidden * self.role.compute_bytes
        moments: list[dict[str, int]] = [
            {"activations": hidden + self.transient(tokens)},
            {"activations": hidden, "logits": self.logits(tokens, update=False, entropy=entropy)},
        ]
        kept = 0 if self.role.optimizer_offload else self.optimizer
        return {
            "weights": 0 if self.role.streamed else self.weights,
            "optimizer": kept,
            "gathered weights": self.gathered,
            **max(moments, key=_total),
        }


def _total(parts: Mapping[str, int]) -> int:
    return sum(parts.values())


def logit_bytes(role: Role, *, update: bool, entropy: bool, own_engine: bool) -> int:
    """Bytes per token and vocabulary entry.

    Args:
        role: The actor.
        update: Whether gradients are computed.
        entropy: Whether entropy is computed too.
        own_engine: Whether this project's CPU engine selects the logits of replies, which copies them.
    """
    half = role.compute_bytes == 2
    copied = 0 if role.packed else role.compute_bytes
    if not update:
        if not entropy:
            return role.compute_bytes + copied
        if role.compiled:
            return role.compute_bytes
        # Softmax, the log-sum with its intermediate, and with bf16 an fp32 copy.
        return 14 if half else 12 + (4 if own_engine else 0)
    if role.flash and half:
        # The kernel overwrites the logits with the gradient, unless entropy needs them.
        return 8 if entropy else 4
    if not entropy:
        # The logits, the gradient of the selected logits, the gradients of each chunk, and the joined gradient.
        return 4 * role.compute_bytes + (copied if half or own_engine else 0)
    if role.compiled:
        return 5 * role.compute_bytes
    return 26 if half else 28 + (4 if own_engine else 0)
