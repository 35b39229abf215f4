"""The dataset as verl opens it: by path, lazy, and the same in every process."""

import os
import pickle
import subprocess
import sys
from typing import Any

import pytest
from torch.utils.data import SequentialSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from verl.utils.dataset.rl_dataset import collate_fn
from verl.utils.import_utils import load_extern_object

from veritas_rl.envs.registry import get_environment, task_of
from veritas_rl.errors import UserError
from veritas_rl.verl_plugin.dataset import DynamicEnvDataset

CASE_LISTS = {"FOCUS_CASES": 17, "AVAILABLE_CASES": 34, "DEFAULT_CASES_BOARD_SIZES": 16}
TOOL = "train/tools/dataset-manager.py"


def data_config(**adapter: Any) -> dict[str, Any]:
    """The part of verl's `data` node that the dataset reads."""
    settings = {"env": "openspiel", "adapter_config": {"seed": 1, **adapter}}
    return {"seed": 1, "custom_cls": {"path": TOOL, "config": settings}}


def open_dataset(split: str = "train", **adapter: Any) -> DynamicEnvDataset:
    return DynamicEnvDataset(split, None, data_config(**adapter))


def question(row: dict[str, Any]) -> Any:
    """The first messages of a row's task."""
    task = task_of(row["extra_info"])
    return get_environment(task.env).start(task).turns()[0].messages


@pytest.mark.parametrize("name", ["DynamicEnvDataset", "OpenSpielDataset", "LGCV2DynamicDataset"])
def test_verl_loads_the_dataset_by_path(name: str) -> None:
    loaded: Any = load_extern_object(TOOL, name)
    assert len(loaded("train", None, data_config(cases="tic_tac_toe"), max_samples=7)) == 7


def test_fewer_tasks_than_a_batch_are_drawn_several_times() -> None:
    config = {**data_config(cases="tic_tac_toe"), "train_batch_size": 4}
    dataset = DynamicEnvDataset("train", None, config, max_samples=1)
    loader = StatefulDataLoader(dataset, batch_size=4, drop_last=True, collate_fn=collate_fn)
    (batch,) = loader
    assert len({task_of(info).id for info in batch["extra_info"]}) == 1
    assert len(set(batch["index"])) == 4  # by which verl and the seeds of the replies distinguish rows


def test_the_lists_of_cases_are_where_users_import_them() -> None:
    lists = {name: load_extern_object("train/tools/openspiel_adapter.py", name) for name in CASE_LISTS}
    assert {name: len(cases) for name, cases in lists.items()} == CASE_LISTS  # pyright: ignore[reportArgumentType]
    adapter: Any = load_extern_object("train/tools/openspiel_adapter.py", "OpenSpielAdapter")
    assert adapter.name == "openspiel"


def test_a_row_carries_its_task_as_plain_values() -> None:
    row = open_dataset("val", cases="leduc_poker", reward_mode="legal")[3]
    assert row["data_source"] == row["extra_info"]["env"] == "openspiel"
    task = task_of(row["extra_info"])
    assert task.id == row["extra_info"]["task_id"] == row["reward_model"]["ground_truth"]
    assert (task.split, task.pay.reward, task.case) == ("val", "legal", "leduc_poker")
    assert all(isinstance(value, str | int | float) for value in row["extra_info"].values())


def test_the_order_of_tasks_is_a_seeded_permutation() -> None:
    dataset = open_dataset(cases=["tic_tac_toe", "kuhn_poker"], num_tasks_per_case=50)
    tasks = [dataset[index]["extra_info"]["task_id"] for index in range(len(dataset))]
    assert len(set(tasks)) == 100
    assert dataset.source is not None
    natural = [task.id for task in dataset.source.sources["openspiel"].tasks["all"]]
    assert sorted(tasks) == sorted(natural)
    assert tasks != natural


def test_training_and_validation_share_no_question() -> None:
    questions = [
        {str(question(row)) for row in open_dataset(split, cases="tic_tac_toe", num_tasks_per_case=1000)}
        for split in ("train", "val")
    ]
    assert [len(found) for found in questions] == [1000, 967]  # all validation tasks
    assert not questions[0] & questions[1]


def test_opening_a_billion_tasks_costs_nothing() -> None:
    dataset = open_dataset(cases="hex(board_size=5)", num_tasks_per_case=10**9)
    assert len(dataset) == 10**9
    assert dataset[10**9 - 1]["extra_info"]["case"] == "hex(board_size=5)"


def test_the_same_bytes_in_any_process() -> None:
    config = data_config(cases=["hex(board_size=5)", "leduc_poker"], num_tasks_per_case=20)
    program = (
        "from veritas_rl.envs.registry import get_environment, task_of\n"
        "from veritas_rl.verl_plugin.dataset import DynamicEnvDataset\n"
        f"rows = DynamicEnvDataset('train', None, {config!r})\n"
        "for row in rows:\n"
        "    turns = get_environment('openspiel').start(task_of(row['extra_info'])).turns()\n"
        "    print(row, turns[0].messages)"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "12345")
    }
    assert len(printed) == 1
    assert len(printed.pop()) > 1000


