"""Metrics of a training batch: each seat of each game counts once, so long and short games have the same weight."""

from typing import Any

import pytest

from veritas_rl.verl_plugin.replay_buffer import task_metrics


def sample(group: str, seat: int, value: float, left: int = 0, **info: float) -> dict[str, Any]:
    """The agent loop's extra fields of a reply in a whole game."""
    reason = "won" if value > 0.5 else "lost"
    found = {
        "value": value,
        "success": float(value > 0.5),
        "legal": 1.0,
        "moves": 5.0,
        "reason": reason,
        "group": group,
    }
    move = {"seat": seat, "left": left, "discount": 0.9**left, "opponent": "mcts:50", "opponent_wait": 0.25}
    return {"reward_extra_info": {**found, **info}, "move": move}


def single(group: str, success: float) -> dict[str, Any]:
    """The agent loop's extra fields of a task with one answer."""
    return {
        "reward_extra_info": {"success": success, "reason": "legal", "group": group},
        "move": {"seat": 0, "opponent": "none"},
    }


BATCH = [
    # A long game that was won, and two short games, one lost and one won.
    *((f"a_0_{index}", sample("openspiel/hex", 0, 1.0, 3 - index), 0.9 ** (3 - index)) for index in range(4)),
    ("b_0_0", sample("openspiel/hex", 1, 0.0), 0.0),
    ("c_0_0", sample("openspiel/go", 0, 1.0), 1.0),
]


def test_games_are_counted_not_replies() -> None:
    metrics = task_metrics(*map(list, zip(*BATCH, strict=True)))
    assert metrics["task/success"] == metrics["openspiel/success"] == pytest.approx(2 / 3)
    assert metrics["openspiel/hex/success"] == 0.5
    assert metrics["openspiel/vs_mcts:50/success"] == pytest.approx(2 / 3)
    assert (metrics["openspiel/seat_0/success"], metrics["openspiel/seat_1/success"]) == (1.0, 0.0)
    assert metrics["task/moves"] == 5
    assert metrics["openspiel/opponent_wait"] == 0.25
    assert metrics["task/reward"] == pytest.approx((sum(0.9**left for left in range(4)) / 4 + 0 + 1) / 3)
    reasons = {name: share for name, share in metrics.items() if "reason" in name}
    assert reasons == {"task/reason/won": pytest.approx(2 / 3), "task/reason/lost": pytest.approx(1 / 3)}
    assert not any(isinstance(value, str) for value in metrics.values())


def test_the_order_of_a_batch_means_nothing() -> None:
    assert task_metrics(*map(list, zip(*BATCH[::-1], strict=True))) == pytest.approx(
        task_metrics(*map(list, zip(*BATCH, strict=True)))
    )


def test_tasks_with_one_answer_have_no_opponent() -> None:
    assert task_metrics(["a_0_0"], [single("openspiel/hex", 1.0)], [1.0]) == {
        "task/reason/legal": 1.0,
        "task/success": 1.0,
        "task/reward": 1.0,
        "openspiel/success": 1.0,
        "openspiel/reward": 1.0,
        "openspiel/hex/success": 1.0,
        "openspiel/hex/reward": 1.0,
    }


def test_each_environment_of_a_mixture_is_counted_by_itself_and_by_its_own_groups() -> None:
    fields = [single("trace/level 1", 1.0), single("trace/level 2", 0.0), sample("openspiel/hex", 1, 1.0)]
    metrics = task_metrics(["a_0_0", "b_0_0", "c_0_0"], fields, [1.0, 0.0, 0.9])
    found = {name: value for name, value in metrics.items() if name.endswith("/success")}
    assert found == {
        "task/success": pytest.approx(2 / 3),
        "trace/success": 0.5,
        "trace/level 1/success": 1.0,
        "trace/level 2/success": 0.0,
        "openspiel/success": 1.0,
        "openspiel/hex/success": 1.0,
        "openspiel/vs_mcts:50/success": 1.0,
        "openspiel/seat_1/success": 1.0,
    }
    # Only whole games have a length.
    assert {name for name in metrics if name.endswith("/moves")} == {
        *("task/moves", "openspiel/moves", "openspiel/hex/moves"),
        *("openspiel/vs_mcts:50/moves", "openspiel/seat_1/moves"),
    }
