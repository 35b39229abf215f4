"""Measured planted games have their known properties, and results depend only on the settings."""

import dataclasses
from typing import Any

import pytest

from veritas_rl.envs.openspiel.learning_signal.measure import TaskSignal, measure_task
from veritas_rl.envs.openspiel.learning_signal.summary import CaseSignal, Settings, jobs_of, measure, sum_up
from veritas_rl.errors import UserError
from veritas_rl.parallel import Workers


def measured(case: str, **settings: Any) -> CaseSignal:
    (row,) = measure(jobs_of(Settings(**settings), [case]), Workers(1))
    return row


@pytest.mark.filterwarnings("ignore:.*has no description of its own")
def test_equal_moves_are_found_to_differ_in_5_percent_of_tasks(planted_coin: str) -> None:
    row = measured(planted_coin, tasks=300, playouts=16).whole
    assert (row.tasks, row.tested, row.forced, row.known) == (300, 300, 0, 0)
    assert 0.02 <= row.share <= 0.08  # 5% expected; the standard error of 300 tasks is 1.3%
    assert row.false == pytest.approx(min(row.differ, 15), abs=1)  # not more than the found differences
    assert row.halves == pytest.approx(0, abs=0.12)  # the standard error of 900 free pairs is 0.03


@pytest.mark.filterwarnings("ignore:.*has no description of its own")
def test_a_move_that_always_wins_is_found_in_every_task(planted_coin: str) -> None:
    row = measured(f"{planted_coin}(edge=0.5)", tasks=40, playouts=64).whole
    assert row.share == 1.0
    assert row.false == 0.0
    assert row.spread == pytest.approx((3 / 16) ** 0.5 / 2, abs=0.02)  # values: 1, and three times 0.5
    assert row.halves is not None
    assert row.halves > 0.9


def test_at_most_so_many_moves_of_a_task_are_measured() -> None:
    (jobs,) = jobs_of(Settings(tasks=4, playouts=16, moves=3), ["othello"]).values()
    assert [measure_task(job).actions for job in jobs] == [3] * 4


def signal(third: int, differs: bool, actions: int = 2, **changes: Any) -> TaskSignal:
    forced = actions == 1
    plain = TaskSignal(
        actions=actions,
        third=third,
        source="playouts",
        tested=not forced,
        differs=differs,
        p=None if forced else 0.5,
        spread=None if forced else 0.1,
        halves=None if forced else (1.0, 1.0, 1.0),
        truth=False,
        mistake=None,
        alike=False,
        unpaid=False,
        regret=None,
        successes=0,
        seconds=0.25,
    )
    return dataclasses.replace(plain, **changes)


def test_a_case_is_the_sum_of_its_tasks() -> None:
    case = sum_up(
        "planted",
        [
            signal(0, True, successes=1, spread=0.3),
            signal(0, False, truth=True, mistake=0.5, regret=2.0, seconds=1.0),
            signal(1, True, successes=2, halves=(-1.0, 1.0, 1.0), truth=True, mistake=0.0, regret=0.0),
            signal(1, False, actions=1, successes=1),
        ],
    )
    row = case.whole
    assert (row.tasks, row.forced, row.tested, row.differ) == (4, 1, 3, 2)
    assert row.share == 0.5
    assert row.spread == pytest.approx(0.5 / 3)
    assert row.halves == pytest.approx(1 / 3)
    assert (row.known, row.mistakes, row.regret) == (2, 0.25, 1.0)
    assert (row.fixed, row.always) == (3, 2)  # without the first: none of two, both of two, one of one
    assert row.sources == {"playouts": 4}
    assert (row.seconds, row.worst) == (0.4375, 1.0)
    first, second, last = case.thirds
    assert first is not None
    assert second is not None
    assert (first.tasks, first.differ, first.spread, first.mistakes) == (2, 1, 0.2, 0.5)
    assert (second.tasks, second.forced, second.differ, second.halves) == (2, 1, 1, -1.0)
    assert last is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"playouts": 100}, "playouts must be a multiple of 16, 100 was given"),
        ({"playouts": 0}, "playouts must be a multiple of 16, 0 was given"),
        ({"tasks": 0}, "tasks must be at least 1, 0 was given"),
        ({"reward": "legal"}, "unknown reward 'legal'"),
        ({"mode": "moves"}, "did you mean move?"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        Settings(**settings)
    assert message in str(caught.value)


def test_settings_of_the_environment_that_cannot_work_are_refused() -> None:
    with pytest.raises(UserError, match="--config reward has an option of its own"):
        jobs_of(Settings(config={"reward_mode": "legal"}), ["tic_tac_toe"])
    with pytest.raises(UserError, match="task_ids"):
        jobs_of(Settings(config={"task_ids": [5]}), [])
    with pytest.raises(UserError, match="tic_tac_to"):
        jobs_of(Settings(), ["tic_tac_to"])


def test_without_cases_all_default_cases_are_measured() -> None:
    jobs = jobs_of(Settings(tasks=1), [])
    assert {"tic_tac_toe", "chess", "leduc_poker"} <= jobs.keys()
    assert all(len(of) == 1 for of in jobs.values())
