"""Columns of a batch with sequences of different lengths, as jagged tensors."""

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import torch


def from_rows(rows: Sequence[Sequence[float]], dtype: torch.dtype) -> torch.Tensor:
    """Sequences as a column: (samples, jagged)."""
    offsets = torch.tensor([0, *accumulate(map(len, rows))])
    return jagged(torch.tensor([*chain.from_iterable(rows)], dtype=dtype), offsets)


def jagged(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Concatenated sequences as a column: (samples, jagged)."""
    lengths = offsets.diff()
    # Without these bounds torch pads a column to the total length of all rows.
    least, most = int(lengths.min()), int(lengths.max())
    return torch.nested.nested_tensor_from_jagged(values, offsets, min_seqlen=least, max_seqlen=most)


def row_sums(column: Any) -> torch.Tensor:
    """The sum of each row of a column, a jagged tensor: (samples,)."""
    return torch.nn.functional.pad(column.values().cumsum(0), (1, 0))[column.offsets()].diff()


def shortest_prompt(batch: Any) -> int:
    """The length of the shortest prompt with a learned reply. Padding rows have prompts of one token."""
    lengths, learned = batch["prompts"].offsets().diff(), row_sums(batch["response_mask"]) > 0
    return int((lengths[learned] if learned.any() else lengths).min())


def first_learned(batch: Any) -> int:
    """The first place of a learned token in any row; 0 if there is none, or no column of learned tokens."""
    if "loss_mask" not in batch:
        return 0
    mask, starts = batch["loss_mask"].values(), batch["loss_mask"].offsets()[:-1]
    places = torch.arange(len(mask), device=mask.device) - starts.repeat_interleave(batch["loss_mask"].offsets().diff())
    return int(places[mask > 0].min()) if mask.any() else 0
