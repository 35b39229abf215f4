"""The parquet files: their columns, their split, and the check for forbidden content."""

import dataclasses
import json
from pathlib import Path

import pandas as pd
import pytest

from veritas_rl.datasets.rows import write_parquet
from veritas_rl.demonstrations.dataset import ask_again, check, split_rows, write
from veritas_rl.demonstrations.generate import Counts, Settings, generate
from veritas_rl.demonstrations.questions import Demonstration
from veritas_rl.envs.openspiel import enumeration, playing, positions
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.verl_plugin.reward import compute_score

SFT = Settings(games="tic_tac_toe", expert="exact", number=400, prompt="brief")


def written(folder: Path, settings: Settings, val_ratio: float = 0.1) -> dict[str, pd.DataFrame]:
    write(folder, settings, *generate(settings), val_ratio)
    return {path.stem: pd.read_parquet(path) for path in folder.glob("*.parquet")}


def test_sft_rows_hold_a_conversation_and_its_parts(tmp_path: Path) -> None:
    files = written(tmp_path, SFT)
    assert {name: len(file) for name, file in files.items()} == {"train": 360, "val": 40}
    for row in files["train"].to_dict("records"):
        assert list(row) == ["data_source", "prompt", "response", "messages", "extra_info"]
        assert row["data_source"] == "openspiel"
        assert [message["role"] for message in row["messages"]] == ["user", "assistant"]
        assert [message["content"] for message in row["messages"]] == [row["prompt"], row["response"]]
        assert compute_score("", row["response"], "", row["extra_info"])["score"] == 1.0


def test_no_symmetry_class_is_in_two_of_train_val_and_evaluation(tmp_path: Path) -> None:
    files = written(tmp_path, dataclasses.replace(SFT, number=3000))
    game = load("tic_tac_toe")
    # Calculated independently from the symmetry class of every state of the game.
    evaluation = {
        position.group
        for position in enumeration.enumerate_states("tic_tac_toe") or ()
        if positions.split_of(game, playing.replay(game, position.history), position.seat) == "val"
    }
    classes = {
        name: {game.symmetry_key(turn.view.state, turn.seat) for _, turn in map(ask_again, file["extra_info"])}
        for name, file in files.items()
    }
    assert len(evaluation) > 100
    assert not classes["train"] & classes["val"]
    assert not (classes["train"] | classes["val"]) & evaluation


def test_the_report_says_what_was_done_and_checked(tmp_path: Path) -> None:
    settings = dataclasses.replace(SFT, mode="episode", opponent="random", min_value=0.5)
    made, counts = generate(settings)
    report = write(tmp_path, settings, made, counts, 0.25)
    assert json.loads((tmp_path / "demonstrations.json").read_text()) == report
    assert report["counts"] == dataclasses.asdict(counts)
    assert report["counts"]["in_evaluation_set"] > 0
    assert report["check"]["rows_in_evaluation_set"] == 0
    assert report["check"]["rows"] == 400 == sum(file["rows"] for file in report["files"].values())


def of_task(task: Task) -> Demonstration:
    environment = get_environment(task.env)
    (turn,) = environment.start(task).turns()
    return Demonstration(task, (), turn.messages, turn.answers[0], 1.0, environment.equivalence_class(task))


def test_a_row_of_the_evaluation_set_is_found_and_no_report_is_left(tmp_path: Path) -> None:
    made, counts = generate(SFT)
    write(tmp_path, SFT, made, counts, 0.1)
    planted = of_task(SFT.catalogue("val")[3])
    with pytest.raises(UserError, match="'rows_in_evaluation_set': 1"):
        write(tmp_path, SFT, [*made, planted], counts, 0.1)
    assert not (tmp_path / "demonstrations.json").exists()


def test_a_row_that_was_changed_is_found(tmp_path: Path) -> None:
    write(tmp_path, SFT, *generate(SFT), 0.1)
    file = tmp_path / "val.parquet"
    rows = pd.read_parquet(file).to_dict("records")
    rows[0]["messages"][0]["content"] = "X"
    write_parquet(file, rows)
    assert check(tmp_path, SFT)["rows_that_differ"] == 1


def test_groups_stay_together_and_the_share_is_met() -> None:
    groups = [str(index // 3) for index in range(300)]
    train, val = split_rows([{"index": index} for index in range(300)], groups, 0.2, seed=1)
    assert (len(train), len(val)) == (240, 60)
    assert not {row["index"] // 3 for row in train} & {row["index"] // 3 for row in val}
    other = split_rows([{"index": index} for index in range(300)], groups, 0.2, seed=2)[1]
    assert val != other


def test_without_a_validation_share_an_older_file_of_it_is_removed(tmp_path: Path) -> None:
    assert set(written(tmp_path, SFT)) == {"train", "val"}
    assert set(written(tmp_path, SFT, val_ratio=0.0)) == {"train"}


def test_a_share_that_leaves_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"val_ratio must be in \[0, 1\), not 1"):
        write(tmp_path, SFT, [of_task(SFT.catalogue("train")[0])], Counts(), 1.0)
