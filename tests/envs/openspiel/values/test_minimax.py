"""Exact values of known games, and of late positions of larger games against a plain minimax."""

from typing import Any

import pytest

from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.values.ladder import solved
from veritas_rl.envs.openspiel.values.minimax import ExactSolver
from veritas_rl.envs.openspiel.values.question import Question
from veritas_rl.errors import UserError
from veritas_rl.seeding import generator


def plain_minimax(state: Any, player: int) -> float:
    """The return of a player under best play, by a search without cache or pruning."""
    if state.is_terminal():
        return state.player_return(player)
    values = [plain_minimax(state.child(action), player) for action in state.legal_actions()]
    return max(values) if state.current_player() == player else min(values)


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


@pytest.mark.parametrize(
    ("case", "moves"),
    [
        ("clobber(columns=5,rows=5)", 5),
        ("dots_and_boxes(num_cols=3,num_rows=3)", 6),
        ("hex(board_size=5)", 6),
    ],
)
def test_late_positions_are_solved_as_by_a_search_of_every_line(case: str, moves: int) -> None:
    game, found = load(case), set()
    for index in range(12):
        random, state = generator("late", case, index), game.spiel.new_initial_state()
        while len(state.legal_actions()) > moves:
            state.apply_action(random.choice(state.legal_actions()))
        if state.is_terminal():
            continue
        player = state.current_player()
        values = solved(Question.of(game, state, player))
        assert values == {action: plain_minimax(state.child(action), player) for action in state.legal_actions()}
        assert values is not None
        found |= set(values.values())
    assert {-1, 1} <= found


def test_a_position_far_from_the_end_is_not_solved() -> None:
    for case in ("clobber(columns=7,rows=7)", "oware", "chess"):
        game = load(case)
        assert solved(Question.of(game, game.spiel.new_initial_state(), 0)) is None
