"""The rows of data files, and writers that give the same bytes for the same rows."""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.envs.base import Message
from veritas_rl.errors import UserError

ROW_GROUP = 1 << 16
"""Rows of a group in a parquet file."""

PARQUET: Mapping[str, Any] = {
    "version": "2.6",
    "data_page_version": "1.0",
    "compression": "snappy",
    "use_dictionary": True,
    "write_statistics": True,
    "store_schema": True,
}
"""The options of writers of parquet, all of them, so that new defaults of pyarrow do not change the files."""


def sft_row(
    messages: Sequence[Message], response: str, data_source: str, extra_info: Mapping[str, Any]
) -> dict[str, Any]:
    """A row for supervised fine-tuning: `messages` is the conversation with the answer, which the SFT trainer reads.
    `prompt` is the question as text, and `response` the answer."""
    return {
        "data_source": data_source,
        "prompt": "\n\n".join(message["content"] for message in messages),
        "response": response,
        "messages": [*map(dict, messages), {"role": "assistant", "content": response}],
        "extra_info": dict(extra_info),
    }


def rl_row(
    messages: Sequence[Message],
    ground_truth: str,
    data_source: str,
    extra_info: Mapping[str, Any],
    task_id: str,
    task_type: str,
    seed: int,
) -> dict[str, Any]:
    """A row for reinforcement learning: the question, and the reward function's inputs."""
    return {
        "data_source": data_source,
        "prompt": [*map(dict, messages)],
        "reward_model": {"style": "rule", "ground_truth": ground_truth},
        "extra_info": dict(extra_info),
        "task_id": task_id,
        "task_type": task_type,
        "seed": seed,
    }


def check_share(val_ratio: float) -> None:
    """Check the share of validation rows.

    Raises:
        UserError: The share is not in [0, 1).
    """
    if not 0 <= val_ratio < 1:
        raise UserError(f"val_ratio must be in [0, 1), not {val_ratio:g}")


def validation_rows(groups: np.ndarray, val_ratio: float) -> np.ndarray:
    """Which rows go to the validation part: whole groups, in the order of their numbers, until it has enough rows.

    Args:
        groups: The number of each row's group, drawn at random.
        val_ratio: The wanted share of the rows.

    Returns:
        Whether each row is one for validation.

    Raises:
        UserError: `val_ratio` is not in [0, 1).
    """
    check_share(val_ratio)
    missing, chosen = round(val_ratio * len(groups)), list[int]()
    numbers, sizes = np.unique(groups, return_counts=True)
    for number, size in zip(numbers, sizes, strict=True):
        if not missing:
            break
        if size <= missing:
            chosen.append(number)
            missing -= size
    return np.isin(groups, np.array(chosen, groups.dtype))


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows atomically, and return the SHA-256 of the file."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), buffer, row_group_size=ROW_GROUP, **PARQUET)
    return _write(path, buffer.getvalue())


def write_jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows atomically, one JSON object per line, and return the SHA-256 of the file."""
    return _write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())


def _write(path: Path, content: bytes) -> str:
    write_whole(path, content)
    return hashlib.sha256(content).hexdigest()
