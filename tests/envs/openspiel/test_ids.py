"""Task ids of 12 digits: conversion in both directions, every index, and errors instead of wraparound."""

import pytest

from veritas_rl.envs.openspiel import ids
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.errors import UserError

pytestmark = pytest.mark.filterwarnings("ignore:.*has no description of its own")


@pytest.mark.parametrize("index", range(len(ids.INDEXED_GAMES)))
def test_ids_round_trip_and_every_configuration_loads(index: int) -> None:
    game = ids.INDEXED_GAMES[index]
    cases = set()
    for variant in [*range(game.configurations), 42, ids.VARIANTS - 1]:
        task_id = f"{index:04}{variant:08}"
        case, k = ids.decode(task_id)
        assert ids.encode(case, k) == task_id
        assert (load(case).short_name, k) == (game.name, variant)
        cases.add(case)
    assert len(cases) == game.configurations


@pytest.mark.parametrize(
    ("task_id", "case", "k"),
    [
        (0, "goofspiel(num_cards=8,points_order=random)", 0),
        ("100000000", "liars_dice(numdice=5)", 0),
        (200000042, "leduc_poker", 42),
        ("000600000003", "hex(board_size=11)", 3),
        (2100000001, "oware(num_seeds_per_house=3)", 1),
    ],
)
def test_known_ids_name_their_cases_and_numbers(task_id: int | str, case: str, k: int) -> None:
    assert ids.decode(task_id)[1] == k
    assert ids.decode(task_id)[0].partition("(")[0] == case.partition("(")[0]
    assert load(ids.decode(task_id)[0]).spiel.get_parameters() == load(case).spiel.get_parameters()


@pytest.mark.parametrize("task_id", [22 * 10**8, 10**12, -1, "12a", "", "+5", True, 1.5])
def test_numbers_outside_the_range_of_ids_are_refused(task_id: object) -> None:
    with pytest.raises(UserError, match=r"out of range|12 digits"):
        ids.decode(task_id)  # pyright: ignore[reportArgumentType]


def test_cases_without_an_id() -> None:
    with pytest.raises(UserError, match="not among the indexed games"):
        ids.encode("tic_tac_toe", 0)
    with pytest.raises(UserError, match=r"variant 0 of hex is hex\(board_size=5\)"):
        ids.encode("hex(board_size=7)", 0)


def test_allowed_game_indices_are_played_by_variant() -> None:
    config = OpenSpielEnvironment().read_config({"allowed_game_indices": [2, 6], "num_tasks_per_case": 50})
    tasks = OpenSpielEnvironment().catalogue(config, "train")
    assert len(tasks) == 100
    assert (tasks[42].case, tasks[42].k) == ("leduc_poker", 42)
    assert [tasks[50 + k].case for k in range(5)] == [f"hex(board_size={size})" for size in (5, 7, 9, 11, 5)]
    assert {task.case for task in tasks} == set(config.cases)


def test_task_ids_are_single_tasks() -> None:
    config = OpenSpielEnvironment().read_config({"task_ids": "000200000042,600000001"})
    tasks = OpenSpielEnvironment().catalogue(config, "train")
    assert [(task.case, task.k) for task in tasks] == [("leduc_poker", 42), ("hex(board_size=7)", 1)]


@pytest.mark.parametrize("mode", ["move", "episode"])
def test_an_id_is_the_same_task_in_training_and_validation(mode: str) -> None:
    environment = OpenSpielEnvironment()
    config = environment.read_config({"task_ids": "000200000042,600000001", "mode": mode})
    train, val = (list(environment.catalogue(config, split)) for split in ("train", "val"))
    assert train == val
    assert {task.split for task in val} == {"train"}
    numbered = environment.read_config({"allowed_game_indices": [2], "num_tasks_per_case": 43, "mode": mode})
    assert environment.catalogue(numbered, "train")[42] == train[0]
    shown = [[turn.messages for turn in environment.start(task).turns()] for task in (train[0], val[0])]
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"allowed_game_indices": [22]}, "game index 22 is out of range"),
        ({"allowed_game_indices": "1,x"}, "whole number"),
        ({"allowed_game_indices": [1], "cases": "hex"}, "both select what is played"),
        ({"task_ids": [1], "allowed_game_indices": [1]}, "both select what is played"),
    ],
)
def test_unknown_indices_and_ids_are_refused(values: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        OpenSpielEnvironment().read_config(values)
