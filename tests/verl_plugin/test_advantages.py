"""Advantages of whole games: compared by turn and seat, without more weight for long games."""

import pytest

from veritas_rl.verl_plugin.advantages import Move, RoleBaselines, group_relative, leave_one_out, role_conditioned


def game(task: str, name: str, seat: int, length: int, value: float, gamma: float = 1.0) -> list[Move]:
    """The moves of one seat in one game, with `length` replies."""
    return [
        Move(task, name, "hex", "self", seat, turn, value * gamma**left, value, gamma**left)
        for turn, left in enumerate(reversed(range(length)))
    ]


def total(moves: list[Move], advantages: list[float], name: str) -> float:
    return sum(abs(advantage) for move, advantage in zip(moves, advantages, strict=True) if move.game == name)


def test_winner_and_loser_of_one_task_are_compared() -> None:
    moves = game("t", "a", 0, 2, 1.0) + game("t", "b", 0, 2, 0.0)
    assert group_relative(moves, normalize=False) == pytest.approx([0.5, 0.5, -0.5, -0.5])
    assert group_relative(moves, normalize=True) == pytest.approx([0.5**0.5] * 2 + [-(0.5**0.5)] * 2, abs=1e-4)


def test_the_baseline_of_a_left_out_reply_is_the_mean_of_the_others() -> None:
    moves = [game("t", name, 0, 1, value)[0] for name, value in (("a", 1.0), ("b", 0.0), ("c", 0.5))]
    assert leave_one_out(moves) == pytest.approx([0.75, -0.75, 0.0])
    assert leave_one_out(game("t", "long", 0, 3, 1.0) + game("t", "short", 0, 1, 0.0))[1:3] == [0.0, 0.0]


def test_seats_and_tasks_are_not_compared_with_each_other() -> None:
    """Each seat of a two-player game is compared only with the same seat in the other games of the task."""
    moves = (
        game("t", "a", 0, 1, 1.0) + game("t", "a", 1, 1, 0.0) + game("t", "b", 0, 1, 1.0) + game("t", "b", 1, 1, 0.0)
    )
    assert group_relative(moves, normalize=True) == [0.0] * 4
    assert group_relative(game("t", "a", 0, 1, 1.0) + game("u", "b", 0, 1, 0.0), normalize=True) == [0.0, 0.0]


def test_a_turn_that_only_one_game_has_is_not_compared() -> None:
    moves = game("t", "long", 0, 3, 1.0) + game("t", "short", 0, 1, 0.0)
    advantages = group_relative(moves, normalize=False)
    assert advantages[1:3] == [0.0, 0.0]
    assert advantages[0] > 0 > advantages[3]


def test_a_long_game_weighs_no_more_than_a_short_one() -> None:
    moves = (game("t", "long", 0, 6, 1.0) + game("t", "also long", 0, 6, 0.0) + game("u", "short", 0, 2, 1.0)) + game(
        "u", "also short", 0, 2, 0.0
    )
    advantages = group_relative(moves, normalize=False)
    assert total(moves, advantages, "long") == pytest.approx(total(moves, advantages, "short"))
    assert sum(map(abs, advantages)) == pytest.approx(0.5 * len(moves))  # the weight of the whole batch is unchanged


def test_early_turns_of_a_long_game_are_discounted() -> None:
    moves = game("t", "a", 0, 4, 1.0, 0.5) + game("t", "b", 0, 4, 0.0, 0.5)
    advantages = group_relative(moves, normalize=False)[:4]
    assert advantages == pytest.approx([0.5 * 0.5**left for left in (3, 2, 1, 0)])


def test_the_advantage_of_a_seat_is_no_merit() -> None:
    """If the first seat always wins a game, the advantages vanish as the baselines adapt."""
    baselines, advantages = RoleBaselines(), []
    for step in range(200):
        moves = game("t", f"{step}", 0, 2, 1.0) + game("t", f"{step}", 1, 2, 0.0)
        advantages = role_conditioned(moves, baselines)
    assert advantages == pytest.approx([0.0] * 4, abs=1e-3)
    assert baselines.means == pytest.approx({"hex/self/0": 1.0, "hex/self/1": 0.0}, abs=1e-3)
    lost = role_conditioned(game("t", "last", 0, 1, 0.0), baselines)
    assert lost == pytest.approx([-0.95], abs=1e-2)


def test_in_self_play_a_reply_weighs_the_same_whatever_it_led_to() -> None:
    baselines = RoleBaselines()
    baselines.means = {"hex/self/0": 0.5}
    moves = game("t", "long", 0, 4, 1.0) + game("t", "short", 0, 1, 1.0)
    assert role_conditioned(moves, baselines) == pytest.approx([1.0 - baselines.means["hex/self/0"]] * 5)


def test_a_mistake_is_compared_like_a_loss() -> None:
    baselines = RoleBaselines()
    baselines.means = {"hex/self/0": 0.5}
    good, bad = game("t", "a", 0, 1, 1.0)[0], Move("t", "a", "hex", "self", 0, 1, 0.0, 1.0, 1.0)
    advantages = role_conditioned([good, bad], baselines)
    assert advantages[0] > 0 > advantages[1]
