"""A batch with non-finite numbers is saved, in a limited number of files, with its affected rows and ranks."""

import math
from pathlib import Path

import torch

from veritas_rl.verl_plugin.not_finite import FILES, FOLDER, broken, rows_not_finite, save, take_ranks


def test_only_losses_and_gradients_have_to_be_finite() -> None:
    metrics = {"actor/pg_loss": math.nan, "critic/grad_norm": math.inf, "actor/entropy": math.nan, "actor/loss": 0.5}
    assert broken(metrics).keys() == {"actor/pg_loss", "critic/grad_norm"}


def test_what_ranks_say_of_themselves_does_not_stay_among_the_metrics() -> None:
    metrics = {"actor/not_finite/rank_3": 1.0, "critic/not_finite/rank_3": 1.0, "critic/not_finite/rank_11": 1.0}
    metrics |= {"actor/pg_loss": 0.1}
    assert take_ranks(metrics) == {3, 11}
    assert metrics == {"actor/pg_loss": 0.1}


def test_rows_are_found_by_column() -> None:
    columns = {
        "input_ids": [torch.tensor([1, 2]), torch.tensor([3])],
        "advantages": [torch.tensor([0.1, math.inf]), torch.tensor([0.2])],
        "old_log_probs": [torch.tensor([-0.1]), torch.tensor([math.nan])],
        "uid": ["a", "b"],
    }
    assert rows_not_finite(columns) == {"advantages": [0], "old_log_probs": [1]}


def test_few_batches_are_kept_and_a_disk_without_room_is_named(tmp_path: Path) -> None:
    for step in range(1, FILES + 3):
        file = tmp_path / FOLDER / f"step_{step}.pt"
        assert save(tmp_path, f"step_{step}", {"advantages": [torch.tensor([math.nan])]}) == f"the batch is in {file}"
        assert torch.load(file, weights_only=False)["advantages"][0].isnan().all()
    kept = {file.name for file in (tmp_path / FOLDER).iterdir()}
    assert kept == {f"step_{step}.pt" for step in range(3, FILES + 3)}
    said = save(Path("/dev/full"), "step_1", {})
    assert said.startswith("the batch could not be saved (")
