"""The tool finds a run's batch, reads it as data only, and says in one line what is wrong with a name or a file."""

import json
import os
import pickle
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from veritas_rl.launch.shown_batch import find, load
from veritas_rl.verl_plugin.saved_batch import VERSION, write

ROOT = Path(__file__).resolve().parents[2]
UIDS = ("1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d")


def contents(model: Path, *, bypass: bool = False, critic: bool = False) -> dict[str, Any]:
    """A batch as the trainer writes it: two tasks with two samples each, and a padding row in front."""
    keys = ["pad0_0_0", *(f"{uid}_{copy}_0" for copy in (1, 0) for uid in UIDS)]
    rows = len(keys)
    columns = {
        "prompts": [torch.arange(3)] * rows,
        "responses": [torch.tensor([7, 258])] * rows,
        "response_mask": [torch.tensor([0, 0]), *[torch.tensor([1, 1])] * (rows - 1)],
        "rollout_log_probs": [torch.tensor([-0.5, -0.25])] * rows,
        "old_log_probs": [torch.tensor([-0.5, -0.5])] * rows,
        "rm_scores": [torch.tensor([0.0, 1.0])] * rows,
        "advantages": [torch.tensor([0.0, 0.0])] * rows,
        "returns": [torch.tensor([0.0, 0.0])] * rows,
    }
    return {
        "version": VERSION,
        "step": 3,
        "settings": {"experiment": "quiz", "model": str(model), "algorithm": "grpo", "bypass_mode": bypass},
        "rows": rows,
        "padding_rows": 1,
        "row": list(range(rows)),
        "key": keys,
        "rank": [0] * rows,
        "padding": [True] + [False] * (rows - 1),
        "info": [{"seat": 0, "task_id": "quiz#1", "reason": "legal"}] * rows,
        "columns": columns | ({"values": columns["returns"]} if critic else {}),
    }


@pytest.fixture
def saved(tmp_path: Path, tiny_model: Path) -> Callable[..., Path]:
    """Writes a batch into a run's folder."""

    def make(step: int = 3, **changes: Any) -> Path:
        file = tmp_path / f"logs/batches/step_{step}.pt"
        assert write(file, {**contents(tiny_model), **changes}) is None
        return file

    return make


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the tool in this process; returns its exit code, and what it printed on both streams."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["show_batch.py", *words])
        monkeypatch.setenv("COLUMNS", "200")
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(ROOT / "train/tools/show_batch.py"), run_name="__main__")
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_rows_are_grouped_by_task_and_padding_is_last(saved: Callable[..., Path]) -> None:
    batch = load(saved(), None)
    assert [(row.number, row.group, row.copy) for row in batch.rows] == [
        *((3, 1, 0), (1, 1, 1), (4, 2, 0), (2, 2, 1)),
        (0, 0, 0),
    ]
    assert batch.rows[0].columns["difference"] == [0.0, 0.25]
    assert batch.rows[0].rewarded == [1]
    assert batch.rows[-1].marks == ["padding", "no learned token"]


def test_columns_that_say_nothing_are_left_out(saved: Callable[..., Path], tiny_model: Path) -> None:
    own = load(saved(), None).rows[0].columns
    assert "returns" not in own
    assert "returns" in load(saved(**contents(tiny_model, critic=True)), None).rows[0].columns
    # With the bypass, verl writes the rollout's log-probabilities into the trainer's column.
    bypassed = load(saved(**contents(tiny_model, bypass=True)), None).rows[0].columns
    assert not {"old_log_probs", "difference"} & bypassed.keys()


def test_a_run_is_named_by_its_logs_its_checkpoints_or_a_file(saved: Callable[..., Path], tmp_path: Path) -> None:
    first, newest = saved(1), saved(12)
    record = {"command": [], "folder": str(tmp_path / "logs"), "wandb_run_id": "x"}
    (tmp_path / "experiment/global_step_7").mkdir(parents=True)
    (tmp_path / "experiment/run.json").write_text(json.dumps(record))
    for name in ("logs", "logs/batches", "experiment", "experiment/global_step_7"):
        assert find(str(tmp_path / name), None) == newest
        assert find(str(tmp_path / name), 1) == first
    assert find(str(first), None) == first


class Trap:
    """An object that runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch trapped",)


def test_mistakes_are_one_line(
    saved: Callable[..., Path], show: Callable[..., tuple[int, str, str]], tmp_path: Path, tiny_model: Path
) -> None:
    file = saved()
    (tmp_path / "empty").mkdir()
    cut, trap, other, bare, short = (tmp_path / f"{name}.pt" for name in ("cut", "trap", "other", "bare", "short"))
    cut.write_bytes(file.read_bytes()[:-300])
    trap.write_bytes(pickle.dumps(Trap()))
    whole = contents(tiny_model)
    write(other, {**whole, "version": VERSION + 1})
    torch.save({"input_ids": [torch.arange(3)]}, bare)
    write(short, {**whole, "key": whole["key"][1:]})
    for words, said in (
        ([str(tmp_path / "nothing")], "does not exist: name a run's folder"),
        ([str(tmp_path / "empty")], "has no saved batch"),
        ([str(tmp_path / "logs"), "--step", "4"], "has no batch of step 4: set --step to one of 3"),
        ([str(cut)], "is no batch of a run, or is damaged"),
        ([str(trap)], "is no batch of a run, or is damaged"),
        ([str(other)], f"has version {VERSION + 1}, and this package reads batches of version {VERSION}"),
        ([str(bare)], "has no version"),
        ([str(short)], "is damaged (rows or columns are missing)"),
        ([str(file), "--group", "9"], "has no group 9: set --group to a number up to 2"),
        ([str(file), "--rows", "0"], "--rows must be at least 1, not 0"),
        ([str(file), "--model", str(tmp_path / "nothing")], "cannot be read"),
        ([str(file), "--html", str(tmp_path / "no/page.html")], "cannot be written"),
        ([str(tmp_path / "empty"), "x"], "is neither a run nor a command"),
        (["--", "false", "x"], "the command ended with exit code 1 and without a batch"),
    ):
        code, _, printed = show(*words)
        assert code == 2, (words, printed)
        assert printed.count("\n") == 1, printed
        line = printed.strip()
        assert line.startswith("error: ")
        assert said in line
    assert not (ROOT / "trapped").exists()


def test_the_page_is_written_beside_the_batch(
    saved: Callable[..., Path], show: Callable[..., tuple[int, str, str]]
) -> None:
    file = saved()
    code, printed, errors = show(str(file), "--group", "1", "--tokens")
    assert code == 0, errors
    assert "row 3, rank 0: copy 0, seat 0, turn 0" in printed
    assert "group 2:" not in printed
    assert "0.25" in printed
    assert "row 1, rank 0: copy 1" in file.with_suffix(".html").read_text("utf-8")
