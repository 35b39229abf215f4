"""Columns of a batch in which each sample has a sequence of its own length: jagged tensors."""

from collections.abc import Sequence
from itertools import accumulate, chain

import torch


def from_rows(rows: Sequence[Sequence[float]], dtype: torch.dtype) -> torch.Tensor:
    """Sequences as a column: (samples, jagged)."""
    offsets = torch.tensor([0, *accumulate(map(len, rows))])
    return jagged(torch.tensor([*chain.from_iterable(rows)], dtype=dtype), offsets)


def jagged(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Sequences that stand one after the other as a column: (samples, jagged)."""
    lengths = offsets.diff()
    # Without the bounds torch pads a column to the length of all rows together.
    least, most = int(lengths.min()), int(lengths.max())
    return torch.nested.nested_tensor_from_jagged(values, offsets, min_seqlen=least, max_seqlen=most)
