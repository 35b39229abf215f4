"""Engines that compute the prompt of a group once.

In GRPO a prompt stands before each reply of its group, and with short replies most of an update is copies of prompts.
These engines put the replies to one prompt into one sequence: the prompt, then the replies, equal replies once. A mask
keeps the replies apart, and each reply has the positions that it has after its prompt, so results differ by rounding
alone. Logits are computed of replies only.

`actor_rollout_ref.actor.use_prefix_grouper` chooses these engines, by the vendor in verl's registry of engines.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint
from verl.utils import tensordict_utils as tu
from verl.utils import torch_functional
from verl.utils.device import get_device_id
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.engine.utils import postprocess_batch_func

from veritas_rl.lengths import parts_of_similar_length
from veritas_rl.shared_prompts import LONGEST, VENDOR
from veritas_rl.verl_plugin.columns import jagged, row_sums, shortest_prompt
from veritas_rl.verl_plugin.engines import EngineWithLMHead

UNKNOWN = ("use_fused_kernels", "distillation_use_topk", "calculate_sum_pi_squared")
"""Settings of a batch that verl's own engine handles."""


def is_plain(batch: Any) -> bool:
    """Whether a batch is plain text, and needs only log-probabilities and entropy, or values."""
    asked = any(tu.get_non_tensor_data(batch, key, default=False) for key in UNKNOWN)
    return not asked and "multi_modal_inputs" not in batch and batch["position_ids"].dim() == 2


def _shares(batch: Any) -> bool:
    """Whether prompts can be shared in a batch."""
    return is_plain(batch) and "prompts" in batch and "responses" in batch


@dataclass
class Sequence:
    """A prompt with replies to it.

    Attributes:
        length: The tokens of the prompt and of its different replies.
        rows: The rows of each different reply, by its tokens as bytes and its temperature.
    """

    length: int
    rows: dict[tuple[bytes, float], list[int]] = field(default_factory=dict)

    @property
    def all_rows(self) -> list[int]:
        """Its rows, equal replies beside each other."""
        return [*chain.from_iterable(self.rows.values())]


def packed(batch: Any) -> list[Sequence]:
    """Pack the rows of a batch into sequences, in the order of their first rows.

    Args:
        batch: A batch with the jagged columns `prompts` and `responses`, and the temperature of all rows or of each.
    """
    limit: Any = tu.get_non_tensor_data(batch, "max_token_len_per_gpu", default=None)
    most = min(LONGEST, limit or LONGEST)
    sequences: list[Sequence] = []
    open_ones: dict[bytes, Sequence] = {}
    replies = _rows(batch["responses"])
    temperatures = torch.as_tensor(batch["temperature"]).expand(len(replies)).tolist()
    for row, (prompt, reply) in enumerate(zip(_rows(batch["prompts"]), replies, strict=True)):
        asked, said = prompt.tobytes(), (reply.tobytes(), temperatures[row])
        sequence = open_ones.get(asked)
        if sequence is None or (said not in sequence.rows and sequence.length + len(reply) > most):
            sequence = open_ones[asked] = Sequence(len(prompt))
            sequences.append(sequence)
        if said not in sequence.rows:
            sequence.rows[said] = []
            sequence.length += len(reply)
        sequence.rows[said].append(row)
    return sequences


def _rows(column: Any) -> list[Any]:
    """The tokens of each row of a jagged column, as arrays."""
    return np.split(column.values().cpu().numpy(), column.offsets()[1:-1].cpu().numpy())


@dataclass(frozen=True)
class Layout:
    """A micro-batch as packed sequences. Equal replies have logits once.

    Attributes:
        inputs: The model's arguments.
        labels: The reply tokens with logits: (tokens,). Those of rows that only fill a batch may have none.
        rows: The row of each: (tokens,).
        sources: The place in the flat logits that predicts each: (tokens,).
        places: The place of each one's prediction in a column of whole rows: (tokens,).
        equals: For each place of such a column, the place whose prediction it has: (places,).
    """

    inputs: dict[str, Any]
    labels: torch.Tensor
    rows: torch.Tensor
    sources: torch.Tensor
    places: torch.Tensor
    equals: torch.Tensor


