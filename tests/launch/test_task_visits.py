"""How often a run sees its tasks: rarely by default, and said before it starts otherwise."""

import pytest

from veritas_rl.launch.configuration import compose_configuration
from veritas_rl.launch.task_visits import notes

ADAPTER = "++data.custom_cls.config.adapter_config"
TWO_GAMES = f"{ADAPTER}.game_types='hex(board_size=5),connect_four'"
FEW = f"{ADAPTER}.num_tasks_per_case=100"


def said(*overrides: str) -> list[str]:
    configuration = compose_configuration(["hardware=h200x1", *overrides])
    return list(notes(configuration, configuration.trainer.total_training_steps))


@pytest.mark.parametrize(
    "overrides",
    [
        (TWO_GAMES,),
        (TWO_GAMES, "play=episode"),
        ("hardware=multinode", f"{ADAPTER}.game_types='hex(board_size=5)'"),
        ("environment=lgc-v2",),
        ("environment=trace",),
        ("hardware=cpu", TWO_GAMES),
    ],
)
def test_a_run_of_the_default_length_has_fresh_tasks(overrides: tuple[str, ...]) -> None:
    assert said(*overrides) == []


def test_too_few_tasks_are_named_with_a_number_that_is_enough() -> None:
    (line,) = said(TWO_GAMES, FEW, "trainer.total_training_steps=300", "data.train_batch_size=128")
    assert line == (
        "note: this run sees each training task of hex(board_size=5) about 192 times, because there are 100: set "
        "data.custom_cls.config.adapter_config.num_tasks_per_case=32768 for fresh tasks"
    )
    assert said(TWO_GAMES, line.split("set ")[1].split(" ")[0].replace("data", "++data", 1)) == []


def test_a_small_game_has_no_more_tasks_than_positions() -> None:
    (line,) = said(f"{ADAPTER}.game_types=tic_tac_toe")
    assert "of tic_tac_toe about 38 times, because tic_tac_toe has 3331 different ones" in line
    # Whole games start alike and go on differently.
    assert said(f"{ADAPTER}.game_types=tic_tac_toe", "play=episode") == []


def test_each_environment_of_a_mixture_has_its_own_key_and_share() -> None:
    both = (
        "{lgc-v2: {weight: 1, config: {cases: sudoku, num_tasks_per_case: 50}}, trace: {weight: 3, config: "
        "{cases: level_1, num_tasks_per_case: 400}}}"
    )
    mixture = ("environment=mixture", f"data.custom_cls.config.environments={both}")
    puzzles, programs = said(*mixture, "data.train_batch_size=100", "trainer.total_training_steps=100")
    assert "sudoku about 50 times" in puzzles
    assert puzzles.endswith(
        "set data.custom_cls.config.environments.lgc-v2.config.num_tasks_per_case=4096 for fresh tasks"
    )
    assert "level_1 about 19 times" in programs


def test_replayed_tasks_are_not_counted_and_a_limit_of_the_dataset_is_named() -> None:
    run = (TWO_GAMES, "data.train_batch_size=100", "trainer.total_training_steps=100")
    (line,) = said(*run, "data.train_max_samples=200")
    assert line.endswith(
        "about 50 times, because data.train_max_samples leaves 100: set data.train_max_samples=-1 for all"
    )
    replayed = "data.custom_cls.config.failure_replay={probability: 0.9}"
    assert said(*run, "data.train_max_samples=1200", replayed) == []
