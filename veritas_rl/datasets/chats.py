"""Columns of chats in parquet files: what a file says of each chat, and what of it no template shows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from veritas_rl.errors import UserError

pc: Any = pyarrow.compute  # its functions are made at import, and have no types

FIELDS = ("role", "content")
"""The fields of a message that every template shows."""


def enable_thinking_of(config: Any) -> bool:
    """Whether a hybrid model thinks in the chats of a run, according to verl's node `data`."""
    return bool(config.get("apply_chat_template_kwargs", {}).get("enable_thinking", False))


def replies_of(chats: pa.ChunkedArray) -> np.ndarray:
    """The number of the assistant's messages in each chat of a column."""
    return _by_chat(chats, lambda messages: pc.equal(pc.struct_field(messages, "role"), "assistant"))


def lengths_of(chats: pa.ChunkedArray) -> np.ndarray:
    """The number of bytes of the messages in each chat of a column."""
    return _by_chat(chats, lambda messages: pc.binary_length(pc.struct_field(messages, "content")))


def roles_of(chats: pa.ChunkedArray) -> np.ndarray:
    """The roles of the messages in each chat of a column, joined by commas."""
    joined = []
    for chunk in chats.chunks:
        roles = type(chunk).from_arrays(chunk.offsets, pc.struct_field(chunk.values, "role"))
        joined += pc.binary_join(roles, ",").to_pylist()
    return np.array(joined, dtype=str)


def _by_chat(chats: pa.ChunkedArray, value: Callable[[Any], Any]) -> np.ndarray:
    """The sum of a value of each message, for each chat."""
    sums = [np.zeros(0, dtype=int)]
    for chunk in chats.chunks:
        values = pc.cast(value(pc.list_flatten(chunk)), pa.int64()).fill_null(0).to_numpy()
        parents = pc.list_parent_indices(chunk).to_numpy()
        sums.append(np.bincount(parents, values, minlength=len(chunk)).astype(int))
    return np.concatenate(sums)


def check_chats(chats: pa.ChunkedArray, name: str) -> None:
    """Check that a column's messages have a role and a text, and that each chat has a reply.

    Args:
        chats: The column.
        name: What the message calls it.

    Raises:
        UserError: A message has another form or other fields, or a chat has no reply.
    """
    kind = chats.type
    message = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else None
    if message is None or not pa.types.is_struct(message) or {*FIELDS} - {field.name for field in message}:
        raise UserError(f"{name} must be lists of messages with role and content, not {kind}")
    if not pa.types.is_string(message.field("content").type) and not pa.types.is_large_string(
        message.field("content").type
    ):
        raise UserError(f"{name} has messages whose content is no text: make it text")
    messages = pc.list_flatten(chats)
    for field in message:
        column = pc.struct_field(messages, field.name)
        if field.name in FIELDS and column.null_count:
            raise UserError(f"{name} has messages without {field.name}: give each one")
        if field.name not in FIELDS and column.null_count < len(column):
            raise UserError(
                f"{name} has messages with the field {field.name}, which RL and evaluation never show: leave it out, "
                "and write thinking into content as the model writes it"
            )
    if len(chats) and not (replies := replies_of(chats)).all():
        raise UserError(f"row {int(np.argmin(replies))} of {name} has no message of the assistant to learn")
