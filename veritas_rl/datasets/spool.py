"""Rows on the disk, in the order in which they were made, from which parquet files are written in any order.

The memory does not grow with the number of rows, except for a number of 8 bytes for each.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from veritas_rl.checkpoints.folder import replaced
from veritas_rl.datasets.rows import PARQUET, ROW_GROUP

CHUNK = 1 << 14
"""Rows of a file on the disk."""


class Spool:
    """Rows in a folder.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: list[Mapping[str, Any]] = []
        self._chunks: list[pa.Table] = []

    def __len__(self) -> int:
        return len(self._chunks) * CHUNK + len(self._waiting)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row of plain values."""
        self._waiting.append(row)
        if len(self._waiting) == CHUNK:
            self._flush()

    def _flush(self) -> None:
        table, path = pa.Table.from_pylist(self._waiting), self._folder / f"{len(self._chunks)}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        self._chunks.append(pa.ipc.open_file(pa.memory_map(str(path))).read_all())
        self._waiting = []

    def write(self, path: Path, numbers: Sequence[int] | np.ndarray) -> str:
        """Write rows, by their numbers and in their order, to a parquet file, and return its SHA-256.

        The file appears when it is complete. Its columns have the types that hold all rows.
        """
        if self._waiting:
            self._flush()
        schema = pa.unify_schemas([chunk.schema for chunk in self._chunks], promote_options="permissive")
        numbers = np.asarray(numbers)
        with replaced(path) as beside:
            with pq.ParquetWriter(beside, schema, **PARQUET) as writer:
                for start in range(0, len(numbers), ROW_GROUP):
                    writer.write_table(self._rows(numbers[start : start + ROW_GROUP], schema), ROW_GROUP)
            with beside.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()

    def _rows(self, numbers: np.ndarray, schema: pa.Schema) -> pa.Table:
        # Each chunk is read once, and then the rows are put into their order.
        order = np.argsort(numbers, kind="stable")
        chunks, places = np.divmod(numbers[order], CHUNK)
        starts = np.flatnonzero(np.diff(chunks, prepend=-1))
        found = [
            self._chunks[chunks[start]].take(pa.array(part))
            for start, part in zip(starts, np.split(places, starts[1:]), strict=True)
        ]
        table = pa.concat_tables(found, promote_options="permissive").combine_chunks()
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return table.take(pa.array(back)).cast(schema)