def layout(batch: Any, sequences: list[Sequence], *, dtype: torch.dtype) -> Layout:
    """Lay out the sequences of a micro-batch.

    Args:
        batch: The micro-batch.
        sequences: As from `packed`.
        dtype: The dtype of the attention's inputs. torch would convert another mask in each layer, and keep each.
    """
    ids, device = batch["input_ids"], batch["input_ids"].device
    prompts, replies = batch["prompts"].offsets().diff(), batch["responses"].offsets().diff()
    starts = torch.zeros_like(replies)  # the column of each reply
    numbers = torch.zeros_like(replies)  # the number of each reply in its sequence, from 1
    homes = torch.zeros_like(replies)
    computed = torch.zeros_like(replies)  # the row whose reply is computed
    for home, sequence in enumerate(sequences):
        rows = sequence.all_rows
        copies = torch.tensor([len(equal) for equal in sequence.rows.values()], device=device)
        once = torch.tensor([equal[0] for equal in sequence.rows.values()], device=device)
        lengths = replies[once]
        computed[rows] = once.repeat_interleave(copies)
        starts[rows] = (prompts[rows[0]] + lengths.cumsum(0) - lengths).repeat_interleave(copies)
        numbers[rows] = torch.arange(1, len(copies) + 1, device=device).repeat_interleave(copies)
        homes[rows] = home
    width = int((starts + replies).max())
    first = shortest_prompt(batch) - 1

    # Each token of a row: its place in the row, and its column in its sequence. Each row writes its prompt.
    lengths = ids.offsets().diff()
    row = torch.arange(len(lengths), device=device).repeat_interleave(lengths)
    position = torch.arange(len(row), device=device) - ids.offsets()[:-1].repeat_interleave(lengths)
    in_reply = position >= prompts[row]
    column = torch.where(in_reply, starts[row] + position - prompts[row], position)
    flat = homes[row] * width + column
    tokens, positions = (torch.zeros(len(sequences) * width, dtype=torch.int64, device=device) for _ in "ab")
    tokens[flat], positions[flat] = ids.values(), position
    owners = torch.full_like(tokens, -1)
    owners[flat] = torch.where(in_reply, numbers[row], 0)
    owners = owners.view(-1, width)
    # A token sees its prompt and the earlier tokens of its reply. Padding sees padding, since a row of a mask without
    # any token makes NaN.
    seen = (owners[:, None] == 0) | (owners[:, None] == owners[..., None])
    seen = (seen & torch.ones(width, width, dtype=torch.bool, device=device).tril())[:, None]
    mask = torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill(~seen, torch.finfo(torch.bfloat16).min)

    before = torch.where(position == prompts[row], prompts[row], column) - 1
    equals = ids.offsets()[computed[row]] + position
    kept = in_reply & (before >= first) & (computed[row] == row)
    row, before = row[kept], before[kept]
    inputs = {
        "input_ids": tokens.view(-1, width),
        "position_ids": positions.view(-1, width),
        "attention_mask": mask,
        "logits_to_keep": width - first,
    }
    sources = homes[row] * (width - first) + before - first
    return Layout(inputs, ids.values()[kept], row, sources, kept.nonzero()[:, 0] - 1, equals)


