"""Metrics of whole games: a game counts once for each seat, whatever its length, and long games weigh no more."""

from typing import Any

import pytest

from veritas_rl.verl_plugin.replay_buffer import game_metrics
from veritas_rl.verl_plugin.trainer import moves_of


def sample(seat: int, value: float, left: int = 0, **info: float) -> dict[str, Any]:
    told = {"value": value, "success": float(value > 0.5), "legal": 1.0, "moves": 5.0, "reason": "won", **info}
    move = {"seat": seat, "left": left, "discount": 0.9**left, "opponent": "mcts:50", "opponent_wait": 0.25}
    return {"reward_extra_info": told, "move": move}


BATCH = [
    # A long game that was won, and a short one that was lost.
    *((f"a_0_{index}", "hex", sample(0, 1.0, 3 - index), 0.9 ** (3 - index)) for index in range(4)),
    ("b_0_0", "hex", sample(1, 0.0), 0.0),
    ("c_0_0", "go", sample(0, 1.0), 1.0),
]


def test_games_are_counted_not_replies() -> None:
    metrics = game_metrics(*map(list, zip(*BATCH, strict=True)))
    assert metrics["game/success"] == pytest.approx(2 / 3)
    assert metrics["game/hex/success"] == 0.5
    assert metrics["game/vs_mcts:50/success"] == pytest.approx(2 / 3)
    assert (metrics["game/seat_0/success"], metrics["game/seat_1/success"]) == (1.0, 0.0)
    assert metrics["game/moves"] == 5
    assert metrics["game/opponent_wait"] == 0.25
    assert metrics["game/reward"] == pytest.approx((sum(0.9**left for left in range(4)) / 4 + 0 + 1) / 3)
    assert not any(isinstance(value, str) or "reason" in name for name, value in metrics.items())


def test_the_order_of_a_batch_means_nothing() -> None:
    assert game_metrics(*map(list, zip(*BATCH[::-1], strict=True))) == pytest.approx(
        game_metrics(*map(list, zip(*BATCH, strict=True)))
    )


def test_single_moves_have_no_opponent() -> None:
    told = {"reward_extra_info": {"success": 1.0}, "move": {"seat": 1, "opponent": "none"}}
    assert game_metrics(["a_0_0"], ["hex"], [told], [1.0]) == {
        "game/success": 1.0,
        "game/reward": 1.0,
        "game/hex/success": 1.0,
        "game/hex/reward": 1.0,
    }


def test_replies_are_numbered_by_seat() -> None:
    fields = [sample(seat, 1.0, left) for seat, left in ((0, 1), (1, 0), (0, 0))]
    moves = moves_of([f"u_3_{index}" for index in range(3)], ["hex"] * 3, fields, [0.9, 0.0, 1.0])
    assert [(move.task, move.game, move.seat, move.turn, move.discount) for move in moves] == [
        ("u", "u_3", 0, 0, 0.9),
        ("u", "u_3", 1, 0, 1.0),
        ("u", "u_3", 0, 1, 1.0),
    ]
