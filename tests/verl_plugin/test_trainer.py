"""What the trainer makes of a batch before the dataset learns of it."""

from veritas_rl.verl_plugin.trainer import outcomes


def info(value: float, success: float) -> dict[str, float]:
    return {"value": value, "success": success}


def test_an_outcome_is_the_mean_over_the_games_of_a_row_each_by_its_last_reply() -> None:
    replies = [
        ("a-1_0_10", info(1.0, 1.0)),
        ("a-1_0_9", info(0.0, 0.0)),
        ("b-2_0_0", info(0.5, 0.0)),
        ("a-1_1_0", info(0.5, 0.0)),
        ("a-1_0_2", info(0.0, 0.0)),
    ]
    expected = {"a-1": (0.75, 0.5), "b-2": (0.5, 0.0)}
    assert outcomes(replies) == expected
    # verl balances the ranks, so a batch comes in any order.
    assert outcomes(replies[::-1]) == expected
