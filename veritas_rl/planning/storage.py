"""A run's memory and files on the host: pinned memory, processes, checkpoints."""

import math
from collections import Counter
from collections.abc import Iterable

from veritas_rl.planning.devices import GIB
from veritas_rl.planning.models import Shape
from veritas_rl.planning.serving import Server
from veritas_rl.planning.settings import Role, Settings
from veritas_rl.planning.training import Engine

TRAINER = int(3.0 * GIB)
"""Resident memory of a trainer's process beside its model: torch, CUDA's libraries, verl. Assumed."""

SERVING = int(4.0 * GIB)
"""The same of a rollout server. Assumed."""

PLAYER = int(1.0 * GIB)
"""Of a process that plays tasks. Assumed."""

DRIVER = int(6.0 * GIB)
"""Of the driver, Ray's own processes and TransferQueue. Assumed."""

TOKENIZER = 16 << 20
"""Bytes of the tokenizer and the configuration beside a checkpoint. Assumed: those of Qwen are 16 MB."""


def pinned_bytes(tensors: Iterable[tuple[int, ...]], width: int, shards: int) -> int:
    """Pinned memory of a rank's share of some tensors: torch's allocator rounds each block to a power of two.

    Args:
        tensors: Their shapes.
        width: Bytes of an element.
        shards: Over how many ranks each is divided, by its first dimension.
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
    """What is pinned on the host of one node because it is offloaded."""
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
    if server.backup:
        parts["rollout's weights while it sleeps, pinned"] = settings.gpus * server.backup
    parts |= offloaded
    # verl reads the whole model in every rank where head and embedding are one, else in the first rank of all.
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
        parts[f"{name}'s optimizer"] = 2 * engine.trained * role.weight_bytes
        parts[f"{name}'s tokenizer and configuration"] = TOKENIZER
    return parts
