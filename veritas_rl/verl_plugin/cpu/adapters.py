"""Adapters on a CPU.

PEFT scales an adapter's result and adds it to the base's, each time into new memory. Here the small product in the
middle is scaled, and the result is added in place. While no gradient is needed, an adapter may be merged instead.
Results differ by rounding alone.
"""

from types import MethodType
from typing import Any

import torch
from peft.tuners.lora import Linear


def install(model: Any) -> None:
    """Let the adapters of a model add their results in place."""
    for module in model.modules():
        if isinstance(module, Linear) and not module.lora_variant and not any(module.lora_bias.values()):
            module.forward = MethodType(_forward, module)


def _forward(self: Any, x: torch.Tensor) -> torch.Tensor:
    if self.disable_adapters and self.merged:
        self.unmerge()
    result = self.base_layer(x)
    if self.disable_adapters or self.merged:
        return result
    for name in self.active_adapters:
        down, up, dropout = self.lora_A[name], self.lora_B[name], self.lora_dropout[name]
        x = self._cast_input_dtype(x, down.weight.dtype)
        result = result.add_(up(down(dropout(x)) * self.scaling[name]))
    return result


def merge(model: Any) -> None:
    """Add the adapters of a model in fp32 to its weights, until `unmerge`.

    A model in another dtype stays as it is, because its weights would be rounded to that dtype.
    """
    if model.dtype == torch.float32:
        for module in _adapted(model):
            module.merge()


def unmerge(model: Any) -> None:
    """Take merged adapters off again."""
    for module in _adapted(model):
        if module.merged:
            module.unmerge()


def _adapted(model: Any) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, Linear)]
