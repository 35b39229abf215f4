"""Patches that make steps on a CPU faster without changing results. They apply only with VERL_PLATFORM=cpu.

Steps on a CPU have small batches, so the overhead of verl, TransferQueue and tensordict per row takes as long as the
arithmetic. docs/benchmarks.md has the gain of each patch, measured with `python benchmarks/cpu_patches.py`.
VERITAS_RL_CPU_PATCHES turns some or all of them off, see `switch`.
"""

import functools
import inspect
from typing import Any

from veritas_rl.verl_plugin.patching import patch_of, require_fault


@patch_of("verl.utils.tensordict_utils")
def selected_rows(module: Any) -> None:
    """Each mini-batch is selected by taking the nested tensors of the whole batch apart: index all its rows at once.

    With 32 mini-batches of 64 rows this takes a third of an update. A mini-batch that is all rows in their order
    is not copied.
    """
    from veritas_rl.verl_plugin.columns import jagged

    original = module.index_select_tensor_dict
    require_fault(original, "selected_tensors = [tensor_lst[idx] for idx in indices]")
    torch = module.torch

    @functools.wraps(original)
    def select(batch: Any, indices: Any) -> Any:
        chosen = torch.as_tensor(indices)
        if batch is None or not len(chosen):
            return original(batch, chosen)
        if torch.equal(chosen, torch.arange(len(batch))):
            return batch.copy()
        cut = {}
        for name, column in batch.items():
            if isinstance(column, torch.Tensor) and column.is_nested and column.lengths() is None and column.dim() == 2:
                starts, lengths = column.offsets()[:-1][chosen], column.offsets().diff()[chosen]
                offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
                shifts = (starts - offsets[:-1]).repeat_interleave(lengths)
                places = torch.arange(len(shifts), device=shifts.device) + shifts
                cut[name] = jagged(column.values()[places], offsets)
        return original(batch.exclude(*cut), chosen).update(cut)

    module.index_select_tensor_dict = select


@patch_of("verl.trainer.ppo.padding_utils")
def short_padding(module: Any) -> None:
    """A padding row has 128 tokens, and every row of its micro-batch is computed at that length: give it 2 tokens."""
    require_fault(
        module.construct_minimal_padding_template, "prompts = torch.full((SYNTHETIC_PADDING_SEQ_LEN - 1,), eos_token_id"
    )
    module.SYNTHETIC_PADDING_SEQ_LEN = 2


@patch_of("verl.workers.engine.utils")
def similar_lengths(module: Any) -> None:
    """Each row of a micro-batch is computed at the length of its longest row: put rows of similar lengths together.

    Where prompts list the legal moves, as in Clobber, a step takes three quarters of the time.
    """
    from veritas_rl.lengths import parts_of_similar_length

    original = module.rearrange_micro_batches
    require_fault(original, "micro_bsz_group_idx = get_seqlen_balanced_partitions(workloads, num_micro_batches")

    @functools.wraps(original)
    def rearrange(batch: Any, max_token_len: int, *args: Any, **kwargs: Any) -> Any:
        # With several ranks, each needs the same number of micro-batches. verl refuses rows that are too long.
        alone = module.torch.distributed.get_world_size() == 1 and kwargs.get("force_group_size", 1) == 1
        lengths = batch["input_ids"].offsets().diff().tolist() if batch["input_ids"].is_nested else []
        if not alone or not lengths or max(lengths) > max_token_len:
            return original(batch, max_token_len, *args, **kwargs)
        parts = parts_of_similar_length(lengths, max_token_len)
        return [module.tu.index_select_tensor_dict(batch, part) for part in parts], parts

    module.rearrange_micro_batches = rearrange


@patch_of("verl.workers.utils.padding")
def padded_responses(module: Any) -> None:
    """The values of replies are cut out and padded in a loop over samples: index all samples at once."""
    original = module.no_padding_2_padding
    require_fault(original, "for resp_len, seq_offset in zip(response_lens, sequence_offsets, strict=True):")

    @functools.wraps(original)
    def pad(tensor: Any, data: Any) -> Any:
        torch = module.torch
        values = tensor.values() if tensor.is_nested else tensor
        if values.ndim > 1 or not data["prompts"].is_nested or "max_response_len" in data:
            return original(tensor, data)
        lengths = data["responses"].offsets().diff()
        ends = (data["prompts"].offsets().diff() + lengths).cumsum(0)
        places = torch.arange(int(lengths.max()), device=values.device)
        inside = places < lengths[:, None]
        # The place before a token predicts the token.
        sources = torch.where(inside, (ends - lengths - 1)[:, None] + places, 0)
        return torch.where(inside, values[sources], 0.0)

    module.no_padding_2_padding = pad


@patch_of("transfer_queue.storage.managers.simple_storage_manager")
def small_cells(module: Any) -> None:
    """TransferQueue sends each cell as a separate tensor, about 10 µs to write and to read: send bytes.

    A step writes and reads about 60 columns with a cell for each reply.
    """
    from veritas_rl.verl_plugin.cpu import cells

    manager = module.AsyncSimpleStorageManager
    metadata: Any = inspect.getmodule(module.extract_field_schema)
    select, pack, schema = manager._select_by_positions, manager._pack_field_values, metadata.extract_field_schema
    for function, line in (
        (select, "unbound = field_data.unbind()"),
        (pack, "return torch.nested.as_nested_tensor(values, layout=torch.jagged)"),
        (schema, "[tuple(t.shape) for t in value.unbind()]"),
    ):
        require_fault(function, line, "TransferQueue")

    @functools.wraps(select)
    def select_by_positions(field_data: Any, positions: list[int]) -> Any:
        return cells.pack(field_data, positions) if cells.is_plain(field_data) else select(field_data, positions)

    @functools.wraps(pack)
    def pack_field_values(values: list[Any]) -> Any:
        if not any(map(cells.is_cell, values)):
            return pack(values)
        column = cells.unpack(values) if all(map(cells.is_cell, values)) else None
        return column if column is not None else pack([cells.tensor_of(value) for value in values])

    @functools.wraps(schema)
    def extract_field_schema(data: Any) -> dict[str, dict[str, Any]]:
        if not len(data):
            return schema(data)
        plain = {name for name, column in data.items() if cells.is_plain(column) and column.is_nested}
        rest = schema(data.select(*(name for name, _ in data.items() if name not in plain)))
        return {name: cells.describe(column) if name in plain else rest[name] for name, column in data.items()}

    manager._select_by_positions = staticmethod(select_by_positions)
    manager._pack_field_values = staticmethod(pack_field_values)
    module.extract_field_schema = metadata.extract_field_schema = extract_field_schema
