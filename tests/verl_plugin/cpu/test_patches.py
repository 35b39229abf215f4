"""Speed patches give the same results as verl, TransferQueue and tensordict."""

import inspect
import random
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from transfer_queue.storage.managers import simple_storage_manager
from transfer_queue.utils import serial_utils
from verl.trainer.ppo import padding_utils
from verl.utils import tensordict_utils
from verl.workers.engine import utils
from verl.workers.utils import padding

from veritas_rl.lengths import PART, parts_of_similar_length


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[None]:
    """A process group of one rank."""
    torch.distributed.init_process_group("gloo", f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def nested(*lengths: int) -> Any:
    rows = [torch.randn(length, generator=torch.Generator().manual_seed(length)) for length in lengths]
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def test_all_rows_in_their_order_are_handed_out_as_they_are() -> None:
    batch: Any = TensorDict({"rows": nested(3, 1, 2)}, batch_size=[3])
    whole = tensordict_utils.index_select_tensor_dict(batch, torch.arange(3))
    assert whole["rows"] is batch["rows"]
    whole["more"] = torch.ones(3)
    assert "more" not in batch
    for indices in ([2, 0, 1], [0, 1]):
        rows: Any = tensordict_utils.index_select_tensor_dict(batch, indices)["rows"]
        assert [row.tolist() for row in rows.unbind()] == [batch["rows"][index].tolist() for index in indices]


def test_rows_are_selected_as_verl_selects_them() -> None:
    columns = {"rows": nested(3, 1, 2, 5), "plain": torch.arange(8).view(4, 2), "words": ["a", "b", "c", "d"]}
    batch: Any = tensordict_utils.get_tensordict(columns, {"n": 7})
    plain = inspect.unwrap(tensordict_utils.index_select_tensor_dict)
    chosen: list[Any] = [[3, 0, 2], [torch.tensor(1), torch.tensor(3)], torch.tensor([2])]
    for indices in chosen:
        found, expected = tensordict_utils.index_select_tensor_dict(batch, indices), plain(batch, indices)
        assert set(found.keys()) == set(expected.keys())
        tensordict_utils.assert_tensordict_eq(found.exclude("n"), expected.exclude("n"))
        assert found["n"] == expected["n"] == 7


def test_rows_of_similar_lengths_are_computed_together(process_group: None) -> None:
    lengths = [20, 75] * 20
    batch: Any = tensordict_utils.get_tensordict(
        {"input_ids": nested(*lengths), "row": torch.arange(40)},
        {"use_dynamic_bsz": True, "max_token_len_per_gpu": 1600},
    )
    found: Any = utils.prepare_micro_batches(batch)
    parts, rows = found
    assert [sorted(part["input_ids"].offsets().diff().unique().tolist()) for part in parts] == [[75], [20]]
    assert [part["row"].tolist() for part in parts] == rows == [list(range(1, 40, 2)), list(range(0, 40, 2))]


@pytest.mark.parametrize("most", [64, 1000, 10**6])
def test_parts_have_every_row_once_and_waste_little(most: int) -> None:
    dice = random.Random(most)
    for _ in range(50):
        lengths = [dice.choice((dice.randint(1, 60), 30)) for _ in range(dice.randint(1, 80))]
        parts = parts_of_similar_length(lengths, most)
        assert sorted(row for part in parts for row in part) == list(range(len(lengths)))
        computed = [len(part) * max(lengths[row] for row in part) for part in parts]
        assert all(tokens <= most for tokens in computed)
        assert sum(computed) + PART * len(parts) <= len(lengths) * max(lengths) + PART * -(
            -len(lengths) // max(1, most // max(lengths))
        )


def test_the_fewest_tokens_are_found() -> None:
    """All divisions of few rows, by brute force."""
    dice = random.Random(0)
    for _ in range(30):
        lengths = sorted(dice.randint(1, 2000) for _ in range(6))
        least = min(
            sum(PART + (end - start) * lengths[end - 1] for start, end in pairwise((0, *cuts, 6)))
            for count in range(6)
            for cuts in combinations(range(1, 6), count)
        )
        parts = parts_of_similar_length(lengths, 10**6)
        assert sum(PART + len(part) * lengths[part[-1]] for part in parts) == least


def test_replies_are_padded_as_verl_pads_them() -> None:
    batch = TensorDict({"prompts": nested(3, 1, 2), "responses": nested(1, 4, 2)}, batch_size=[3])
    computed = nested(4, 5, 4)
    ours, theirs = padding.no_padding_2_padding, padding.no_padding_2_padding.__wrapped__  # pyright: ignore[reportFunctionMemberAccess]
    assert ours(computed, batch).tolist() == theirs(computed, batch).tolist()


def test_a_padding_row_has_two_tokens() -> None:
    sample = {"prompts": torch.arange(5), "responses": torch.arange(3), "position_ids": torch.arange(8)}
    made, tag = padding_utils.construct_minimal_padding_template(sample, {"seq_len": 8}, 7)
    assert made["input_ids"].tolist() == [7, 7]
    assert tag["seq_len"] == 2
    assert not made["loss_mask"].any()


def sent(column: Any, places: list[int]) -> Any:
    """Cells of a column as the storage keeps them, after serialization."""
    manager: Any = simple_storage_manager.AsyncSimpleStorageManager
    return serial_utils.decode(serial_utils.encode(manager._select_by_positions(column, places)))


def test_cells_are_sent_as_bytes_and_come_back_as_they_were() -> None:
    manager: Any = simple_storage_manager.AsyncSimpleStorageManager
    columns: list[Any] = [
        nested(3, 1, 2),
        nested(1, 4, 2).to(torch.int64),
        nested(0, 0, 0).to(torch.bfloat16),
        torch.arange(6).reshape(3, 2).T.contiguous().T,
    ]
    for column in columns:
        stored = sent(column, [2, 0])
        assert all(isinstance(cell, bytes) for cell in stored)
        found: Any = manager._pack_field_values(stored)
        assert found.dtype == column.dtype
        rows = column.unbind()
        assert [row.tolist() for row in found.unbind()] == [rows[2].tolist(), rows[0].tolist()]
        assert found.to_padded_tensor(0).shape == (2, max(len(rows[2]), len(rows[0])))


def test_columns_are_described_as_transfer_queue_describes_them() -> None:
    columns: Any = {
        "tokens": nested(1, 4, 2),
        "dense": torch.ones(3, 2),
        "words": ["a", "b", "c"],
        "nothing": nested(0, 0, 0),
    }
    batch = TensorDict(columns, batch_size=[3])
    ours = simple_storage_manager.extract_field_schema
    assert ours(batch) == inspect.unwrap(ours)(batch)
    assert list(ours(batch)) == list(batch.keys())
    assert ours(TensorDict({"dense": torch.ones(0, 2)}, batch_size=[0])) == {}


def test_other_cells_are_sent_as_before() -> None:
    manager: Any = simple_storage_manager.AsyncSimpleStorageManager
    assert manager._select_by_positions(["a", "b", "c"], [2, 0]) == ["c", "a"]
    assert manager._select_by_positions(torch.arange(6).reshape(3, 1, 2), [0, 1]).tolist() == [[[0, 1]], [[2, 3]]]
    for values in ([b"bytes", b"more"], ["text", "more"], [{"a": 1}, None]):
        assert manager._pack_field_values(values).tolist() == values
    # Some of the values may be written by a process without the patch.
    cell, tensor = sent(nested(3), [0])[0], torch.arange(2.0)
    assert [row.tolist() for row in manager._pack_field_values([cell, tensor]).unbind()] == [
        nested(3).unbind()[0].tolist(),
        [0.0, 1.0],
    ]
