"""Read a LoRA adapter inside a module of FSDP 1 or 2: this rank's shard, or the gathered adapter."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import distributed
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

WRAPPERS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
"""Name parts that FSDP and gradient checkpointing add."""


def is_adapter(name: str) -> bool:
    """Whether a weight belongs to a LoRA adapter."""
    return "lora_" in name


def file_name(name: str) -> str:
    """The name that a parameter of a wrapped PEFT model has in PEFT's files."""
    for wrapper in WRAPPERS:
        name = name.replace(wrapper, "")
    return name.replace(".default", "")


def local_shares(module: Any) -> Iterator[tuple[str, torch.Tensor, torch.Tensor | None]]:
    """This rank's part of each tensor of the adapter.

    Args:
        module: A PEFT model that verl has wrapped, on any device.

    Yields:
        The name in PEFT's files, the flat values, which are views of the module's, and their flat indices in the full
        tensor, or None if the part is the full tensor.
    """
    flat = list(_flat_parameters(module))
    for name, values, start, shape, _ in flat:
        part = values.numel() < shape.numel()
        yield name, values, start + torch.arange(values.numel(), device=values.device) if part else None
    if flat:
        return
    for name, parameter in _parameters(module):
        local = parameter.to_local().detach() if isinstance(parameter, DTensor) else parameter.detach()
        if not isinstance(parameter, DTensor) or local.numel() == parameter.numel():
            yield file_name(name), local.view(-1), None
            continue
        shape, offset = compute_local_shape_and_global_offset(
            parameter.shape, parameter.device_mesh, parameter.placements
        )
        places = torch.zeros((), dtype=torch.int64, device=local.device)
        for size, start, extent in zip(shape, offset, parameter.shape, strict=True):
            places = places[..., None] * extent + (start + torch.arange(size, device=local.device))
        yield file_name(name), local.view(-1), places.flatten()


def peft_model(module: Any) -> Any:
    """The PEFT model in a module that verl has wrapped; None if the module has no adapter."""
    model = getattr(module, "_fsdp_wrapped_module", module)
    return model if hasattr(model, "peft_config") else None


def gathered(module: Any) -> dict[str, torch.Tensor]:
    """The full adapter on the CPU, by the names in PEFT's files. All ranks must call this function together.

    Tensors are gathered one by one, and the base is not gathered.

    Args:
        module: A PEFT model that verl has wrapped.
    """
    found: dict[str, torch.Tensor] = {}
    for name, values, start, shape, group in _flat_parameters(module):
        whole = values.new_zeros(shape.numel())
        whole[start : start + values.numel()] = values
        if group is not None:
            distributed.all_reduce(whole, group=group)
        found[name] = whole.view(shape).cpu()
    if found:
        return found
    for name, parameter in _parameters(module):
        whole = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
        found[file_name(name)] = whole.detach().cpu()
    return found


def _parameters(module: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Adapter parameters of FSDP 2, from the sharded state. During a pass, parameters are gathered and rounded."""
    return ((name, tensor) for name, tensor in module.state_dict().items() if is_adapter(name))


def _flat_parameters(module: Any) -> Iterator[tuple[str, torch.Tensor, int, torch.Size, Any]]:
    """Adapter parameters of FSDP 1: name, this rank's values, their start, the shape, and the process group that shards
    the tensor, or None."""
    for prefix, unit in module.named_modules():
        handle = getattr(unit, "_handle", None)
        if handle is None or not hasattr(handle, "flat_param"):
            continue
        flat = handle.flat_param
        # Before the first pass only the shard exists.
        local = getattr(flat, "_local_shard", flat).detach()
        for name, shape, shard in zip(flat._fqns, flat._shapes, flat._shard_param_infos, strict=True):
            full = f"{prefix}.{name}"
            if not is_adapter(full):
                continue
            values, start = local[:0], 0
            if shard.in_shard:
                values = local[shard.offset_in_shard : shard.offset_in_shard + shard.numel_in_shard]
                start = shard.intra_param_start_idx
            yield file_name(full), values, start, shape, handle.process_group if handle.uses_sharded_strategy else None
