"""The FSDP engines for a CPU, for which verl registers none.

verl's engines split logits and values into one tensor per sample and join them again, forwards and backwards. For a
small model that takes as long as the arithmetic. These engines select all needed places at once, and compute no logits
before the first place that predicts a learned token. Inputs are padded on the right under a causal mask, so no needed
place sees padding, and no mask is needed.
"""

from typing import Any

import torch
from verl.utils import tensordict_utils as tu
from verl.utils import torch_functional
from verl.workers.engine.base import EngineRegistry

from veritas_rl.players.processor import join_head_input
from veritas_rl.shared_prompts import VENDOR
from veritas_rl.verl_plugin.columns import first_learned, shortest_prompt
from veritas_rl.verl_plugin.cpu import adapters, attention
from veritas_rl.verl_plugin.engines import EngineWithLMHead, EngineWithValueHead
from veritas_rl.verl_plugin.shared_prompts import SharedPrompts, is_plain


def _known(batch: Any) -> bool:
    """Whether a batch is plain text in padded rows, and needs only log-probabilities and entropy, or values."""
    return is_plain(batch) and not tu.get_non_tensor_data(batch, "use_remove_padding", default=False)


def _real(batch: Any, width: int) -> torch.Tensor:
    """The mask of real tokens in a padded batch: bool, (samples, width)."""
    return torch.arange(width) < batch["input_ids"].offsets().diff()[:, None]


def _inputs(inputs: dict[str, Any], batch: Any) -> dict[str, Any]:
    return {"input_ids": inputs["input_ids"]} if _known(batch) else inputs


def _with_exact_adapter(module: Any) -> Any:
    """The model with trained parameters in fp32: in bf16 most of Adam's steps would be rounded away."""
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    adapters.install(module)
    return module


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")
class CpuEngineWithLMHead(EngineWithLMHead):
    """The engine of actor and reference."""

    def _build_module(self) -> Any:
        module = super()._build_module()
        join_head_input(module)
        attention.install(module)
        return module

    def _build_lora_module(self, module: Any) -> Any:
        return _with_exact_adapter(super()._build_lora_module(module))

    def prepare_model_inputs(self, micro_batch: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        inputs, output_args = super().prepare_model_inputs(micro_batch)
        made = _inputs(inputs, micro_batch)
        if _known(micro_batch):
            # Fine-tuning has no column of prompts.
            first = shortest_prompt(micro_batch) if "prompts" in micro_batch else first_learned(micro_batch)
            # The token before it predicts it.
            made["logits_to_keep"] = made["input_ids"].shape[1] - max(first - 1, 0)
        return made, output_args

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: Any, logits_processor_func: Any
    ) -> dict[str, torch.Tensor]:
        """As verl's method, with zeros at the first places, which have no logits."""
        if not _known(micro_batch):
            return super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)
        offsets = micro_batch["input_ids"].offsets()
        width, kept = int(offsets.diff().max()), output.logits.shape[1]
        real = _real(micro_batch, width)
        with_logits = (torch.arange(width) >= width - kept).expand_as(real)[real]
        logits = output.logits[real[:, width - kept :]]
        if not output_args["temperature_is_one"]:
            temperature = output_args["temperature"].clamp(min=1e-8)
            logits = logits / temperature.repeat_interleave(real[:, width - kept :].sum(1))[:, None]
        labels = output_args["input_ids_rmpad_rolled"][with_logits]
        made = {"log_probs": torch_functional.logprobs_from_logits(logits=logits, labels=labels)}
        if tu.get_non_tensor_data(micro_batch, "calculate_entropy", default=False):
            made["entropy"] = torch_functional.entropy_from_logits(logits)
        return {
            name: torch.nested.nested_tensor_from_jagged(
                flat.new_zeros(len(with_logits)).masked_scatter(with_logits, flat), offsets
            )
            for name, flat in made.items()
        }


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu", vendor=VENDOR)
class CpuEngineWithSharedPrompts(SharedPrompts, CpuEngineWithLMHead):
    """The engine for actor and reference with shared prompts."""


@EngineRegistry.register(model_type="value_model", backend=["fsdp", "fsdp2"], device="cpu")
class CpuEngineWithValueHead(EngineWithValueHead):
    """The engine of the critic."""

    def _build_module(self) -> Any:
        module = super()._build_module()
        attention.install(module)
        return module

    def _build_lora_module(self, module: Any) -> Any:
        return _with_exact_adapter(super()._build_lora_module(module))

    def prepare_model_inputs(self, micro_batch: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        inputs, output_args = super().prepare_model_inputs(micro_batch)
        return _inputs(inputs, micro_batch), output_args

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: Any, logits_processor_func: Any
    ) -> dict[str, torch.Tensor]:
        if not _known(micro_batch):
            return super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)
        values = output.logits.squeeze(-1)
        flat = values[_real(micro_batch, values.shape[1])]
        return {"values": torch.nested.nested_tensor_from_jagged(flat, micro_batch["input_ids"].offsets())}
