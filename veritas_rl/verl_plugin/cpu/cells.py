"""Convert columns of a batch to byte strings, one per sample, and back.

TransferQueue sends and stores each cell of a column as a separate tensor. The overhead of such a tensor is many times
the cost of copying its few tokens.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch

from veritas_rl.verl_plugin.columns import jagged

MARK = b"tensor of "
"""The start of a cell. The dtype's name, a colon and the elements follow."""


def is_plain(column: Any) -> bool:
    """Whether a column is a CPU tensor with one sequence of numbers per sample: (samples, any length)."""
    if not isinstance(column, torch.Tensor) or column.dim() != 2 or column.device.type != "cpu":
        return False
    if not column.is_nested:
        return column.layout == torch.strided
    # Separate lengths mean that there are gaps between the sequences.
    return column.layout == torch.jagged and column._lengths is None  # pyright: ignore[reportAttributeAccessIssue]


def pack(column: Any, places: Sequence[int]) -> list[bytes]:
    """The cells of a plain column at these places."""
    values = (column.values() if column.is_nested else column.flatten()).detach().contiguous()
    head = MARK + str(values.dtype).removeprefix("torch.").encode() + b":"
    data = values.view(torch.uint8).numpy().tobytes()
    offsets = column.offsets() if column.is_nested else torch.arange(len(column) + 1) * column.shape[1]
    starts = (offsets * values.element_size()).tolist()
    return [head + data[starts[place] : starts[place + 1]] for place in places]


def is_cell(value: Any) -> bool:
    """Whether a value was made by `pack`."""
    return isinstance(value, bytes) and value.startswith(MARK)


def unpack(cells: Sequence[bytes]) -> torch.Tensor | None:
    """The column of cells from `pack`: (samples, jagged); None if they have several dtypes."""
    head = cells[0][: cells[0].index(b":") + 1]
    if not all(cell.startswith(head) for cell in cells):
        return None
    dtype: torch.dtype = getattr(torch, head[len(MARK) : -1].decode())
    data = bytearray().join(cell[len(head) :] for cell in cells)
    values = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    lengths = [(len(cell) - len(head)) // dtype.itemsize for cell in cells]
    return jagged(values, torch.tensor([0, *accumulate(lengths)]))


def tensor_of(value: Any) -> Any:
    """The sequence of a cell. Other values are returned unchanged."""
    column = unpack([value]) if is_cell(value) else None
    return value if column is None else column.values()


def describe(column: Any) -> dict[str, Any]:
    """The result of TransferQueue's `extract_field_schema` for a plain jagged column that is not empty."""
    shapes = [(length,) for length in column.offsets().diff().tolist()]
    return {
        "dtype": column.dtype,
        "shape": torch.Size(shapes[0]),
        "is_nested": True,
        "is_non_tensor": False,
        "per_sample_shapes": shapes,
    }
