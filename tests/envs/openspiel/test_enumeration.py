"""Enumeration of all states of small games, and of states near the root of any game."""

from veritas_rl.envs.openspiel import enumeration
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.enumeration import states_within


def test_all_states_of_tic_tac_toe_are_listed() -> None:
    found = enumeration.enumerate_states("tic_tac_toe")
    assert found is not None
    assert len(found) == 4520  # all decision states
    assert len({position.group for position in found}) == 627  # up to the 8 symmetries of the square
    assert all(position.forced == (position.depth == 8) for position in found)


def test_all_states_of_small_card_games_are_listed() -> None:
    kuhn, leduc = enumeration.enumerate_states("kuhn_poker"), enumeration.enumerate_states("leduc_poker")
    assert kuhn is not None
    assert leduc is not None
    assert len(kuhn) == 12
    assert (len(leduc), len({position.group for position in leduc})) == (936, 288)  # 288 up to suits: Southey et al.


def test_a_large_game_is_not_listed() -> None:
    assert enumeration.enumerate_states("connect_four") is None


def test_near_positions_are_listed_up_to_a_depth() -> None:
    game = load("connect_four")
    assert [len(states_within(game, depth, 1000) or ()) for depth in range(3)] == [1, 1 + 7, 1 + 7 + 49]
    assert states_within(game, 2, 56) is None  # there are 57


def test_chance_nodes_do_not_count_as_depth() -> None:
    game = load("kuhn_poker")
    found = states_within(game, 0, 1000) or ()
    assert sorted(position.history[0] for position in found) == [
        0,
        1,
        2,
    ]  # depends only on the first player's card
    assert {position.depth for position in found} == {0}