@pytest.mark.parametrize(
    ("split", "adapter", "message"),
    [
        ("data/train.json.gz", {}, "data.train_files must be train"),
        ("test", {}, "data.train_files must be train"),
        ("train", {"num_task_per_case": 3}, "num_tasks_per_case"),
        ("train", {"cases": "hexx"}, "hex"),
        ("train", {"game_types": "checkerz"}, "checkers"),
    ],
)
def test_a_mistake_is_one_clear_line(split: str, adapter: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        open_dataset(split, **adapter)
    assert "\n" not in str(caught.value)


def test_an_unknown_environment_lists_the_known_ones() -> None:
    config = data_config()
    config["custom_cls"]["config"]["env"] = "open_spiel"
    with pytest.raises(UserError, match="openspiel"):
        DynamicEnvDataset("train", None, config)


def with_outcomes(**settings: Any) -> DynamicEnvDataset:
    """A training dataset with a curriculum and failure replay."""
    config = data_config()
    stages = [{"name": "easy", "cases": ["tic_tac_toe"]}, {"name": "hard", "cases": ["kuhn_poker"]}]
    curriculum = {"stages": stages, "window": 8, "min_games": 8}
    config["custom_cls"]["config"] |= {"curriculum": curriculum, "failure_replay": {}, **settings}
    return DynamicEnvDataset("train", None, config)


def loader(dataset: DynamicEnvDataset) -> StatefulDataLoader:
    """Make a data loader as verl does."""
    sampler = SequentialSampler(dataset)
    return StatefulDataLoader(
        dataset, batch_size=4, num_workers=0, drop_last=True, collate_fn=collate_fn, sampler=sampler
    )


def play(dataset: DynamicEnvDataset, batch: dict[str, Any]) -> list[str]:
    """Record the outcomes of a batch, in which every third task fails; return the messages."""
    return dataset.record({index: (float(index % 3 > 0), float(index % 3 > 0)) for index in batch["index"]})


def test_a_row_of_training_says_where_its_task_comes_from() -> None:
    dataset = with_outcomes()
    rows = [dataset[0] for _ in range(8)]
    assert [row["index"] for row in rows] == list(range(8))
    assert {(row["extra_info"]["origin"], row["extra_info"]["stage"]) for row in rows} == {("fresh", "easy")}
    said = dataset.record({row["index"]: (1.0, 1.0) for row in rows})
    assert said == ["curriculum: stage easy passed with 100% of the last 8 games; now hard (2 of 2)"]
    assert {dataset[0]["extra_info"]["stage"] for _ in range(40)} == {"easy", "hard"}
    # The agent loop reads only the task from a row.
    assert task_of(rows[0]["extra_info"]).id == rows[0]["extra_info"]["task_id"]


def test_validation_has_neither_stages_nor_replays() -> None:
    config = data_config(cases="tic_tac_toe")
    plain = DynamicEnvDataset("val", None, config)
    config["custom_cls"]["config"] |= {
        "curriculum": {"stages": [{"name": "a", "cases": ["hex"]}]},
        "failure_replay": {},
    }
    dataset = DynamicEnvDataset("val", None, config)
    assert [dataset[k] for k in (5, 3, 5)] == [plain[k] for k in (5, 3, 5)]
    assert "origin" not in dataset[0]["extra_info"]
    assert (dataset.metrics(), dataset.state_dict()) == ({}, {})


@pytest.mark.parametrize("ahead", [0, 2])
def test_a_loader_goes_on_with_the_tasks_that_it_would_have_had(ahead: int) -> None:
    unbroken = with_outcomes()
    batches = iter(loaded := loader(unbroken))
    for _ in range(9):
        play(unbroken, next(batches))
    waiting = [next(batches) for _ in range(ahead)]
    state = pickle.loads(pickle.dumps(loaded.state_dict()))
    resumed = with_outcomes()
    loaded_again = loader(resumed)
    loaded_again.load_state_dict(state)
    again = iter(loaded_again)
    origins = set()
    for _ in range(20):
        batch, other = waiting.pop(0) if waiting else next(batches), next(again)
        assert batch["extra_info"].tolist() == other["extra_info"].tolist()
        assert play(unbroken, batch) == play(resumed, other)
        assert unbroken.metrics() == resumed.metrics()
        origins |= {info["origin"] for info in other["extra_info"]}
    assert origins == {"fresh", "replay", "past"}


def test_an_epoch_that_ends_does_not_end_the_curriculum() -> None:
    dataset = with_outcomes(adapter_config={"num_tasks_per_case": 8})
    assert len(dataset) == 16
    for _ in range(3):
        for batch in loader(dataset):
            play(dataset, batch)
    assert dataset.metrics()["curriculum/stage"] == 2
