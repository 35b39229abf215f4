"""The keys and values of a running batch: one buffer of slots in each layer, with a separate length for every row.

The caches of transformers give all rows one length. A batch of different lengths must be padded, and a row that joins
or leaves moves all others. With slots a step writes one column per row in place. A row that leaves costs one copy, and
each part of a row that divides another.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

COLUMN_BLOCK = 32
"""Slots grow in blocks of this many tokens."""

GROUPED = "sdpa_grouped"
"""The name in transformers of the attention that `read_slots_in_place` installs."""


def read_slots_in_place(model: Any) -> None:
    """Let a model decode without copying its keys and values.

    With a mask, the "sdpa" of transformers repeats keys and values for every query head that shares them. That takes
    most of a step's time when prompts are long. With one query token, the query heads that share keys and values can be
    computed as the tokens of one head. "eager" is not changed.

    Raises:
        ValueError: The model has another attention implementation.
    """
    given = model.config._attn_implementation
    if given not in ("sdpa", "eager", GROUPED):
        raise ValueError(f"attn_implementation must be sdpa or eager, got {given}")
    if given == "sdpa":
        model.set_attn_implementation(GROUPED)


def _grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of `query` [rows, heads, tokens, size] over fewer key-value heads: [rows, tokens, heads, size]."""
    rows, heads, tokens, size = query.shape
    shared = key.shape[1]
    if tokens > 1 or heads == shared:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    grouped = query.reshape(rows, shared, heads // shared, size)
    output = scaled_dot_product_attention(grouped, key, value, attn_mask=attention_mask, scale=scaling)
    return output.reshape(rows, 1, heads, value.shape[-1]), None


AttentionInterface.register(GROUPED, _grouped_attention)
AttentionMaskInterface.register(GROUPED, sdpa_mask)


class _SlotLayer(CacheLayerMixin):
    """Keys and values of one layer, [rows, heads, columns, head size]; columns beyond a row's length are masked."""

    # In transformers these are None before the first update; in a slot they never are.
    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, slots: "SlotKVCache", keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self._slots = slots
        self.keys = keys  # pyright: ignore[reportIncompatibleVariableOverride]
        self.values = values  # pyright: ignore[reportIncompatibleVariableOverride]
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new column of each row, and return all columns up to the longest row."""
        count, span = self._slots.count, self._slots.span
        at = (self._slots.row_index[:count], slice(None), self._slots.positions)
        self.keys[at] = key_states[:, :, 0]
        self.values[at] = value_states[:, :, 0]
        return self.keys[:count, :, :span], self.values[:count, :, :span]

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        raise NotImplementedError("slots are allocated by `write` and `reserve`")

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._slots.span, 0

    def get_seq_length(self) -> int:
        # The length of the longest row; the attention mask hides the rest of shorter rows.
        return self._slots.span - 1

    def get_max_cache_shape(self) -> int:
        return self.keys.shape[2]


class SlotKVCache:
    """The slots of a running batch. Row i of the batch has slot i of every layer.

    Args:
        max_rows: The maximum number of slots.
    """

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self.clear()

    def clear(self) -> None:
        """Drop all rows and free the memory."""
        self._layers: list[_SlotLayer] = []
        self._cache: Cache | None = None
        self.count = 0
        self.span = 0
        self.columns = 0

    def write(self, prefilled: DynamicCache, source: Sequence[int], first: int, rows: int, columns: int) -> None:
        """Copy rows of a prefilled cache into the slots from `first` on.

        Args:
            prefilled: The cache of a prefill, padded to the right.
            source: The row of `prefilled` for each slot.
            first: The first slot to write.
            rows: The number of slots to allocate, including slots that are written later.
            columns: The number of tokens for which each slot must have space.
        """
        layers: list[tuple[torch.Tensor, torch.Tensor]] = [
            (layer.keys, layer.values)  # pyright: ignore
            for layer in prefilled.layers
        ]
        if not self._layers:
            empty = [
                (keys.new_empty(0, *keys.shape[1:]), values.new_empty(0, *values.shape[1:])) for keys, values in layers
            ]
            self._layers = [_SlotLayer(self, keys, values) for keys, values in empty]
            self._cache = Cache(layers=[*self._layers])
        self.reserve(rows, columns)
        one_each = source == list(range(len(source)))
        for slot, (keys, values) in zip(self._layers, layers, strict=True):
            at = slice(first, first + len(source))
            width = keys.shape[2]
            slot.keys[at, :, :width] = keys if one_each else keys[source]
            slot.values[at, :, :width] = values if one_each else values[source]

    def reserve(self, rows: int, columns: int) -> None:
        """Allocate at least this many rows of this many tokens; the content is kept."""
        have_rows, have_columns = (self._layers[0].keys.shape[0], self.columns)
        if rows <= have_rows and columns <= have_columns:
            return
        if rows > have_rows:
            # The size doubles, so that not every added row copies the whole buffer.
            rows = min(max(rows, 2 * have_rows), self._max_rows)
        rows = max(rows, have_rows)
        columns = max(-(-columns // COLUMN_BLOCK) * COLUMN_BLOCK, have_columns)
        for slot in self._layers:
            slot.keys = _grown(slot.keys, rows, columns)
            slot.values = _grown(slot.values, rows, columns)
        self.columns = columns
        self.row_index = torch.arange(rows, device=self._layers[0].keys.device)

    def set_rows(self, tokens: Sequence[int], lengths: Sequence[int]) -> None:
        """Set the next input token and the current length of each row."""
        device = self._layers[0].keys.device
        self.count = len(tokens)
        self.tokens = torch.tensor(tokens, device=device)
        self.positions = torch.tensor(lengths, device=device)

    def decode_inputs(self, span: int) -> dict[str, Any]:
        """The model's arguments for one token of every row.

        Args:
            span: The length of the longest row, including its input token.
        """
        self.span = span
        positions = self.positions.unsqueeze(1)
        return {
            "input_ids": self.tokens.unsqueeze(1),
            "position_ids": positions,
            "attention_mask": torch.arange(span, device=positions.device) <= positions,
            "past_key_values": self._cache,
        }

    def advance(self, tokens: Sequence[int]) -> None:
        """Set the next input token of each row after a step."""
        self.tokens = torch.tensor(tokens, device=self.positions.device)
        self.positions = self.positions + 1

    def copy(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy the keys and values of slots to other slots, none of which is a source."""
        if not sources:
            return
        source = torch.tensor(sources, device=self.tokens.device)
        target = torch.tensor(targets, device=self.tokens.device)
        for slot in self._layers:
            slot.keys[target, :, : self.span] = slot.keys[source, :, : self.span]
            slot.values[target, :, : self.span] = slot.values[source, :, : self.span]


def _grown(tensor: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    # Zeros instead of uninitialized memory: attention multiplies masked columns by 0, and 0 times NaN is NaN.
    grown = tensor.new_zeros(rows, tensor.shape[1], columns, tensor.shape[3])
    grown[: tensor.shape[0], :, : tensor.shape[2]] = tensor
    return grown
