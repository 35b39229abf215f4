"""Digests of a LoRA adapter, to compare what the trainer trains with what the rollout holds.

A digest is a sum over all numbers of a tensor, of the number's bits times a random number for its place, times one for
the tensor's name. So ranks that hold parts of it add up their shares, and no tensor is gathered.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed

from veritas_rl.seeding import digest
from veritas_rl.verl_plugin.adapter_shards import file_name, local_shares

CHUNK = 1 << 16
"""How many numbers are multiplied at once: their 64-bit copies stay in a processor's cache."""

PLACE, MIX = -7046029254386353131, -4658895280553007687
"""Odd 64-bit constants (the golden ratio's, and one of SplitMix64) that spread places."""

NAMED = 3
"""How many tensors a difference names."""


def canonical(name: str) -> str:
    """The name of an adapter's weight, which trainer, PEFT files, transformers and vLLM write with other decorations.

    It begins at the layer: "layers.0.self_attn.q_proj.lora_A".
    """
    name = file_name(name).removeprefix("base_model.model.").removesuffix(".weight")
    before, found, after = name.partition("layers.")
    return found + after if found else before


def weights_of(places: torch.Tensor) -> torch.Tensor:
    """A 64-bit number for each place in a tensor: near places have unrelated ones."""
    word = (places + 1) * PLACE
    word = (word ^ (word >> 32)) * MIX
    return word ^ (word >> 29)


@functools.lru_cache(maxsize=64)
def _all_weights(count: int, device: torch.device) -> torch.Tensor:
    """Those of all places; a model has few shapes."""
    return weights_of(torch.arange(count, device=device))


def mixed(name: str, values: torch.Tensor, places: torch.Tensor | None, dtype: torch.dtype, scale: float = 1.0) -> int:
    """The share of a tensor's digest that some of its numbers have.

    Args:
        name: The tensor's canonical name.
        values: Some of its numbers, flat.
        places: Where each stands in the whole tensor, flat: int64; None for all of them in their order.
        dtype: What the numbers are rounded to first.
        scale: What they are multiplied by then, in that dtype.
    """
    bits = torch.int16 if dtype.itemsize == 2 else torch.int32
    weights = _all_weights(values.numel(), values.device) if places is None else weights_of(places)
    total = 0
    for some, weight in zip(values.split(CHUNK), weights.split(CHUNK), strict=True):
        # A negative zero is a zero.
        rounded = some.detach().to(dtype) * scale + 0.0
        total += int((rounded.view(bits).long() * weight).sum())
    return _signed(total * (digest(name) | 1))


def _signed(number: int) -> int:
    """The last 64 bits of a number, as a tensor holds them."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def digests_of(tensors: Iterable[tuple[str, torch.Tensor]], dtype: torch.dtype) -> dict[str, int]:
    """The digest of each whole tensor of an adapter, by its canonical name.

    Args:
        tensors: Names and tensors.
        dtype: What the numbers are rounded to.
    """
    return {canonical(name): mixed(canonical(name), tensor.flatten(), None, dtype) for name, tensor in tensors}


def digests_of_module(module: Any, mesh: Any, dtype: torch.dtype, b_scale: float = 1.0) -> dict[str, int]:
    """The digest of each tensor of the adapter that a module of FSDP 1 or 2 is training; all ranks call it at once.

    Args:
        module: A PEFT model that verl has wrapped, on any device.
        mesh: Its device mesh: one dimension of shards, or replicas by shards.
        dtype: What the numbers are rounded to, as the rollout does.
        b_scale: What the second matrices are multiplied by, where the rollout keeps them so.
    """
    # Each replica has everything: the first one is counted.
    counts = mesh is None or mesh.ndim == 1 or mesh.get_coordinate()[0] == 0
    found: dict[str, int] = {}
    for given, values, places in local_shares(module):
        name = canonical(given)
        scale = b_scale if name.endswith("_B") else 1.0
        share = mixed(name, values, places, dtype, scale) if counts and values.numel() else 0
        found[name] = share
    names = sorted(found)
    sums = torch.tensor([found[name] for name in names], dtype=torch.int64)
    if distributed.is_initialized() and distributed.get_world_size() > 1:
        distributed.all_reduce(sums)
    return dict(zip(names, sums.tolist(), strict=True))


def together(digests: Mapping[str, int]) -> str:
    """One digest of a whole adapter, as 16 hexadecimal digits."""
    return f"{digest(*sorted(digests.items())):016x}"


@dataclass(frozen=True)
class Comparison:
    """An adapter in the trainer, and what a rollout holds of it.

    Attributes:
        trained: The digest of each of the trainer's tensors, by canonical name.
        held: The rollout's.
    """

    trained: Mapping[str, int]
    held: Mapping[str, int]

    @property
    def is_same(self) -> bool:
        """Whether the rollout holds what the trainer has, and nothing else."""
        return self.trained == self.held

    def line(self) -> str:
        """What was compared, in one line."""
        if self.is_same:
            return f"the rollout holds the trainer's adapter: {len(self.held)} tensors, digest {together(self.held)}"
        return (
            f"the rollout does not hold the trainer's adapter: {self._difference()} "
            f"(digests {together(self.held)} and {together(self.trained)})"
        )

    def _difference(self) -> str:
        if not self.held:
            return "it holds none"
        lost = sorted(self.trained.keys() - self.held.keys())
        strange = sorted(self.held.keys() - self.trained.keys())
        other = sorted(name for name in self.held.keys() & self.trained.keys() if self.held[name] != self.trained[name])
        kinds = ((lost, "are missing"), (strange, "are not the trainer's"), (other, "have other numbers"))
        return "; ".join(
            f"{len(names)} of {len(self.trained)} tensors {what}: {', '.join(names[:NAMED])}"
            for names, what in kinds
            if names
        )
