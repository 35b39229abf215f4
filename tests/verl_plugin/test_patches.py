"""Patches apply to the pinned verl, and refuse anything else."""

import importlib.metadata
import inspect
import types
from typing import Any

import numpy
import pytest
import torch
from tensordict import TensorDict
from transfer_queue.metadata import BatchMeta
from transfer_queue.storage.managers import simple_storage_manager
from transfer_queue.utils import serial_utils
from verl.trainer.ppo import padding_utils
from verl.utils import distributed, model, seqlen_balancing, tensordict_utils, torch_functional
from verl.workers.utils import padding

from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.verl_plugin import patches


@pytest.mark.parametrize("package", ["verl", "TransferQueue"])
def test_the_pin_is_read_from_the_package(package: str) -> None:
    assert patches.required_version(package) == importlib.metadata.version(package)


def test_patches_are_in_place() -> None:
    assert distributed.initialize_global_process_group_ray.__module__ == "verl.utils.distributed"
    assert distributed.initialize_global_process_group_ray.__wrapped__  # pyright: ignore[reportFunctionMemberAccess]
    assert model.load_valuehead_model.__wrapped__  # pyright: ignore[reportFunctionMemberAccess]


def test_torchruns_processes_on_a_cpu_meet_over_gloo(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    place = {"LOCAL_RANK": 0, "RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port}
    for name, value in place.items():
        monkeypatch.setenv(name, str(value))
    try:
        assert distributed.initialize_global_process_group() == (0, 0, 1)
        assert torch.distributed.get_backend() == "gloo"
    finally:
        distributed.destroy_global_process_group()


def test_the_critic_takes_the_attention_that_is_configured(tmp_path) -> None:
    from transformers import AutoConfig

    folder = build_tiny_model(tmp_path / "model", seed=0)
    config = AutoConfig.from_pretrained(folder, attn_implementation="sdpa")
    config.num_labels = 1
    critic = model.load_valuehead_model(str(folder), torch.float32, config, False)
    assert critic.config._attn_implementation == "sdpa"
    assert critic(torch.tensor([[1, 2, 3]])).logits.shape == (1, 3, 1)


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "required_version", lambda package: "9.9.9")
    with pytest.raises(patches.PatchRefused, match=r"for verl 9\.9\.9"):
        patches.gloo_process_group(distributed)
    with pytest.raises(patches.PatchRefused, match=r"for TransferQueue 9\.9\.9"):
        patches.small_cells(simple_storage_manager)


def test_a_fault_that_is_gone_is_refused() -> None:
    def initialize_global_process_group_ray(backend: str | None = None) -> None: ...

    mended = types.SimpleNamespace(initialize_global_process_group_ray=initialize_global_process_group_ray)
    with pytest.raises(patches.PatchRefused, match="no longer has the fault"):
        patches.gloo_process_group(mended)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_log_probabilities_are_made_in_fp32_many_at_once(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "CHUNK_ELEMENTS", 70)  # four rows and a rest
    random = torch.Generator().manual_seed(0)
    logits = (5 * torch.randn(3, 5, 17, generator=random)).to(dtype).requires_grad_()
    labels, weights = torch.randint(17, (3, 5), generator=random), torch.randn(3, 5, generator=random)
    log_probabilities: Any = torch_functional.logprobs_from_logits_v2
    made = log_probabilities(logits, labels)
    (made * weights).sum().backward()

    exact = logits.detach().double().requires_grad_()
    expected = exact.log_softmax(dim=-1).gather(-1, labels[..., None])[..., 0]
    (expected * weights).sum().backward()
    assert made.dtype == torch.float32
    torch.testing.assert_close(made.double(), expected, atol=1e-5, rtol=1e-5)
    assert logits.grad is not None
    # A gradient has the type of its logits.
    torch.testing.assert_close(logits.grad.double(), exact.grad, atol=1e-5, rtol=1e-5 if dtype.itemsize == 4 else 2**-7)


def nested(*lengths: int) -> Any:
    rows = [torch.randn(length, generator=torch.Generator().manual_seed(length)) for length in lengths]
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def described(*partitions: str) -> BatchMeta:
    return BatchMeta(
        global_indexes=[3, 5],
        partition_ids=list(partitions),
        field_schema={"ids": {"dtype": torch.int64, "per_sample_shapes": [(2,), (1,)], "is_nested": True}},
        production_status=numpy.ones(2, dtype=numpy.int8),
    )


def test_one_part_gets_the_descriptions_that_there_are() -> None:
    rows = described("train", "train")
    for (same,) in (rows.chunk(1), rows.chunk_by_partition()):
        assert same is rows
    for parts in (rows.chunk(2), described("train", "val").chunk_by_partition()):
        assert [part.global_indexes for part in parts] == [[3], [5]]


def test_padding_leaves_words_as_they_are() -> None:
    words: Any = tensordict_utils.get_tensordict({"rows": nested(3, 1), "words": ["a", {"b": 1}]})
    padded = words.to_padded_tensor()
    assert padded["rows"].shape == (2, 3)
    assert padded["rows"][1, 1:].tolist() == [0.0, 0.0]
    assert padded.get("words") is words.get("words")
    assert padded["words"] == ["a", {"b": 1}]
    assert padded.batch_size == words.batch_size


def test_all_rows_in_their_order_are_handed_out_as_they_are() -> None:
    batch: Any = TensorDict({"rows": nested(3, 1, 2)}, batch_size=[3])
    whole = tensordict_utils.index_select_tensor_dict(batch, torch.arange(3))
    assert whole["rows"] is batch["rows"]
    whole["more"] = torch.ones(3)
    assert "more" not in batch
    for indices in ([2, 0, 1], [0, 1]):
        rows: Any = tensordict_utils.index_select_tensor_dict(batch, indices)["rows"]
        assert [row.tolist() for row in rows.unbind()] == [batch["rows"][index].tolist() for index in indices]


def test_one_part_is_all_and_two_are_balanced() -> None:
    balanced: Any = seqlen_balancing.get_seqlen_balanced_partitions
    assert balanced([5, 1, 4], 1, equal_size=False) == [[0, 1, 2]]
    assert sorted(balanced([5, 1, 4], 2, equal_size=False)) == [[0], [1, 2]]


def test_replies_are_padded_as_verl_pads_them() -> None:
    batch = TensorDict({"prompts": nested(3, 1, 2), "responses": nested(1, 4, 2)}, batch_size=[3])
    computed = nested(4, 5, 4)
    ours, theirs = padding.no_padding_2_padding, padding.no_padding_2_padding.__wrapped__  # pyright: ignore[reportFunctionMemberAccess]
    assert ours(computed, batch).tolist() == theirs(computed, batch).tolist()


def test_replies_are_cut_out_as_verl_cuts_them_out() -> None:
    mask, computed = nested(1, 4, 2), nested(4, 5, 4)
    rows = torch.arange(12.0).reshape(3, 4)
    for ours, given in ((padding.response_from_nested, computed), (padding.response_to_nested, rows)):
        theirs = ours.__wrapped__  # pyright: ignore[reportFunctionMemberAccess]
        found, wanted = ours(given, mask), theirs(given, mask)
        assert [row.tolist() for row in found.unbind()] == [row.tolist() for row in wanted.unbind()]
        assert found.to_padded_tensor(0).tolist() == wanted.to_padded_tensor(0).tolist()


def test_what_fills_a_batch_is_short() -> None:
    sample = {"prompts": torch.arange(5), "responses": torch.arange(3), "position_ids": torch.arange(8)}
    made, tag = padding_utils.construct_minimal_padding_template(sample, {"seq_len": 8}, 7)
    assert made["input_ids"].tolist() == [7, 7]
    assert tag["seq_len"] == 2
    assert not made["loss_mask"].any()


def travelled(column: Any, places: list[int]) -> Any:
    """Cells of a column as the storage keeps them: what came over the wire."""
    manager: Any = simple_storage_manager.AsyncSimpleStorageManager
    return serial_utils.decode(serial_utils.encode(manager._select_by_positions(column, places)))


def test_cells_travel_as_bytes_and_come_back_as_they_were() -> None:
    manager: Any = simple_storage_manager.AsyncSimpleStorageManager
    columns: list[Any] = [
        nested(3, 1, 2),
        nested(1, 4, 2).to(torch.int64),
        nested(0, 0, 0).to(torch.bfloat16),
        torch.arange(6).reshape(3, 2).T.contiguous().T,
    ]
    for column in columns:
        stored = travelled(column, [2, 0])
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


def test_other_cells_travel_as_ever() -> None:
    manager: Any = simple_storage_manager.AsyncSimpleStorageManager
    assert manager._select_by_positions(["a", "b", "c"], [2, 0]) == ["c", "a"]
    assert manager._select_by_positions(torch.arange(6).reshape(3, 1, 2), [0, 1]).tolist() == [[[0, 1]], [[2, 3]]]
    for values in ([b"bytes", b"more"], ["text", "more"], [{"a": 1}, None]):
        assert manager._pack_field_values(values).tolist() == values
    # Where a process without the patch has written some of them.
    cell, tensor = travelled(nested(3), [0])[0], torch.arange(2.0)
    assert [row.tolist() for row in manager._pack_field_values([cell, tensor]).unbind()] == [
        nested(3).unbind()[0].tolist(),
        [0.0, 1.0],
    ]
