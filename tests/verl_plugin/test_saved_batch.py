"""A saved batch has whole groups and a limited size, and its file is plain data."""

from pathlib import Path
from typing import Any

import torch

from veritas_rl.verl_plugin.sample_key import SampleKey
from veritas_rl.verl_plugin.saved_batch import (
    MOST_PADDING,
    MOST_ROWS,
    MOST_TOKENS,
    saved_in,
    step_of,
    whole_groups,
    write,
)


def batch(groups: int, copies: int, length: int, padding: int = 0) -> tuple[list[str], list[dict[str, Any]]]:
    """Keys and tags of a batch whose groups are spread over it, as after the balancing of ranks."""
    keys = [str(SampleKey(f"task-{group}", copy, 0)) for copy in range(copies) for group in range(groups)]
    made = [str(SampleKey("pad", place, 0)) for place in range(padding)]
    tags = [{"seq_len": length}] * len(keys) + [{"seq_len": 2, "is_padding": True}] * padding
    return [*made, *keys], [*reversed(tags)]


def test_groups_are_kept_whole_up_to_a_number_of_rows() -> None:
    keys, tags = batch(groups=100, copies=5, length=10, padding=40)
    rows = whole_groups(keys, tags)
    assert rows == sorted(set(rows))
    groups = [SampleKey.parse(keys[row]).uid for row in rows if not tags[row].get("is_padding")]
    assert MOST_ROWS - 5 < len(groups) <= MOST_ROWS
    assert all(groups.count(group) == 5 for group in groups)
    assert len(rows) - len(groups) == MOST_PADDING


def test_a_small_batch_is_kept_and_long_rows_are_fewer_but_never_none() -> None:
    keys, tags = batch(groups=8, copies=4, length=10, padding=3)
    assert whole_groups(keys, tags) == list(range(35))
    keys, tags = batch(groups=8, copies=4, length=MOST_TOKENS // 10)
    assert len(whole_groups(keys, tags)) == 8
    keys, tags = batch(groups=2, copies=MOST_ROWS + 1, length=MOST_TOKENS)
    assert len(whole_groups(keys, tags)) == MOST_ROWS + 1


def test_a_file_is_read_without_code_and_a_disk_without_room_is_named(tmp_path: Path) -> None:
    file = tmp_path / "batches/step_3.pt"
    assert write(file, {"step": 3, "columns": {"advantages": [torch.tensor([0.5])]}}) is None
    assert torch.load(file, weights_only=True)["columns"]["advantages"][0].item() == 0.5
    (tmp_path / "batches/step_x.pt").touch()
    assert [step_of(file) for file in saved_in(tmp_path / "batches")] == [3]
    failed = write(Path("/dev/full/step_1.pt"), {})
    assert failed is not None
    assert failed.startswith("the batch could not be saved (")
