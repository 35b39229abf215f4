"""Refresh the reference model of the KL term with the actor's weights.

With a fixed reference, self-play ends near an equilibrium of the game with the KL term. With a reference that follows
the policy in large steps, it approaches an equilibrium of the game itself (the moving magnet of Sokota et al. 2023;
NashPG, arXiv 2510.18183).
"""

import torch
from torch.distributed.tensor import DTensor
from torch.nn import Module

REFRESH = "refresh_reference"
"""The key of a batch whose reference pass starts with a refresh."""


def copy_weights(actor: Module, reference: Module) -> None:
    """Copy the shards of one rank.

    Args:
        actor: A module that FSDP has sharded.
        reference: The same model on the same mesh, on any device, in any dtype.

    Raises:
        ValueError: The modules have different parameters or shards.
    """
    with torch.no_grad():
        for (name, new), (other, old) in zip(actor.named_parameters(), reference.named_parameters(), strict=True):
            source, target = (each.to_local() if isinstance(each, DTensor) else each for each in (new, old))
            if name != other or source.shape != target.shape:
                raise ValueError(f"{name} {tuple(source.shape)} cannot be copied to {other} {tuple(target.shape)}")
            target.copy_(source)
