"""The failure buffer: which tasks enter, how often they are drawn, and when they leave."""

import json
from collections import Counter
from typing import Any

import pytest

from veritas_rl.configs import make_config
from veritas_rl.curriculum.replay import FailureBuffer, FailureReplayConfig
from veritas_rl.envs.registry import make_task
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.seeding import generator


def task(k: int) -> Task:
    return make_task("openspiel", "tic_tac_toe", k)


def buffer(**settings: Any) -> FailureBuffer:
    return FailureBuffer(FailureReplayConfig(**settings))


def play(failures: FailureBuffer, k: int, score: float, solved: bool = False) -> None:
    failures.record(task(k), "all", score, solved)


def drawn(failures: FailureBuffer, times: int) -> Counter[int]:
    """How often each task is drawn if each gets its previous score again."""
    counts: Counter[int] = Counter()
    for number in range(times):
        failure = failures.draw(generator("test", number))
        assert failure is not None
        counts[failure.task.k] += 1
        failures.record(failure.task, failure.stage, failure.score, solved=False)
    return counts


def test_only_scores_below_the_threshold_are_replayed() -> None:
    failures = buffer()
    play(failures, 1, 0.5)
    play(failures, 2, 1.0, solved=True)
    assert len(failures) == 0
    assert failures.draw(generator("test")) is None
    play(failures, 3, 0.49)
    assert drawn(failures, 5) == {3: 5}


def test_a_task_is_drawn_in_proportion_to_what_it_lacks() -> None:
    failures = buffer()
    for k, score in ((0, 0.0), (1, 0.2), (2, 0.4)):
        play(failures, k, score)
    counts = drawn(failures, 6000)
    # The shares are 1.0, 0.8 and 0.6 of 2.4; the standard deviation of each is below 0.0065.
    assert [counts[k] / 6000 for k in range(3)] == pytest.approx([1 / 2.4, 0.8 / 2.4, 0.6 / 2.4], abs=0.02)


def test_the_priority_follows_the_newest_score() -> None:
    failures = buffer()
    play(failures, 0, 0.0)
    play(failures, 1, 0.4)
    play(failures, 0, 0.8)
    play(failures, 1, 0.0)
    counts = drawn(failures, 3000)
    assert counts[0] / 3000 == pytest.approx(0.2 / 1.2, abs=0.03)
    # A task that is solved once is still drawn, as it must be solved twice to leave.
    play(failures, 0, 1.0, solved=True)
    assert 0 < drawn(failures, 3000)[0] < 500


def test_a_drawn_task_waits_for_its_outcome() -> None:
    failures = buffer()
    for k in range(3):
        play(failures, k, 0.0)
    found = [failures.draw(generator("test", number)) for number in range(4)]
    assert sorted(failure.task.k for failure in found if failure) == [0, 1, 2]
    assert found[3] is None
    play(failures, 1, 0.1)
    again = failures.draw(generator("test"))
    assert again is not None
    assert again.task.k == 1


def test_a_task_is_mastered_after_two_successes_in_a_row() -> None:
    failures = buffer()
    play(failures, 0, 0.0)
    for score, solved in ((1.0, True), (0.7, False), (1.0, True)):
        play(failures, 0, score, solved)
        assert len(failures) == 1
    play(failures, 0, 1.0, solved=True)
    assert len(failures) == 0
    assert failures.draw(generator("test")) is None
    assert failures.metrics() == {
        "failure_replay/size": 0,
        "failure_replay/mastered": 1,
        "failure_replay/come_back": 0,
    }


def test_a_mastered_task_that_fails_again_has_come_back() -> None:
    failures = buffer()
    play(failures, 0, 0.0)
    for _ in range(2):
        play(failures, 0, 1.0, solved=True)
    play(failures, 0, 0.9)
    assert failures.metrics()["failure_replay/come_back"] == 0
    play(failures, 0, 0.0)
    play(failures, 0, 0.0)
    play(failures, 1, 0.0)
    assert failures.metrics() == {
        "failure_replay/size": 2,
        "failure_replay/mastered": 1,
        "failure_replay/come_back": 1,
    }


def test_the_latest_failures_are_kept() -> None:
    failures = buffer(capacity=3)
    for k in (0, 1, 2, 0, 3):
        play(failures, k, 0.0)
    assert len(failures) == 3
    assert set(drawn(failures, 100)) == {0, 2, 3}


def test_the_replay_buffer_survives_json_mid_run() -> None:
    failures, again = buffer(capacity=20), buffer(capacity=20)
    dice = generator("outcomes")

    def step(number: int, *copies: FailureBuffer) -> None:
        score, k = dice.choice((0.0, 0.3, 1.0)), dice.randrange(60)
        found = []
        for copy in copies:
            failure = copy.draw(generator("draw", number))
            found.append(failure and (failure.task.k, failure.solved, failure.score))
            # Every third draw stays unfinished.
            if failure and number % 3:
                play(copy, failure.task.k, score, score == 1.0)
            play(copy, k, score, score == 1.0)
        assert found.count(found[0]) == len(found)

    for number in range(300):
        step(number, failures)
    assert failures.metrics()["failure_replay/mastered"] > 0
    again.load_state_dict(json.loads(json.dumps(failures.state_dict())))
    for number in range(300, 900):
        step(number, failures, again)
    assert again.state_dict() == failures.state_dict()
    assert again.metrics()["failure_replay/come_back"] > 0


def test_a_smaller_buffer_takes_the_latest_of_a_state() -> None:
    failures, smaller = buffer(), buffer(capacity=2)
    for k in range(5):
        play(failures, k, 0.0)
    smaller.load_state_dict(failures.state_dict())
    assert set(drawn(smaller, 50)) == {3, 4}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"probability": 1.5}, "failure_replay.probability must be a probability from 0 to 1, such as 0.3, not 1.5"),
        ({"probability": "often"}, "not 'often'"),
        ({"failure_threshold": -1}, "failure_replay.failure_threshold must be"),
        ({"capacity": 0}, "failure_replay.capacity must be a whole number of at least 1, not 0"),
        ({"capacity": True}, "not True"),
        ({"capacities": 3}, "unknown failure_replay key 'capacities': did you mean capacity?"),
    ],
)
def test_a_mistake_is_one_clear_line(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        make_config(FailureReplayConfig, values, "failure_replay")
    assert said in str(caught.value)
