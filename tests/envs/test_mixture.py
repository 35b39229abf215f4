"""Several environments in one dataset: shares, order, and refused settings."""

import json
from collections import Counter
from typing import Any

import pytest

from veritas_rl.envs.mixture import BLOCK, NEAR, MixedTasks, Schedule, open_tasks, parts_of
from veritas_rl.envs.registry import spread
from veritas_rl.errors import UserError

WEIGHTS = [[1], [2, 1], [1, 1, 1], [0.7, 0.2, 0.1], [1000, 1], [3, 5, 7, 11, 13], [1e-6, 1], [0.337, 0.331, 0.332]]


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_any_hundred_draws_hold_each_share_within_one(weights: list[float]) -> None:
    schedule = Schedule(weights)
    draws = [schedule.next() for _ in range(3000)]
    for start in range(len(draws) - BLOCK):
        counts = Counter(draws[start : start + BLOCK])
        for index, weight in enumerate(weights):
            assert abs(counts[index] - BLOCK * weight / sum(weights)) < 1 + 1e-9


@pytest.mark.parametrize("weights", [[2, 1], [1000, 1], [3, 5, 7, 11, 13]], ids=str)
def test_shares_do_not_drift(weights: list[float]) -> None:
    schedule, count = Schedule(weights), 100_000
    counts = Counter(schedule.next() for _ in range(count))
    for index, weight in enumerate(weights):
        assert abs(counts[index] - count * weight / sum(weights)) <= 2


def test_small_weights_are_spread_evenly() -> None:
    schedule = Schedule([2, 1])
    assert [schedule.next() for _ in range(6)] == [0, 1, 0, 0, 1, 0]


@pytest.mark.parametrize("drawn", [0, 1, 99, 100, 137])
def test_a_schedule_goes_on_where_it_was(drawn: int) -> None:
    unbroken, resumed = Schedule([3, 5, 7]), Schedule([3, 5, 7])
    for _ in range(drawn):
        unbroken.next()
    resumed.load_state_dict(json.loads(json.dumps(unbroken.state_dict())))
    assert [resumed.next() for _ in range(250)] == [unbroken.next() for _ in range(250)]


def mixture(**nodes: Any) -> dict[str, Any]:
    return {"environments": nodes, "defaults": {"openspiel": {"prompt": "brief"}, "trace": {"prompt": "brief"}}}


TOE = {"cases": "tic_tac_toe", "num_tasks_per_case": 6}
EASY = {"cases": "level_1", "num_tasks_per_case": 2}


def test_tasks_of_several_environments_come_in_their_shares_until_each_is_used_up() -> None:
    settings = mixture(openspiel={"weight": 2, "config": TOE}, trace={"config": EASY})
    tasks = open_tasks(settings, "val", 42)
    assert [task.env for task in tasks] == ["openspiel", "trace", "openspiel", "openspiel", "trace"] + 3 * ["openspiel"]
    assert len({task.key for task in tasks}) == len(tasks) == 8
    assert {task.manner.prompt for task in tasks} == {"brief"}
    assert tasks[-1] == tasks[7]
    assert tasks[2:4] == [tasks[2], tasks[3]]
    with pytest.raises(IndexError):
        tasks[8]


def test_the_short_form_is_one_environment() -> None:
    settings = {"env": "openspiel", "adapter_config": {"cases": "tic_tac_toe", "reward_mode": "legal"}}
    (part,) = parts_of(settings)
    assert (part.env, part.weight) == ("openspiel", 1)
    assert {task.pay.reward for task in open_tasks(settings, "train", 1)[:5]} == {"legal"}
    assert {task.pay.reward for task in open_tasks(settings, "train", 1, single=True)[:5]} == {"optimal"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (mixture(openspeil={}), "did you mean openspiel"),
        (
            mixture(trace={"weight": 0}),
            "trace.weight must be a number above 0, got 0; leave out trace",
        ),
        (mixture(trace={"weight": -1}), "above 0"),
        (mixture(trace={"weight": float("nan")}), "above 0"),
        (mixture(trace={"weight": True}), "above 0"),
        (mixture(trace={"weigth": 1}), "did you mean weight"),
        (mixture(trace=3), "environments.trace must be a mapping"),
        ({"environments": ["trace"]}, "environments must map names to settings"),
        ({"environments": {}}, "environments must map names"),
        ({**mixture(trace={}), "adapter_config": {"cases": "hex"}}, "set environments.NAME.config.cases"),
    ],
)
def test_a_mistake_is_one_clear_line(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        parts_of(settings)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("weights", [[1, 1], [2, 1, 1], [3, 1], [0.7, 0.2, 0.1], [99, 1]], ids=str)
@pytest.mark.parametrize("most", [64, 1000])
def test_a_long_mixture_is_known_by_its_first_tasks_of_all_parts(weights: list[float], most: int) -> None:
    long: list[Any] = [range(part * 10**8, (part + 1) * 10**8) for part in range(len(weights))]
    tasks = MixedTasks(long, weights)
    looked_at: list[Any] = list(spread(tasks, most))
    assert len(set(looked_at)) == most
    assert max(task % 10**8 for task in looked_at) < tasks.near == NEAR
    for part, weight in enumerate(weights):
        share = sum(task // 10**8 == part for task in looked_at) / most
        assert share == pytest.approx(weight / sum(weights), abs=0.001 if most == 1000 else 0.05)
