"""Assembles a model from the shards of verl's FSDP ranks.

verl has a merger (`python -m verl.model_merger merge --backend fsdp`), and the tests compare with it. It is not used,
because of three things that verl 0.9.1 does:

- It turns every tensor into bfloat16, whatever it was. An update of less than 1/256 of a weight is lost, and a model
  trained in float32 at a small learning rate comes out as its base.
- Of a LoRA checkpoint it writes the frozen base and, beside it, the adapter: what it calls the merged model is the
  base. With adapters alone (`save_lora_only`) it writes the adapter and fails for want of weights.
- Without `lora_train_meta.json` it writes `lora_alpha: 0`, with which an adapter does nothing.
"""

import logging
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from veritas_rl.errors import UserError


def whole_state(files: Sequence[Path]) -> dict[str, torch.Tensor]:
    """The whole tensors, by name, in the dtype in which they were saved.

    Args:
        files: One for each rank, in order: dictionaries of DTensors, and of plain tensors that every rank has whole.
            FSDP2 and FSDP1 write these, over one axis or with replicas over a second.

    Raises:
        UserError: A file is damaged, or they do not belong together.
    """
    ranks = [load_shard(file) for file in files]
    if any(rank.keys() != ranks[0].keys() for rank in ranks):
        raise UserError(f"the shards in {files[0].parent} do not belong together: they hold different tensors")
    # One name at a time, and forgotten at once: the shards are mapped from the disk, so that memory holds one copy.
    return {name: put_together(name, [rank.pop(name) for rank in ranks], files) for name in sorted(ranks[0])}


def load_shard(file: Path) -> dict[str, Any]:
    """What a rank wrote, mapped from the disk.

    Raises:
        UserError: It is damaged.
    """
    # torch maps the file without a look at its checksums, and warns that a mesh was made before its process group.
    try:
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise UserError(f"{file} is damaged: the checksum of {damaged} in it is wrong; use another step")
        mesh = logging.getLogger("torch.distributed.device_mesh")
        level = mesh.level
        mesh.setLevel(logging.ERROR)
        try:
            return torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        finally:
            mesh.setLevel(level)
    except UserError:
        raise
    except Exception as error:  # whatever a damaged file makes torch or zipfile raise
        first = str(error).partition("\n")[0]
        raise UserError(f"{file} is no shard that can be read ({type(error).__name__}: {first})") from error


def put_together(name: str, parts: Sequence[Any], files: Sequence[Path]) -> torch.Tensor:
    """A whole tensor out of each rank's part.

    Args:
        name: What it is called, for errors.
        parts: DTensors, or plain tensors that every rank has whole, in the order of ranks.
        files: The ranks' files.

    Raises:
        UserError: The parts do not belong together.
    """
    first, wrong = parts[0], f"{name} in {files[0].parent} cannot be put together"
    if any(type(part) is not type(first) or part.shape != first.shape for part in parts):
        raise UserError(f"{wrong}: the ranks have different ones")
    if not isinstance(first, DTensor):
        if not all(torch.equal(part, first) for part in parts):
            raise UserError(f"{wrong}: every rank should have the same, and they differ")
        return first
    axes = [axis for axis, placement in enumerate(first.placements) if placement.is_shard()]
    if len(axes) > 1 or any(placement.is_partial() for placement in first.placements):
        raise UserError(f"{wrong}: {first.placements} is more than FSDP does")
    if not axes:
        return first.to_local()
    # The ranks along the axis that is sharded, of the first replica.
    ranks = first.device_mesh.mesh.movedim(axes[0], -1).flatten(0, -2)[0] if first.device_mesh.ndim > 1 else None
    chosen = parts if ranks is None else [parts[rank] for rank in ranks.tolist()]
    placement: Any = first.placements[axes[0]]
    whole = torch.cat([part.to_local() for part in chosen], dim=placement.dim)
    if whole.shape != first.shape:
        raise UserError(f"{wrong}: its parts make {tuple(whole.shape)}, and it was {tuple(first.shape)}")
    return whole
