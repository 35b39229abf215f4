"""Chats of data files: the layouts in which they are written, what a file says of each chat, and what of it no template
shows.

A message is {role, content}, or {from, value} as ShareGPT writes it, in a column `messages` or `conversations`. Text in
a column `system` is a chat's first message.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from veritas_rl.errors import UserError

pc: Any = pyarrow.compute  # its functions are made at import, and have no types

FIELDS = ("role", "content")
"""The fields of a message that every template shows."""

SHAREGPT = ("from", "value")
"""The same fields as ShareGPT names them."""

ROLES = ("system", "user", "assistant", "tool")
SPEAKERS = {"human": "user", "gpt": "assistant", **{role: role for role in ROLES}}
"""The roles of ShareGPT's speakers."""

MESSAGES, CONVERSATIONS, SYSTEM = "messages", "conversations", "system"
"""The columns of chats, and of their system messages."""


def column_of(names: Collection[str], key: str = MESSAGES) -> str:
    """The column of chats: `key`, or `conversations` of a file without the usual `messages`.

    Args:
        names: The file's columns.
        key: The configured column.
    """
    return CONVERSATIONS if key == MESSAGES and key not in names and CONVERSATIONS in names else key


def layout_of(fields: Collection[str]) -> tuple[tuple[str, str], Mapping[str, str]] | None:
    """The names of role and content in a message with these fields, and the roles by their names; None if it is no
    message."""
    if {*FIELDS} <= {*fields}:
        return FIELDS, dict(zip(ROLES, ROLES, strict=True))
    return (SHAREGPT, SPEAKERS) if {*SHAREGPT} <= {*fields} else None


def unknown_role(role: object, known: Mapping[str, str]) -> str:
    """What is wrong with a role, in words."""
    return f"the role {role!r}, which is none of {', '.join(known)}"


def plain_chats(chats: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """A column of chats whose messages have the fields role and content, from either layout. Other fields stay.

    Args:
        chats: The column. If it has no messages, it is returned as it is, and `check_chats` refuses it.
        name: What the message calls it.

    Raises:
        UserError: A message has an unknown role.
    """
    message = _message_type(chats)
    layout = message and layout_of([field.name for field in message])
    if not message or not layout:
        return chats
    (role, content), known = layout
    values, found, first = pa.array(known), [], 0
    for chunk in chats.chunks:
        places = pc.index_in(pc.cast(pc.struct_field(pc.list_flatten(chunk), role), pa.string()), value_set=values)
        given = pc.struct_field(pc.list_flatten(chunk), role)
        for index in np.flatnonzero(pc.and_(pc.is_null(places), pc.is_valid(given)).to_numpy(zero_copy_only=False)):
            row = first + pc.list_parent_indices(chunk)[int(index)].as_py()
            raise UserError(f"row {row} of {name} has {unknown_role(given[int(index)].as_py(), known)}")
        first += len(chunk)
        parts = dict(zip([field.name for field in message], chunk.values.flatten(), strict=True))
        places = pc.index_in(pc.cast(parts.pop(role), pa.string()), value_set=values)
        renamed = {"role": pa.array(known.values()).take(places), "content": parts.pop(content), **parts}
        inside = pa.StructArray.from_arrays([*renamed.values()], [*renamed])
        found.append(type(chunk).from_arrays(chunk.offsets, inside))
    return pa.chunked_array(found) if found else chats


def with_system(chats: pa.ChunkedArray, texts: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Chats of role and content behind their system messages.

    Args:
        chats: The chats, as `check_chats` accepts them.
        texts: The system message of each chat. Null and "" stand for none.
        name: What the message calls the chats.

    Raises:
        UserError: The texts are no text, or a chat has a system message of its own too.
    """
    if texts.null_count == len(texts):
        return chats
    if not pa.types.is_string(texts.type) and not pa.types.is_large_string(texts.type):
        raise UserError(f"the column {SYSTEM} beside {name} has no text, but {texts.type}: make it text")
    rows = np.flatnonzero(pc.greater(pc.binary_length(texts), 0).fill_null(False).to_numpy())
    if (both := np.char.startswith(roles_of(chats)[rows], "system")).any():
        row = rows[int(np.argmax(both))]
        raise UserError(f"row {row} of {name} begins with a system message, and the column {SYSTEM} has another")
    lengths = pc.list_value_length(chats).fill_null(0).to_numpy().astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    messages = pc.list_flatten(chats)
    places = np.insert(np.arange(starts[-1]), starts[rows], starts[-1] + np.arange(len(rows)))
    added = {"role": pa.array([SYSTEM] * len(rows)), "content": texts.take(pa.array(rows)).combine_chunks()}
    fields = [
        pa.concat_arrays([pc.struct_field(messages, name).combine_chunks().cast(kind), added[name].cast(kind)])
        for name, kind in zip(FIELDS, (pa.string(), pa.large_string()), strict=True)
    ]
    lengths[rows] += 1
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    inside = pa.StructArray.from_arrays([field.take(pa.array(places)) for field in fields], FIELDS)
    return pa.chunked_array([pa.ListArray.from_arrays(offsets, inside)])


def _message_type(chats: pa.ChunkedArray) -> Any:
    kind = chats.type
    message = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else None
    return message if message is not None and pa.types.is_struct(message) else None


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
    message = _message_type(chats)
    if message is None or {*FIELDS} - {field.name for field in message}:
        raise UserError(
            f"{name} must be lists of messages with role and content, or with ShareGPT's from and value, not "
            f"{chats.type}"
        )
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
