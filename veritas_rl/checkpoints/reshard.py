"""Reshard a checkpoint from N to M ranks, for example after a node was lost or added.

verl reads only `..._world_size_M_rank_R.pt`. These files are written beside those of the N ranks, which remain usable.
Values are only divided differently. No value changes.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

from veritas_rl.checkpoints.layout import REFERENCE, reading, shard_files, shard_name
from veritas_rl.checkpoints.shards import load_shard, put_together
from veritas_rl.errors import UserError

KINDS = ("extra_state", "optim", "model")
"""The files of each rank."""


def reshard(checkpoint: Path, ranks: int, roles: Mapping[str, int]) -> None:
    """Write the files for another number of ranks.

    Args:
        checkpoint: `.../global_step_N` with the files of the ranks that wrote it.
        ranks: The new number of ranks.
        roles: verl's `fsdp_size`, the number of ranks that share a role's weights, for `actor` and optionally `critic`.
            -1, or `ranks` and more, means all ranks.

    Raises:
        UserError: A file is damaged or was written by FSDP1, or the disk is full.
    """
    with reading(checkpoint):
        for role, size in roles.items():
            for kind in (REFERENCE, *KINDS):
                files = shard_files(checkpoint, role, kind)
                if kind != REFERENCE or files[0].is_file():
                    _reshard(files, ranks, size)


def _reshard(files: Sequence[Path], ranks: int, size: int) -> None:
    folder, kind = files[0].parent, files[0].name.partition("_world_size_")[0]
    targets = [folder / shard_name(kind, rank, ranks) for rank in range(ranks)]
    if kind == "extra_state":
        # The learning rate schedule is the same in all files. Each has its own random state.
        for rank, target in enumerate(targets):
            _write(target, partial(shutil.copyfile, files[rank % len(files)]))
        return
    parts = [load_shard(file) for file in files]
    for rank, target in enumerate(targets):
        with _as_rank(rank, ranks):
            _write(target, partial(torch.save, _divided(parts, ranks, size, files)))


def _divided(parts: Sequence[Any], ranks: int, size: int, files: Sequence[Path], name: str = "") -> Any:
    """The current rank's part of a value, made from the parts of all old ranks."""
    first = parts[0]
    if isinstance(first, dict):
        if any(part.keys() != first.keys() for part in parts):
            raise UserError(
                f"the shards in {files[0].parent} do not belong together, because their tensors differ: use another "
                "step"
            )
        below = {key: [part[key] for part in parts] for key in first}
        return {key: _divided(held, ranks, size, files, f"{name}.{key}") for key, held in below.items()}
    if isinstance(first, DTensor):
        whole = put_together(name, parts, files)
        mesh, placements = _mesh(first.device_mesh.device_type, ranks, size), _placements(first, ranks, size)
        # Without a source rank, each rank cuts its part from its own copy.
        cut = distribute_tensor(whole, mesh, placements, src_data_rank=None)
        return DTensor.from_local(
            cut.to_local().clone(), mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride()
        )
    if isinstance(first, torch.Tensor):
        return put_together(name, parts, files)
    return first


def _placements(first: DTensor, ranks: int, size: int) -> list[Placement]:
    shards = [placement for placement in first.placements if placement.is_shard()] or [Shard(0)]
    return list(shards) if _whole(ranks, size) else [Replicate(), *shards]


def _whole(ranks: int, size: int) -> bool:
    return size < 0 or size >= ranks


def _mesh(device: str, ranks: int, size: int) -> DeviceMesh:
    """The mesh that verl's `create_device_mesh` makes."""
    every = torch.arange(ranks)
    if _whole(ranks, size):
        return DeviceMesh(device, every, mesh_dim_names=("fsdp",), _init_backend=False)
    return DeviceMesh(device, every.view(-1, size), mesh_dim_names=("ddp", "fsdp"), _init_backend=False)


@contextmanager
def _as_rank(rank: int, ranks: int) -> Iterator[None]:
    """Act as one of several ranks that do not communicate."""
    distributed.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())
    try:
        yield
    finally:
        distributed.destroy_process_group()


def _write(target: Path, write: Callable[[Path], object]) -> None:
    beside = target.with_name(f".{target.name}")
    try:
        write(beside)
        beside.replace(target)
    except (OSError, RuntimeError) as error:
        beside.unlink(missing_ok=True)
        raise UserError(f"{target} cannot be written ({error})") from error
