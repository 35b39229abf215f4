"""Values: in [0, 1], exact where the game is small, honest and repeatable elsewhere."""

import random

import pytest

from veritas_rl.envs.base import Reason
from veritas_rl.envs.openspiel import positions, scoring
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.solver import ExactSolver
from veritas_rl.errors import UserError

pytestmark = pytest.mark.filterwarnings("ignore:.*has no description of its own")


def move_value(game: Game, state: State, action: int) -> scoring.MoveValue:
    return scoring.move_value(game, state, state.current_player(), action, 64)


def after(case: str, *actions: int):
    return positions.replay(load(case), actions)


def test_outcomes_do_not_depend_on_the_size_of_the_return() -> None:
    leduc, hearts, alone = load("leduc_poker"), load("hearts"), load("2048")
    assert [leduc.outcome([x, -x], 0) for x in (-13, -1, 0, 1, 13)] == [0, 0, 0.5, 1, 1]
    assert [hearts.outcome([9, 9, 5, 3], seat) for seat in range(4)] == pytest.approx([1, 1, 1 / 3, 0])
    assert 0 < alone.outcome([2048], 0) < 1
    assert [scoring.result(value) for value in (1.0, 0.5, 0.4)] == [Reason.WON, Reason.DRAWN, Reason.LOST]


@pytest.mark.parametrize(
    ("case", "returns", "values"),
    [
        ("leduc_poker", (13, -13), (1, 0)),
        ("leduc_poker", (-1, 1), (12 / 26, 14 / 26)),
        ("hearts", (26, 0, 0, 0), (1, 2 / 3, 2 / 3, 2 / 3)),
        ("hearts", (9, 9, 5, 3), (1, 1, 1 / 3, 0)),
        ("cribbage", (3, 5), (0, 1)),
        ("cribbage", (5, 5), (0.5, 0.5)),
        ("2048", (2048,), (0.1,)),
    ],
)
def test_the_utility_scale_is_the_communitys_formula(
    case: str, returns: tuple[float, ...], values: tuple[float, ...]
) -> None:
    game = load(case)
    found = [game.outcome(returns, seat, "utility") for seat in range(len(returns))]
    assert found == pytest.approx(values, abs=1e-9)


def test_tic_tac_toe_is_valued_exactly() -> None:
    game = load("tic_tac_toe")
    state = after("tic_tac_toe", 0, 8, 1, 7)  # x has a1 b1, o has c3 b3: c1 wins, a3 stops o
    values = {action: move_value(game, state, action) for action in state.legal_actions()}
    assert (values[2].value, values[2].good, values[2].source) == (1.0, True, "exact")
    assert (values[4].value, values[4].good) == (0.0, False)
    root = game.spiel.new_initial_state()
    assert {move_value(game, root, action).value for action in range(9)} == {0.5}


def test_playouts_find_a_win_in_one_and_repeat() -> None:
    game = load("connect_four")
    state = after("connect_four", 0, 1, 0, 1, 0, 1)
    values = {action: move_value(game, state, action) for action in state.legal_actions()}
    assert values[0] == scoring.MoveValue(1.0, "playouts", None, 0.0)
    assert all(0 <= value.value <= 1 for value in values.values())
    assert values == {action: move_value(game, state, action) for action in state.legal_actions()}
    assert values[1].value > values[5].value  # stopping o's column beats letting it win


def test_native_playouts_agree_with_a_plain_loop() -> None:
    """Both estimate the same mean: over 60 positions they differ by no more than their sampling error."""
    game = load("hex(board_size=5)")
    difference = []
    for index in range(60):
        state, player = positions.walk(game, random.Random(index))
        action = state.legal_actions()[0]
        asked = (game, state, player, action, 64, "result")
        difference.append(scoring._native_playouts(*asked)[0] - scoring._playouts(*asked)[0])
    assert abs(sum(difference) / 60) < 4 * (2 * 0.25 / 64 / 60) ** 0.5
    assert any(difference)


def test_hidden_cards_do_not_move_a_value() -> None:
    game = load("leduc_poker")
    state = after("leduc_poker", 0, 4, 1)
    other = game.resample(state, state.current_player(), random.Random(3).random)
    assert state.history() != other.history()
    for action in state.legal_actions():
        assert move_value(game, state, action) == move_value(game, other, action)


def test_a_king_is_worth_more_than_a_jack() -> None:
    game = load("kuhn_poker")
    bet = [move_value(game, after("kuhn_poker", card, (card + 1) % 3), 1).value for card in range(3)]
    assert bet[0] < bet[1] < bet[2] == 1.0
    fold = after("kuhn_poker", 0, 1, 0, 1)
    assert move_value(game, fold, 0).value == 0


@pytest.mark.parametrize(("case", "value"), [("tic_tac_toe", 0), ("hex(board_size=3)", 1), ("hex(board_size=2)", 1)])
def test_known_game_values(case: str, value: float) -> None:
    game = load(case)
    assert max(ExactSolver(game).values(game.spiel.new_initial_state()).values()) == value


def test_the_solver_refuses_what_it_cannot_solve() -> None:
    with pytest.raises(UserError, match="more than 500 states"):
        ExactSolver(load("connect_four"), 500).values(load("connect_four").spiel.new_initial_state())
    for case in ("kuhn_poker", "backgammon", "2048"):
        with pytest.raises(UserError, match="minimax"):
            ExactSolver(load(case))


def test_optimal_moves_of_a_larger_game_are_found_by_search() -> None:
    game = load("connect_four")
    state = after("connect_four", 0, 1, 0, 1, 0, 1)  # x wins at once in column 0
    values = {action: scoring.best_move_value(game, state, 0, action, 64) for action in state.legal_actions()}
    assert values[0] == scoring.MoveValue(1.0, "search", 1.0)
    assert values[0].good
    assert [action for action, value in values.items() if value.good] == [0]
    assert all(0 < value.lost <= 1 for action, value in values.items() if action)


def test_optimal_moves_with_hidden_cards_are_those_of_the_equilibrium() -> None:
    game = load("kuhn_poker")
    king = [scoring.best_move_value(game, after("kuhn_poker", 2, 0, 0, 1), 0, action, 64) for action in (0, 1)]
    assert king[1].good  # calling with the king wins 2 chips, folding loses 1: 3 of the 4 that are between the ends
    assert king[0].lost == pytest.approx(3 / 4)
    assert king[0].source == "equilibrium"
    first = [scoring.best_move_value(game, after("kuhn_poker", 2, 0), 0, action, 64) for action in (0, 1)]
    assert [move.good for move in first] == [True, True]  # the equilibrium mixes betting and slow play with the king
