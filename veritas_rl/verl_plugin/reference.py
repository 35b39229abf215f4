"""Change the reference model of the KL term during training.

With a fixed reference, self-play ends near an equilibrium of the game with the KL term. With a reference that follows
the policy, it approaches an equilibrium of the game itself: a reference that is refreshed in large steps (the moving
magnet of Sokota et al. 2023; NashPG, arXiv 2510.18183), or the exponential moving average of the weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.distributed.tensor import DTensor
from torch.nn import Module

from veritas_rl.checkpoints.layout import REFERENCE, shard_name
from veritas_rl.checkpoints.shards import load_shard
from veritas_rl.verl_plugin.adapter_shards import local_shares

REFRESH = "refresh_reference"
"""The key of a batch whose reference pass starts with a refresh."""

AVERAGE = "average_reference"
"""The key of a batch whose reference pass starts with an update of the average. Its value is the decay."""


def copy_weights(actor: Module, reference: Module) -> None:
    """Copy the shards of one rank.

    Args:
        actor: A module that FSDP has sharded.
        reference: The same model on the same mesh, on any device, in any dtype.

    Raises:
        ValueError: The modules have different parameters or shards.
    """
    with torch.no_grad():
        for _, source, target in _shards(actor, reference):
            target.copy_(source)


class WeightAverage:
    """The exponential moving average of the actor's weights on one rank.

    It stays in float32 in host memory, because a reference in bfloat16 would lose the small changes of a step.

    Args:
        averages: The averages of an earlier run, by the names of the parameters; None for a new run.
    """

    def __init__(self, averages: Mapping[str, torch.Tensor] | None = None) -> None:
        self._averages = {name: _local(each).float().cpu().clone() for name, each in (averages or {}).items()}

    def update(self, actor: Module, reference: Module, decay: float) -> None:
        """Add the actor's weights to the average, and copy the average to the reference.

        The first call of a new run starts with the actor's weights, which are those of the reference.

        Args:
            actor: A module that FSDP has sharded.
            reference: The same model on the same mesh, on any device, in any dtype.
            decay: The average's share in the new average, in (0, 1).

        Raises:
            ValueError: The modules have different parameters or shards.
        """
        with torch.no_grad():
            for name, source, target in _shards(actor, reference):
                weights = source.float().cpu()
                average = self._averages.setdefault(name, weights.clone())
                target.copy_(average.lerp_(weights, 1 - decay))

    def save(self, actor: Module, file: Path) -> None:
        """Write the averages as a shard of a checkpoint, divided as the actor's weights.

        Args:
            actor: The module whose weights are averaged.
            file: See `average_file`.
        """
        torch.save({name: _divided_as(self._averages[name], each) for name, each in actor.named_parameters()}, file)

    @classmethod
    def load(cls, file: Path) -> "WeightAverage":
        """The averages that `save` has written.

        Raises:
            UserError: The file is damaged.
        """
        return cls(load_shard(file))


class StartAdapter:
    """The adapter with which training began, on one rank. With adapters, verl's reference is the actor's own base.

    The values stay in host memory, outside of the module, so that checkpoints, optimizer and rollout have one adapter.

    Args:
        module: A PEFT model that verl has wrapped, before a checkpoint is loaded.
    """

    def __init__(self, module: Any) -> None:
        reshard(module)
        self._start = [values.cpu().clone() for _, values, _ in local_shares(module)]

    @contextmanager
    def in_place(self, module: Any) -> Iterator[None]:
        """Let the module compute with the adapter of the start.

        Args:
            module: The module of the constructor, on any device, in a pass without gradients.
        """
        trained = self._exchange(module, self._start)
        try:
            yield
        finally:
            self._exchange(module, trained)

    @staticmethod
    def _exchange(module: Any, new: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Write the values of this rank's shards, and return their former values."""
        reshard(module)
        former = []
        with torch.no_grad():
            for (_, values, _), value in zip(local_shares(module), new, strict=True):
                former.append(values.clone())
                values.copy_(value)
        return former


def average_file(folder: str, rank: int, ranks: int) -> Path:
    """The file of a rank's averages in a checkpoint's folder of the actor."""
    return Path(folder) / shard_name(REFERENCE, rank, ranks)


def reshard(module: Module) -> None:
    """Release the parameters that FSDP still holds gathered after a forward pass, and wait for copies of weights."""
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()
        handle = part._handle if isinstance(part, FullyShardedDataParallel) else None
        # Before the first pass, FSDP 1 has no storage for gathered parameters.
        if handle is not None and hasattr(handle.flat_param, "_full_param_padded") and not handle.needs_unshard():
            handle.reshard(True)
    if torch.cuda.is_available():
        torch.cuda.synchronize()  # verl offloads weights without waiting for the copies


def _shards(actor: Module, reference: Module) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """The name of each parameter, and its shard in both modules."""
    # Gathered parameters have the dtype of the computation.
    reshard(actor)
    reshard(reference)
    for (name, new), (other, old) in zip(actor.named_parameters(), reference.named_parameters(), strict=True):
        source, target = _local(new), _local(old)
        if name != other or source.shape != target.shape:
            raise ValueError(f"{name} {tuple(source.shape)} cannot be copied to {other} {tuple(target.shape)}")
        yield name, source, target


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _divided_as(local: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    if not isinstance(weights, DTensor):
        return local
    # On the mesh of the weights, all averages would move to the GPU.
    mesh = weights.device_mesh
    on_host = DeviceMesh("cpu", mesh.mesh, mesh_dim_names=mesh.mesh_dim_names, _init_backend=False)
    layout = {"shape": weights.shape, "stride": weights.stride()}
    return DTensor.from_local(local, on_host, weights.placements, run_check=False, **layout)
