"""Forecast a run's host memory and checkpoint sizes."""

import math
from collections import Counter
from collections.abc import Iterable

from veritas_rl.planning.devices import GIB
from veritas_rl.planning.models import Shape
from veritas_rl.planning.serving import Server
from veritas_rl.planning.settings import Role, Settings
from veritas_rl.planning.training import Engine

TRAINER = int(3.0 * GIB)
"""Resident memory of a trainer process without its model: torch, CUDA libraries, verl. Assumed."""

SERVING = int(4.0 * GIB)
"""Resident memory of a rollout server without its model. Assumed."""

PLAYER = int(1.0 * GIB)
"""Resident memory of a process that plays tasks. Assumed."""

DRIVER = int(6.0 * GIB)
"""Resident memory of the driver, Ray's processes and TransferQueue. Assumed."""

TOKENIZER = 16 << 20
"""Bytes of a checkpoint's tokenizer and configuration. Assumed from Qwen, whose files have 16 MB."""

AVERAGE_BYTES = 4
"""Bytes of a weight in the averaged reference, which stays in float32 in host memory and in checkpoints."""


def pinned_bytes(tensors: Iterable[tuple[int, ...]], width: int, shards: int) -> int:
    """Pinned memory of one rank's shards. torch's allocator rounds each block up to a power of two.

    Args:
        tensors: The shapes of the tensors.
        width: Bytes per element.
        shards: The number of ranks that share each tensor, by its first dimension.
    """
    total = 0
    for first, *rest in tensors:
        size = math.ceil(first / shards) * math.prod(rest) * width
        total += 1 << max(0, size - 1).bit_length()
    return total


def _trained(shape: Shape, role: Role) -> list[tuple[int, ...]]:
    if role.lora_rank:
        return list(shape.adapter_tensors(role.lora_rank, role.lora_targets))
    return list(shape.tensors(critic=role.critic))


def offloaded_parts(roles: Iterable[Role], shape: Shape, gpus: int) -> dict[str, int]:
    """Pinned host memory of one node for offloaded tensors, by part."""
    weights = moments = gradients = 0
    for role in roles:
        tensors = _trained(shape, role)
        whole = list(shape.tensors(critic=role.critic)) + (tensors if role.lora_rank else [])
        if role.param_offload:
            codes = Engine(shape, role).codes
            if codes:
                whole = list((Counter(whole) - Counter([*shape.linears.values()] * shape.layers)).elements())
            weights += gpus * pinned_bytes(whole, role.weight_bytes, role.shards)
            weights += gpus * pinned_bytes(codes, 1, role.shards)
        if role.optimizer_offload:
            moments += gpus * 2 * pinned_bytes(tensors, role.weight_bytes, role.shards)
        if role.streamed:
            gradients += gpus * pinned_bytes(tensors, role.weight_bytes, role.shards)
    return {"weights, pinned": weights, "optimizer, pinned": moments, "gradients, pinned": gradients}


def host_parts(settings: Settings, shape: Shape, server: Server) -> dict[str, int]:
    """Memory of one node's host, by part."""
    parts = {
        "processes": settings.gpus * TRAINER
        + settings.gpus // settings.rollout.tensor_parallel * SERVING
        + settings.workers * PLAYER
        + DRIVER
    }
    offloaded = offloaded_parts(settings.roles, shape, settings.gpus)
    if settings.reference and not settings.actor.lora_rank:
        parts["reference, pinned"] = settings.gpus * pinned_bytes(
            shape.tensors(), settings.actor.weight_bytes, settings.actor.shards
        )
    if settings.averaged:
        parts["reference's average"] = settings.gpus * shape.parameters() * AVERAGE_BYTES // settings.actor.shards
    if server.backup:
        parts["rollout's weights while it sleeps, pinned"] = settings.gpus * server.backup
    parts |= offloaded
    # With tied embeddings verl reads the whole model in every rank, else only in the first rank.
    readers = settings.gpus if shape.tied else 1
    parts["loading, at the start"] = readers * shape.parameters() * settings.actor.weight_bytes
    return {name: size for name, size in parts.items() if size}


def checkpoint_parts(roles: Iterable[Role], shape: Shape) -> dict[str, int]:
    """Bytes of one checkpoint on the disk, by part."""
    parts: dict[str, int] = {}
    for role in roles:
        name, engine = "critic" if role.critic else "actor", Engine(shape, role)
        stored = engine.trained if role.lora_only else engine.parameters
        parts[f"{name}'s weights"] = stored * role.weight_bytes
        parts[f"{name}'s optimizer"] = 2 * engine.trained * engine.trained_bytes
        parts[f"{name}'s tokenizer and configuration"] = TOKENIZER
    return parts