class SharedPrompts:
    """A mixin for `EngineWithLMHead`."""

    def forward_backward_batch(
        self: Any, data: Any, loss_function: Callable[..., Any] | None, forward_only: bool = False
    ) -> Any:
        """As verl's method, with micro-batches of whole sequences."""
        if not _shares(data) or not tu.get_non_tensor_data(data, "use_dynamic_bsz", default=True):
            return super().forward_backward_batch(data, loss_function, forward_only)  # pyright: ignore
        learned = data["loss_mask"].sum().to(get_device_id())
        torch.distributed.all_reduce(learned, group=self.get_data_parallel_group())
        ranks = self.get_data_parallel_size()
        tu.assign_non_tensor(data, sp_size=1, batch_num_tokens=learned.item(), dp_size=ranks)
        parts = self._micro_batches(data)
        keeps_outputs = tu.get_non_tensor_data(data, "return_model_output", default=False)
        outputs = []
        for number, part in enumerate(parts, 1):
            last = number == len(parts)
            sync = nullcontext() if forward_only else self._gradient_sync_context(is_last_micro_batch=last)
            with torch.no_grad() if forward_only else nullcontext(), sync:
                rows = tu.index_select_tensor_dict(data, part)
                loss, output = self.forward_step(rows, loss_function=loss_function, forward_only=forward_only)
                if not forward_only:
                    (loss if self.scaler is None else self.scaler.scale(loss)).backward()
                    if not keeps_outputs:
                        output.pop("model_output", None)
            outputs.append(output)
        return postprocess_batch_func(output_lst=outputs, indices=parts, data=data)

    def _micro_batches(self: Any, data: Any) -> list[list[int]]:
        """The rows of each micro-batch. Every rank has as many, because ranks meet in each."""
        sequences = packed(data)
        lengths = [sequence.length for sequence in sequences]
        parts = [
            [row for index in part for row in sequences[index].all_rows]
            for part in parts_of_similar_length(lengths, max(max(lengths), int(data["max_token_len_per_gpu"])))
        ]
        count = torch.tensor(len(parts)).to(get_device_id())
        torch.distributed.all_reduce(count, op=torch.distributed.ReduceOp.MAX, group=self.get_data_parallel_group())
        while len(parts) < count:
            longest = max(range(len(parts)), key=lambda part: len(parts[part]))
            half = len(parts[longest]) // 2
            parts[longest : longest + 1] = parts[longest][:half], parts[longest][half:]
        return parts

    def prepare_model_inputs(self: Any, micro_batch: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        sequences = packed(micro_batch) if _shares(micro_batch) else []
        learned = row_sums(micro_batch["response_mask"]) > 0 if sequences else torch.empty(0)
        if not any(learned[sequence.all_rows].sum() > 1 for sequence in sequences):
            return super().prepare_model_inputs(micro_batch)  # pyright: ignore
        # verl's name of the dtype under autocast; without autocast it is fp32.
        made = layout(micro_batch, sequences, dtype=self._autocast_dtype)
        self._computed_tokens = made.inputs["input_ids"].numel()
        temperature = micro_batch["temperature"]
        one = transformer_impl._is_scalar_unit_temperature(temperature)
        each = torch.as_tensor(temperature, dtype=torch.float32, device=made.rows.device).expand(len(learned))
        return made.inputs, {"layout": made, "temperature_is_one": one, "temperature": each}

    def _entropy(self, logits: torch.Tensor) -> torch.Tensor:
        return torch_functional.entropy_from_logits(logits)

    def prepare_model_outputs(
        self: Any, output: Any, output_args: dict[str, Any], micro_batch: Any, logits_processor_func: Any
    ) -> dict[str, torch.Tensor]:
        """As verl's method, with zeros at the places of prompts."""
        made: Layout | None = output_args.get("layout")
        if made is None:
            return super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)  # pyright: ignore
        logits = output.logits.flatten(0, 1)[made.sources]
        if not output_args["temperature_is_one"]:
            scale = output_args["temperature"].clamp(min=1e-8)[made.rows, None]
            # As the engines do that compute whole rows.
            logits = logits / (scale.to(logits.dtype) if logits.is_cuda else scale)
        entropy = tu.get_non_tensor_data(micro_batch, "calculate_entropy", default=False)
        # flash-attn's kernel would overwrite the logits, which the entropy's backward pass reads too.
        log_probs = torch_functional.logprobs_from_logits(logits, made.labels, inplace_backward=not entropy)
        found = {"log_probs": log_probs, **({"entropy": self._entropy(logits)} if entropy else {})}
        ids = micro_batch["input_ids"]
        return {
            name: jagged(flat.new_zeros(len(ids.values())).index_copy(0, made.places, flat)[made.equals], ids.offsets())
            for name, flat in found.items()
        }


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device=["cuda", "npu"], vendor=VENDOR)
class EngineWithSharedPrompts(SharedPrompts, EngineWithLMHead):
    """The engine of actor and reference on GPUs and NPUs, with shared prompts."""

    def _entropy(self, logits: torch.Tensor) -> torch.Tensor:
        """As verl's engine computes it: compiled, in chunks or again in the backward pass, as configured."""
        settings, compute = self.engine_config, self.compute_entropy_from_logits
        if settings.entropy_from_logits_with_chunking:
            compute = partial(compute, chunk_size=settings.entropy_from_logits_chunk_size)
        return checkpoint(compute, logits, use_reentrant=False) if settings.entropy_checkpointing else compute(logits)
