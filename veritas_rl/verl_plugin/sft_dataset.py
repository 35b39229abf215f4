"""Rows of supervised fine-tuning as verl's trainer reads them: the prompts and replies of RL and evaluation.

verl's own dataset renders each message of a chat alone. That fails for templates that refuse such a chat or write
something before it, and it trains replies in other prompts than those in which the model is asked later.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.utils.data import Dataset

from veritas_rl.chat_template import Learned, asked_of, encoded
from veritas_rl.datasets.chats import (
    FIELDS,
    MESSAGES,
    SYSTEM,
    column_of,
    enable_thinking_of,
    lengths_of,
    plain_chats,
    replies_of,
    roles_of,
    with_system,
)
from veritas_rl.errors import UserError

ENCODED_TOGETHER = 10_000
"""Chats whose texts are encoded together, which bounds the memory."""


class FineTuningRows(Dataset):
    """The sequences of parquet files with chats.

    A chat is one sequence, or several if the template shows earlier turns in another way at later turns
    (`veritas_rl.chat_template.learned`). Sequences of a chat follow each other.

    Args:
        parquet_files: The files.
        tokenizer: The model's tokenizer, with a chat template.
        config: verl's node `data`: messages_key, enable_thinking_key, apply_chat_template_kwargs, max_length,
            truncation, shuffle and seed.
        processor: Not used. verl passes it for images.
        max_samples: The maximum number of chats; without limit if it is not positive. If config.shuffle is set, they
            are drawn, otherwise they are the first.

    Raises:
        UserError: The template does not accept a chat with several replies.
    """

    def __init__(
        self,
        parquet_files: str | Path | Sequence[str | Path],
        tokenizer: Any,
        config: Any,
        processor: Any = None,
        max_samples: int = -1,
    ) -> None:
        files = [parquet_files] if isinstance(parquet_files, str | Path) else list(parquet_files)
        self._tokenizer = tokenizer
        self._max_length: int = config.get("max_length", 1024)
        self._truncation: str = config.get("truncation", "error")
        self._thinking = enable_thinking_of(config)
        messages_key = config.get("messages_key", MESSAGES)
        thinking_key = config.get("enable_thinking_key", "enable_thinking")
        tables = [pq.read_table(path) for path in files]
        self._files = dict(zip(files, map(len, tables), strict=True))
        columns = [column_of(table.column_names, messages_key) for table in tables]
        self._chats = _whole([_chats(table, name) for table, name in zip(tables, columns, strict=True)])
        self._thinks = _whole(
            [
                table.column(thinking_key) if thinking_key in table.column_names else pa.nulls(len(table), pa.bool_())
                for table in tables
            ]
        )
        rows = np.arange(len(self._chats))
        if 0 < max_samples < len(rows):
            drawn = np.random.default_rng(config.get("seed")).choice(len(rows), size=max_samples, replace=False)
            rows = drawn if config.get("shuffle", False) else rows[:max_samples]
        parts = np.ones(len(rows), dtype=int)
        for place in np.flatnonzero(replies_of(self._chats)[rows] > 1):
            parts[place] = len(self._asked(rows[place]))
        self._rows = np.repeat(rows, parts)
        """The chat of each sequence."""
        self._parts = np.arange(len(self._rows)) - np.repeat(np.cumsum(parts) - parts, parts)
        """The number of each sequence in its chat."""

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """A sequence: input_ids, position_ids and loss_mask, each of shape (tokens,).

        Raises:
            UserError: The template does not accept the chat, or the sequence is too long and truncation is "error".
        """
        row = self.truncated(self.learned(index))
        ids, mask = torch.tensor(row.ids), torch.tensor(row.mask)
        return {"input_ids": ids, "position_ids": torch.arange(len(ids)), "loss_mask": mask}

    def learned(self, index: int) -> Learned:
        """A whole sequence.

        Raises:
            UserError: The template does not accept the chat.
        """
        row = self._rows[index]
        asked = self._asked(row)[self._parts[index]]
        return encoded(self._tokenizer, asked, enable_thinking=self._enable_thinking(row))

    def truncated(self, row: Learned) -> Learned:
        """A sequence within config.max_length.

        Raises:
            UserError: It is too long, and truncation is "error".
        """
        if len(row.ids) <= self._max_length:
            return row
        if self._truncation == "error":
            raise UserError(
                f"a demonstration has {len(row.ids)} tokens, more than data.max_length={self._max_length}: raise "
                "data.max_length, or set data.truncation=left"
            )
        kept = slice(-self._max_length, None) if self._truncation == "left" else slice(self._max_length)
        # Nothing is left that predicts the first token.
        return Learned(row.ids[kept], [0, *row.mask[kept][1:]])

    def kinds(self) -> list[int]:
        """The index of one sequence for each order of roles. Templates refuse roles more often than texts."""
        return np.unique(roles_of(self._chats)[self._rows], return_index=True)[1].tolist()

    def name_of(self, index: int) -> str:
        """The place of a sequence's chat, such as "row 3 of train.parquet"; rows are counted from 0."""
        row = int(self._rows[index])
        for path, count in self._files.items():
            if row < count:
                return f"row {row} of {path}"
            row -= count
        raise IndexError(index)

    def may_exceed(self, tokens: int) -> list[int]:
        """The indices of all sequences that may have more than `tokens` tokens, by the tokens of their texts.

        The texts of a chat are encoded together with many others, which takes less time than a template does.

        Raises:
            UserError: The template does not accept an order of roles.
        """
        roles, first = np.unique(roles_of(self._chats), return_inverse=True)
        around = np.array([self._bytes_around(order.split(",")) for order in roles], dtype=int)[first]
        lengths = lengths_of(self._chats)
        # No text has more tokens than bytes.
        long = np.flatnonzero(lengths + around > tokens)
        for start in range(0, len(long), ENCODED_TOGETHER):
            rows = long[start : start + ENCODED_TOGETHER]
            chats = [[str(message["content"]) for message in chat] for chat in self._chats.take(rows).to_pylist()]
            encoded = self._tokenizer([text for texts in chats for text in texts], add_special_tokens=False)
            counts = np.fromiter(map(len, encoded["input_ids"]), dtype=int)
            of_chat = np.repeat(np.arange(len(rows)), list(map(len, chats)))
            lengths[rows] = np.bincount(of_chat, counts, minlength=len(rows))
        return np.flatnonzero((lengths + around)[self._rows] > tokens).tolist()

    def _bytes_around(self, roles: Sequence[str]) -> int:
        """The bytes that the template adds to the texts of a chat, with one for the start of each text."""
        longest = 0
        for thinks in {self._thinking, *self._thinks.unique().drop_null().to_pylist()}:
            chat = [{"role": role, "content": "x"} for role in roles]
            for asked in asked_of(self._tokenizer, chat, enable_thinking=thinks):
                ids = encoded(self._tokenizer, asked, enable_thinking=thinks).ids
                longest = max(longest, len(self._tokenizer.decode(ids).encode()))
        return longest + len(roles)

    def _asked(self, row: int) -> Any:
        messages = [{name: message[name] for name in FIELDS} for message in self._chats[row].as_py()]
        return asked_of(self._tokenizer, messages, enable_thinking=self._enable_thinking(row))

    def _enable_thinking(self, row: int) -> bool:
        own = self._thinks[row].as_py()
        return self._thinking if own is None else bool(own)


def _chats(table: pa.Table, name: str) -> pa.ChunkedArray:
    """The chats of a file, with their system messages."""
    chats = plain_chats(table.column(name), name)
    return with_system(chats, table.column(SYSTEM), name) if SYSTEM in table.column_names else chats


def _whole(columns: Sequence[Any]) -> pa.ChunkedArray:
    """One column of those of several files, whose messages may have other fields."""
    named = [pa.table({"column": column}) for column in columns]
    return pa.concat_tables(named, promote_options="permissive").column("column")
