"""A 4-bit base model for LoRA: NF4, as in QLoRA (arXiv:2305.14314, section 3), with bitsandbytes.

`quantize` replaces each linear layer of a model's body with a `FourBitLinear`. bitsandbytes' own layer stores the
scales as plain attributes, which FSDP2 neither shards, moves nor sends to other ranks. Here both codes and scales are
parameters, so FSDP2 treats them like all others.

FSDP2 of torch 2.11 casts every gathered parameter to the compute dtype, including integers. Codes and scales are
therefore stored as the bits of tensors of that dtype, and those tensors are never read as numbers.
"""

from typing import Any

import torch
from torch import nn

BLOCK = 64
"""Weights per scale, as in QLoRA."""


class FourBitLinear(nn.Linear):
    """A frozen linear layer whose weights are 4-bit codes.

    peft treats it as an `nn.Linear` and adds an adapter. Its weights cannot be read as numbers.

    Attributes:
        weight: The codes, two in a byte, (outputs, inputs / 2) bytes.
        scales: One fp32 number for each `BLOCK` weights of a row, (outputs, inputs / BLOCK * 4) bytes.
        bias: The layer's bias, not quantized.
    """

    scales: nn.Parameter

    def __init__(self, linear: nn.Linear, storage: torch.dtype, device: Any = "cpu") -> None:
        """Quantize a layer.

        Args:
            linear: The layer, whose inputs are a multiple of `BLOCK`. On the meta device only the shapes are made.
            storage: The dtype of the stored bits, which is FSDP's compute dtype.
            device: The device that quantizes. The codes then move to the layer's device. A CPU takes seconds per layer.
        """
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        rows, place = linear.out_features, linear.weight.device
        if linear.weight.is_meta:
            codes = torch.empty(rows, linear.in_features // 2, dtype=torch.uint8, device=place)
            scales = torch.empty(rows, linear.in_features // BLOCK, device=place)
        else:
            from bitsandbytes import functional  # pyright: ignore[reportMissingImports]

            weight = linear.weight.detach().to(device)
            codes, state = functional.quantize_4bit(weight, blocksize=BLOCK, quant_type="nf4")
            codes, scales = codes.to(place), state.absmax.to(place)
        self.weight = nn.Parameter(codes.view(rows, -1).view(storage), requires_grad=False)
        self.scales = nn.Parameter(scales.view(rows, -1).view(storage), requires_grad=False)
        self.register_parameter("bias", linear.bias)
        self.requires_grad_(False)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The product with the dequantized weights. The backward pass dequantizes again."""
        from bitsandbytes import matmul_4bit  # pyright: ignore[reportMissingImports, reportPrivateImportUsage]

        device = input.device.type
        if torch.is_autocast_enabled(device):
            input = input.to(torch.get_autocast_dtype(device))
        bias = None if self.bias is None else self.bias.to(input.dtype)
        return matmul_4bit(input, self._codes(), quant_state=self._state(input.dtype), bias=bias)

    def weights(self) -> torch.Tensor:
        """The dequantized weights in fp32, (outputs, inputs)."""
        from bitsandbytes import functional  # pyright: ignore[reportMissingImports]

        return functional.dequantize_4bit(self._codes(), self._state(torch.float32))

    def _codes(self) -> torch.Tensor:
        return self.weight.view(torch.uint8).view(-1, 1)

    def _state(self, dtype: torch.dtype) -> Any:
        from bitsandbytes import functional  # pyright: ignore[reportMissingImports]

        return functional.QuantState(
            absmax=self.scales.view(torch.float32).view(-1),
            shape=torch.Size((self.out_features, self.in_features)),
            dtype=dtype,
            blocksize=BLOCK,
            quant_type="nf4",
        )


def quantize(model: Any, storage: torch.dtype, device: Any = "cpu") -> None:
    """Quantize the linear layers of a model's body in place; embeddings, norms and the head stay as they are.

    Args:
        model: A model of transformers.
        storage: See `FourBitLinear`.
        device: See `FourBitLinear`.

    Raises:
        ValueError: The model has no linear layer whose inputs are a multiple of `BLOCK`.
    """
    found = {
        name: module
        for name, module in model.base_model.named_modules()
        if type(module) is nn.Linear and module.in_features % BLOCK == 0
    }
    if not found:
        raise ValueError(
            f"{type(model).__name__} cannot be quantized: it has no linear layer with a multiple of {BLOCK} inputs"
        )
    while found:
        name, module = found.popitem()
        model.base_model.set_submodule(name, FourBitLinear(module, storage, device))
