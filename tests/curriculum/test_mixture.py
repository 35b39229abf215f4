"""Several environments in one training run: shares, outcomes, resume."""

import json
from collections import Counter
from typing import Any

import pytest

from veritas_rl.curriculum.mixture import MixedSource, open_sources
from veritas_rl.errors import UserError

SETTINGS = {
    "environments": {
        "openspiel": {
            "weight": 2,
            "config": {"cases": "tic_tac_toe", "num_tasks_per_case": 500},
            "curriculum": {"stages": [{"name": "near", "depth": 2}, {"name": "far"}], "window": 4, "threshold": 0.5},
        },
        "trace": {"weight": 1, "config": {"num_tasks_per_case": 50}},
    },
    "failure_replay": {"probability": 0.3},
}


def play(source: MixedSource, count: int) -> list[Any]:
    """Draw tasks and record outcomes that depend only on the task."""
    draws = []
    for _ in range(count):
        draw = source.next()
        draws.append(draw)
        solved = float(hash_of(draw.task.key) % 3 > 0)
        source.record(draw.number, solved, solved)
    return draws


def hash_of(text: str) -> int:
    return sum(map(ord, text))


def test_shares_hold_whatever_is_asked_again() -> None:
    draws = play(open_sources(SETTINGS), 600)
    for start in range(500):
        counts = Counter(draw.task.env for draw in draws[start : start + 100])
        assert abs(counts["openspiel"] - 200 / 3) < 1
    assert {draw.origin for draw in draws} == {"fresh", "replay", "past"}


def test_numbers_are_unique_and_each_environment_learns_of_its_own_outcomes() -> None:
    source = open_sources(SETTINGS)
    draws = play(source, 200)
    assert len({draw.number for draw in draws}) == 200
    metrics = source.metrics()
    assert metrics["openspiel/curriculum/stage"] == 2
    assert "trace/curriculum/stage" not in metrics
    assert metrics["openspiel/failure_replay/size"] > 0
    assert metrics["trace/failure_replay/size"] > 0


def test_a_stage_that_is_passed_names_its_environment() -> None:
    source = open_sources(SETTINGS)
    lines = []
    for _ in range(30):
        draw = source.next()
        lines.append(source.record(draw.number, 1, 1))
    assert next(line for line in lines if line).endswith("now far (2 of 2) (openspiel)")


@pytest.mark.parametrize("played", [0, 3, 100, 251])
@pytest.mark.parametrize("waiting", [0, 7])
def test_the_next_tasks_are_the_same_after_a_round_trip(played: int, waiting: int) -> None:
    unbroken, resumed = open_sources(SETTINGS), open_sources(SETTINGS)
    play(unbroken, played)
    drawn = [unbroken.next() for _ in range(waiting)]
    resumed.load_state_dict(json.loads(json.dumps(unbroken.state_dict())))
    assert [resumed.next() for _ in drawn] == drawn
    for source in (unbroken, resumed):
        for draw in drawn:
            source.record(draw.number, 0.0, 0.0)
    assert play(resumed, 150) == play(unbroken, 150)
    assert resumed.metrics() == unbroken.metrics()


def test_tasks_in_play_are_not_drawn_again_after_a_resume() -> None:
    unbroken, resumed = open_sources(SETTINGS), open_sources(SETTINGS)
    drawn = [unbroken.next() for _ in range(9)]
    resumed.go_on_with(draw.number for draw in drawn if draw is not drawn[4])
    resumed.load_state_dict(json.loads(json.dumps(unbroken.state_dict())))
    assert resumed.next() == drawn[4]
    assert [resumed.next() for _ in range(20)] == [unbroken.next() for _ in range(20)]


def test_one_environment_alone_has_its_metrics_without_its_name() -> None:
    source = open_sources({"env": "trace", "adapter_config": {}, "failure_replay": {}})
    play(source, 5)
    assert "failure_replay/size" in source.metrics()


def test_a_state_of_other_environments_is_refused() -> None:
    other = open_sources({"env": "trace", "adapter_config": {}})
    with pytest.raises(UserError, match=r"environments openspiel, trace, .*run has trace"):
        other.load_state_dict(open_sources(SETTINGS).state_dict())


def test_environments_learn_their_share_of_the_next_tasks_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    from veritas_rl.envs.registry import get_environment, prepare

    asked: list[Any] = []
    monkeypatch.setattr(type(get_environment("trace")), "prepare", lambda self, tasks: asked.extend(tasks))
    source = open_sources({**SETTINGS, "failure_replay": None})
    prepare(source.upcoming(60))
    assert len(asked) == 20
    drawn = [draw.task for draw in (source.next() for _ in range(60)) if draw.task.env == "trace"]
    assert asked == drawn
