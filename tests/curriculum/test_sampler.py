"""The sources of tasks: shares, orders, and the same next tasks after saving and loading the state."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from veritas_rl.curriculum.sampler import Draw, TaskSource, open_source
from veritas_rl.errors import UserError
from veritas_rl.seeding import generator

STAGES = [
    {"name": "easy", "cases": ["tic_tac_toe"]},
    {"name": "medium", "games": "hex", "prompt": "brief"},
    {"name": "hard", "cases": ["connect_four"]},
]


def source(seed: int = 1, limit: int = -1, **settings: Any) -> TaskSource:
    adapter = {"cases": "kuhn_poker", **settings.pop("adapter_config", {})}
    return open_source({"env": "openspiel", "adapter_config": adapter, **settings}, seed, limit)


def simulate(tasks: TaskSource, steps: int, skill: float = 0.7, seed: int = 0) -> Iterator[list[Draw]]:
    """Draw batches of 16 and record outcomes that depend only on the draws."""
    for _ in range(steps):
        batch = [tasks.next() for _ in range(16)]
        for draw in batch:
            success = float(generator("outcome", seed, draw.number).random() < skill)
            tasks.record(draw.number, success, success)
        yield batch


def shares(batches: Iterator[list[Draw]]) -> dict[str, float]:
    counts = Counter(draw.origin for batch in batches for draw in batch)
    return {origin: count / counts.total() for origin, count in counts.items()}


def ids(draws: Sequence[Draw]) -> list[tuple[str, str, str]]:
    return [(draw.task.id, draw.origin, draw.stage) for draw in draws]


def test_without_a_curriculum_every_task_comes_once_then_all_again() -> None:
    tasks = source(adapter_config={"cases": ["tic_tac_toe", "kuhn_poker"], "num_tasks_per_case": 50})
    assert len(tasks) == 100
    first = [tasks.next() for _ in range(100)]
    soon = list(tasks.upcoming(60))
    second = [tasks.next() for _ in range(100)]
    assert soon == [draw.task for draw in second[:60]]
    names = [draw.task.id for draw in first]
    assert len(set(names)) == 100
    assert names != sorted(names)
    assert [draw.task for draw in second] == [draw.task.replace(visit=1) for draw in first]
    assert {(draw.origin, draw.stage) for draw in first} == {("fresh", "all")}
    assert tasks.metrics() == {}


def test_a_task_says_how_often_it_was_asked_before() -> None:
    """Visits count in repeated rounds of all tasks and in failure replay; the key of a task does not change."""
    tasks = source(adapter_config={"num_tasks_per_case": 20}, failure_replay={"probability": 0.5})
    plain = source(adapter_config={"num_tasks_per_case": 20})
    keys = {plain.next().task.key for _ in range(20)}
    visits: dict[str, list[int]] = {}
    for index in range(200):
        draw = tasks.next()
        visits.setdefault(draw.task.key, []).append(draw.task.visit)
        assert draw.task.visit < len(visits[draw.task.key])
        assert draw.origin == "fresh" or draw.task.visit > 0
        tasks.record(draw.number, float(index % 3 == 0), float(index % 3 == 0))
        if index == 100:
            state = json.loads(json.dumps(tasks.state_dict()))
            tasks = source(adapter_config={"num_tasks_per_case": 20}, failure_replay={"probability": 0.5})
            tasks.load_state_dict(state)
    assert visits.keys() == keys
    assert all(seen[0] == 0 for seen in visits.values())
    assert max(max(seen) for seen in visits.values()) > 5


def test_another_seed_is_another_order_and_a_limit_takes_a_part() -> None:
    assert ids([source(1).next()]) == ids([source(1).next()])
    assert ids([source(1).next()]) != ids([source(2).next()])
    tasks = source(limit=7)
    assert len(tasks) == 7
    assert len({tasks.next().task.id for _ in range(50)}) == 7


def test_a_stage_plays_its_own_games_with_its_own_settings() -> None:
    tasks = source(curriculum={"stages": STAGES, "window": 8, "past_share": 0}, adapter_config={"prompt": "full"})
    seen = [draw for batch in simulate(tasks, 6, skill=1.0) for draw in batch]
    played = {(draw.stage, draw.task.case.partition("(")[0], draw.task.manner.prompt) for draw in seen}
    assert played == {("easy", "tic_tac_toe", "full"), ("medium", "hex", "brief"), ("hard", "connect_four", "full")}
    assert [draw.stage for draw in seen] == sorted((draw.stage for draw in seen), key=["easy", "medium", "hard"].index)


def test_a_tenth_of_the_games_comes_from_earlier_stages() -> None:
    tasks = source(curriculum={"stages": STAGES, "threshold": 0.5})
    assert shares(simulate(tasks, 5)) == {"fresh": 1.0}
    for _ in simulate(tasks, 20):
        pass
    assert tasks.curriculum.stage.name == "hard"
    draws = [tasks.next() for _ in range(5000)]
    past = Counter(draw.stage for draw in draws if draw.origin == "past")
    # The standard deviation is 0.0042.
    assert past.total() / 5000 == pytest.approx(0.10, abs=0.015)
    assert past.keys() == {"easy", "medium"}
    assert past["easy"] / past.total() == pytest.approx(0.5, abs=0.08)
    assert {draw.stage for draw in draws if draw.origin == "fresh"} == {"hard"}


def test_success_of_earlier_stages_is_a_metric() -> None:
    tasks = source(curriculum={"stages": STAGES, "threshold": 0.95, "window": 20})
    for _ in simulate(tasks, 2, skill=1.0):
        pass
    assert tasks.metrics()["curriculum/stage"] == 2
    for _ in range(600):
        draw = tasks.next()
        success = 0.25 if draw.origin == "past" else 0.5
        assert tasks.record(draw.number, success, success) is None
    assert tasks.metrics()["curriculum/past/easy"] == 0.25
    assert tasks.metrics()["curriculum/success/medium"] == 0.5


def test_three_tenths_are_replays() -> None:
    tasks = source(failure_replay={}, adapter_config={"num_tasks_per_case": 10**6})
    for _ in simulate(tasks, 10):
        pass
    measured = shares(simulate(tasks, 300))
    # The standard deviation is 0.0066.
    assert measured["replay"] == pytest.approx(0.30, abs=0.03)
    assert tasks.metrics()["failure_replay/share"] == pytest.approx(measured["replay"], abs=0.01)


def test_replays_are_failures_and_others_are_not_asked_again() -> None:
    tasks = source(failure_replay={}, adapter_config={"num_tasks_per_case": 10**6})
    scores: dict[str, float] = {}
    for batch in simulate(tasks, 50):
        for draw in batch:
            if draw.origin == "replay":
                assert draw.task.id in scores
            else:
                assert draw.task.id not in scores
            scores[draw.task.id] = 1.0


def test_replays_and_games_of_earlier_stages_do_not_pass_a_stage() -> None:
    tasks = source(curriculum={"stages": STAGES, "window": 20}, failure_replay={})
    for _ in simulate(tasks, 2, skill=1.0):
        pass
    assert tasks.curriculum.stage.name == "medium"
    counts: Counter[str] = Counter()
    begun = tasks.metrics()["curriculum/games/medium"]
    for _ in range(2000):
        draw = tasks.next()
        counts[draw.origin] += 1
        # Replayed and past games succeed; the success rate of fresh games is below the stage's threshold.
        success = 0.4 if draw.origin == "fresh" else 1.0
        assert tasks.record(draw.number, success, success) is None
    assert min(counts["replay"], counts["past"]) > 100
    assert tasks.metrics()["curriculum/games/medium"] == begun + counts["fresh"]
    assert tasks.metrics()["curriculum/success/medium"] == pytest.approx(0.4)


def test_a_group_that_did_not_succeed_as_a_whole_masters_nothing() -> None:
    tasks = source(failure_replay={"probability": 1.0}, limit=1)
    tasks.record(tasks.next().number, 0.0, 0.0)
    for success in (0.875, 0.875, 0.875, 1.0, 1.0):
        assert tasks.metrics()["failure_replay/mastered"] == 0
        tasks.record(tasks.next().number, success, success)
    assert tasks.metrics()["failure_replay/mastered"] == 1


@pytest.mark.parametrize("steps", [0, 3, 9, 40])
def test_the_next_tasks_are_the_same_after_a_round_trip(steps: int) -> None:
    settings = {"curriculum": {"stages": STAGES, "window": 30}, "failure_replay": {"capacity": 40}}
    unbroken, resumed = source(**settings), source(**settings)
    for _ in simulate(unbroken, steps):
        pass
    resumed.load_state_dict(json.loads(json.dumps(unbroken.state_dict())))
    for one, other in zip(simulate(unbroken, 40), simulate(resumed, 40), strict=True):
        assert one == other
        assert resumed.metrics() == unbroken.metrics()
    assert unbroken.curriculum.stage.name == "hard"
    assert resumed.state_dict() == unbroken.state_dict()


def test_other_outcomes_give_other_tasks() -> None:
    one, other = (source(failure_replay={}) for _ in range(2))
    first = [ids(batch) for batch in simulate(one, 20, seed=1)]
    assert first != [ids(batch) for batch in simulate(other, 20, seed=2)]


def test_tasks_drawn_and_not_played_come_first_after_a_resume() -> None:
    settings = {"curriculum": {"stages": STAGES, "window": 30}, "failure_replay": {}}
    unbroken, resumed = source(**settings), source(**settings)
    for _ in simulate(unbroken, 10):
        pass
    ahead = [unbroken.next() for _ in range(16)]
    resumed.load_state_dict(json.loads(json.dumps(unbroken.state_dict())))
    assert [resumed.next() for _ in range(16)] == ahead
    for tasks in (unbroken, resumed):
        for draw in ahead:
            tasks.record(draw.number, 0.0, 0.0)
    for one, other in zip(simulate(unbroken, 20), simulate(resumed, 20), strict=True):
        assert one == other


def test_tasks_in_play_are_not_drawn_again_after_a_resume() -> None:
    unbroken, resumed = source(), source()
    ahead = [unbroken.next() for _ in range(16)]
    resumed.go_on_with(draw.number for draw in ahead if draw.number != 5)
    resumed.load_state_dict(json.loads(json.dumps(unbroken.state_dict())))
    assert [resumed.next() for _ in range(9)] == [ahead[5], *(unbroken.next() for _ in range(8))]
    for draw in ahead:
        resumed.record(draw.number, 1.0, 1.0)


def test_a_state_of_another_curriculum_is_refused() -> None:
    state = source(curriculum={"stages": STAGES}).state_dict()
    with pytest.raises(UserError, match=r"easy, medium, hard, .*no curriculum"):
        source().load_state_dict(state)
    with pytest.raises(UserError, match="stage hard had cases"):
        source(curriculum={"stages": [*STAGES[:2], {"name": "hard", "cases": ["hex"]}]}).load_state_dict(state)


def test_failure_replay_may_begin_or_end_when_a_run_goes_on() -> None:
    plain, replaying = source(), source(failure_replay={})
    for _ in simulate(replaying, 5):
        pass
    plain.load_state_dict(replaying.state_dict())
    assert {draw.origin for batch in simulate(plain, 20) for draw in batch} == {"fresh"}
    replaying = source(failure_replay={})
    replaying.load_state_dict(plain.state_dict())
    assert len(replaying.failures or ()) == 0
    assert "replay" in shares(simulate(replaying, 20))


def test_the_cost_does_not_grow_with_the_tasks() -> None:
    def seconds(tasks: int) -> float:
        drawn = source(
            curriculum={"stages": STAGES, "threshold": 0.3},
            failure_replay={},
            adapter_config={"num_tasks_per_case": tasks},
        )
        began = time.process_time()
        for _ in simulate(drawn, 100):
            pass
        return time.process_time() - began

    seconds(100)
    assert seconds(10**9) < 5 * min(seconds(1000) for _ in range(3))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"curriculum": {"stages": [{"name": "a", "treshold": 0.3}]}}, "unknown key of stage a 'treshold': did you"),
        ({"curriculum": {"stages": [{"name": "a", "cases": "hexx"}]}}, "stage a: unknown game 'hexx'"),
        ({"curriculum": {"stages": [{"name": "a", "opponent": "nobody"}]}}, "stage a: "),
        ({"curriculum": 3}, "curriculum must be null or a mapping, such as {} for the defaults, not 3"),
        ({"failure_replay": True}, "failure_replay must be null or a mapping"),
        (
            {"curriculum": {"stages": STAGES, "past_share": 0.8}, "failure_replay": {}},
            "curriculum.past_share=0.8 and failure_replay.probability=0.3 leave no fresh games",
        ),
    ],
)
def test_a_mistake_is_one_clear_line(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        source(**settings)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
