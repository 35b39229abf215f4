"""The two kinds of rows that files hold, and how they become the bytes of a file: the same rows, the same bytes."""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.envs.base import Message
from veritas_rl.errors import UserError


def sft_row(
    messages: Sequence[Message], response: str, data_source: str, extra_info: Mapping[str, Any]
) -> dict[str, Any]:
    """A row to imitate: `messages` is the conversation with the answer, as verl's SFT trainer reads it; `prompt` is the
    question alone, as text, and `response` the answer."""
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
    task_id: int | str,
    task_type: str,
    seed: int,
) -> dict[str, Any]:
    """A row to be rewarded: the question, and what the reward function needs."""
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
    """Refuse a share of rows that cannot be one.

    Raises:
        UserError: It is below 0, or leaves nothing to train on.
    """
    if not 0 <= val_ratio < 1:
        raise UserError(f"val_ratio must lie in [0, 1), {val_ratio:g} was given")


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows so that the file appears whole; the SHA-256 of its bytes.

    What the writer may choose is fixed here: a new default of pyarrow must not change the files.
    """
    buffer = io.BytesIO()
    pq.write_table(
        pa.Table.from_pylist(list(rows)),
        buffer,
        version="2.6",
        data_page_version="1.0",
        compression="snappy",
        use_dictionary=True,
        write_statistics=True,
        row_group_size=1 << 16,
        store_schema=True,
    )
    return _write(path, buffer.getvalue())


def write_jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows, one JSON object a line, so that the file appears whole; the SHA-256 of its bytes."""
    return _write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())


def _write(path: Path, content: bytes) -> str:
    write_whole(path, content)
    return hashlib.sha256(content).hexdigest()
