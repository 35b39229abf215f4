"""Digests of a LoRA adapter, to compare the trainer's adapter with the rollout's.

A digest is a sum over all values of a tensor. Each term is the product of the value's bits, a hash of the value's index
and a hash of the tensor's name. Ranks can therefore add the digests of their shards, without gathering tensors.
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
"""How many values are processed at once, so that their 64-bit copies fit into the CPU cache."""

PLACE, MIX = -7046029254386353131, -4658895280553007687
"""Odd 64-bit constants, from the golden ratio and from SplitMix64, that hash indices."""

NAMED = 3
"""How many tensors of each kind a difference lists."""


def canonical(name: str) -> str:
    """The common name of an adapter's weight, which trainer, PEFT files, transformers and vLLM extend differently.

    The common name starts at the layer, such as "layers.0.self_attn.q_proj.lora_A".
    """
    name = file_name(name).removeprefix("base_model.model.").removesuffix(".weight")
    before, found, after = name.partition("layers.")
    return found + after if found else before


def weights_of(places: torch.Tensor) -> torch.Tensor:
    """A 64-bit hash for each index in a tensor."""
    word = (places + 1) * PLACE
    word = (word ^ (word >> 32)) * MIX
    return word ^ (word >> 29)


@functools.lru_cache(maxsize=64)
def _all_weights(count: int, device: torch.device) -> torch.Tensor:
    return weights_of(torch.arange(count, device=device))


def mixed(name: str, values: torch.Tensor, places: torch.Tensor | None, dtype: torch.dtype, scale: float = 1.0) -> int:
    """The contribution of some values to a tensor's digest.

    Args:
        name: The tensor's canonical name.
        values: Some of its values, flat.
        places: Their int64 indices in the flat tensor; None for all values in order.
        dtype: The dtype to which values are rounded.
        scale: A factor that is applied afterwards, in that dtype.
    """
    bits = torch.int16 if dtype.itemsize == 2 else torch.int32
    weights = _all_weights(values.numel(), values.device) if places is None else weights_of(places)
    total = 0
    for some, weight in zip(values.split(CHUNK), weights.split(CHUNK), strict=True):
        # Turns negative zero into zero.
        rounded = some.detach().to(dtype) * scale + 0.0
        total += int((rounded.view(bits).long() * weight).sum())
    return _signed(total * (digest(name) | 1))


def _signed(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def digests_of(tensors: Iterable[tuple[str, torch.Tensor]], dtype: torch.dtype) -> dict[str, int]:
    """The digest of each tensor of an adapter, by its canonical name.

    Args:
        tensors: Names and tensors.
        dtype: The dtype to which values are rounded.
    """
    return {canonical(name): mixed(canonical(name), tensor.flatten(), None, dtype) for name, tensor in tensors}


def digests_of_module(module: Any, mesh: Any, dtype: torch.dtype, b_scale: float = 1.0) -> dict[str, int]:
    """The digest of each adapter tensor in a module of FSDP 1 or 2. All ranks must call it together.

    Args:
        module: A PEFT model that verl has wrapped, on any device.
        mesh: Its device mesh: shards, or replicas by shards.
        dtype: The dtype to which values are rounded, as in the rollout.
        b_scale: The factor of the B matrices, if the rollout stores them scaled.
    """
    # Each replica has all shards, so only the first replica is summed.
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
    """One digest of all tensors of an adapter, as 16 hexadecimal digits."""
    return f"{digest(*sorted(digests.items())):016x}"


@dataclass(frozen=True)
class Comparison:
    """The digests of trainer and rollout.

    Attributes:
        trained: The digest of each of the trainer's tensors, by canonical name.
        held: The digest of each of the rollout's tensors, by canonical name.
    """

    trained: Mapping[str, int]
    held: Mapping[str, int]

    @property
    def is_same(self) -> bool:
        """Whether both have the same tensors with the same digests."""
        return self.trained == self.held

    def line(self) -> str:
        """The result of the comparison, in one line."""
        if self.is_same:
            return f"the rollout holds the trainer's adapter: {len(self.held)} tensors, digest {together(self.held)}"
        return (
            f"the rollout does not hold the trainer's adapter: {self._difference()} (digests: rollout "
            f"{together(self.held)}, trainer {together(self.trained)})"
        )

    def _difference(self) -> str:
        if not self.held:
            return "it holds no adapter"
        lost = sorted(self.trained.keys() - self.held.keys())
        strange = sorted(self.held.keys() - self.trained.keys())
        other = sorted(name for name in self.held.keys() & self.trained.keys() if self.held[name] != self.trained[name])
        kinds = ((lost, "are missing"), (strange, "are not the trainer's"), (other, "have other values"))
        return "; ".join(
            f"{len(names)} of {len(self.trained)} tensors {what}: {', '.join(names[:NAMED])}"
            for names, what in kinds
            if names
        )
