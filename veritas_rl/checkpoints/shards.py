"""Assemble a model from the shards of verl's FSDP ranks.

verl's own merger (`python -m verl.model_merger merge --backend fsdp`) is only used in tests for comparison, because
verl 0.9.1 has three faults:

- It casts every tensor to bfloat16. Updates of less than 1/256 of a weight are lost, and the merge of a model trained
  in float32 at a small learning rate equals its base.
- For a LoRA checkpoint, its merged model is the frozen base, with the adapter beside it. With adapters only
  (`save_lora_only`) it writes the adapter and fails because the base is missing.
- Without `lora_train_meta.json` it writes `lora_alpha: 0`, with which an adapter has no effect.
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
    """The full tensors by name, in the dtype in which they were saved.

    Args:
        files: One file per rank, in order: dictionaries of DTensors, and of plain tensors of which every rank has a
            full copy. FSDP1 and FSDP2 write them, sharded over one axis, optionally with replicas over a second.

    Raises:
        UserError: A file is damaged, or the files do not belong together.
    """
    ranks = [load_shard(file) for file in files]
    if any(rank.keys() != ranks[0].keys() for rank in ranks):
        raise UserError(
            f"the shards in {files[0].parent} do not belong together, because their tensors differ: use another step"
        )
    # Shards are memory-mapped, and each tensor is released after use, so that memory holds one copy.
    return {name: put_together(name, [rank.pop(name) for rank in ranks], files) for name in sorted(ranks[0])}


def load_shard(file: Path) -> dict[str, Any]:
    """Load a rank's shard, memory-mapped.

    Raises:
        UserError: The file is damaged.
    """
    # torch maps the file without checking its checksums, and warns that a mesh was made before its process group.
    try:
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise UserError(f"{file} is damaged, because the checksum of {damaged} in it is wrong: use another step")
        mesh = logging.getLogger("torch.distributed.device_mesh")
        level = mesh.level
        mesh.setLevel(logging.ERROR)
        try:
            return torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        finally:
            mesh.setLevel(level)
    except UserError:
        raise
    except Exception as error:  # torch and zipfile raise many types of errors for a damaged file
        first = str(error).partition("\n")[0]
        raise UserError(f"the shard {file} cannot be read ({type(error).__name__}: {first})") from error


def put_together(name: str, parts: Sequence[Any], files: Sequence[Path]) -> torch.Tensor:
    """Assemble a tensor from each rank's part.

    Args:
        name: The tensor's name, for errors.
        parts: DTensors, or plain tensors of which every rank has a full copy, in the order of ranks.
        files: The ranks' files.

    Raises:
        UserError: The parts do not belong together.
    """
    first, wrong = parts[0], f"{name} in {files[0].parent} cannot be assembled"
    if any(type(part) is not type(first) or part.shape != first.shape for part in parts):
        raise UserError(f"{wrong}: its type or shape differs between ranks")
    if not isinstance(first, DTensor):
        if not all(torch.equal(part, first) for part in parts):
            raise UserError(f"{wrong}: its values differ between ranks and should be equal")
        return first
    axes = [axis for axis, placement in enumerate(first.placements) if placement.is_shard()]
    if len(axes) > 1 or any(placement.is_partial() for placement in first.placements):
        raise UserError(f"{wrong}: the placements {first.placements} are not FSDP's")
    if not axes:
        return first.to_local()
    # The ranks along the axis that is sharded, of the first replica.
    ranks = first.device_mesh.mesh.movedim(axes[0], -1).flatten(0, -2)[0] if first.device_mesh.ndim > 1 else None
    chosen = parts if ranks is None else [parts[rank] for rank in ranks.tolist()]
    placement: Any = first.placements[axes[0]]
    whole = torch.cat([part.to_local() for part in chosen], dim=placement.dim)
    if whole.shape != first.shape:
        raise UserError(f"{wrong}: its parts have shape {tuple(whole.shape)} together, not {tuple(first.shape)}")
    return whole
