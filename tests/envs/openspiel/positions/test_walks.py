"""Walks: their depth in thirds of the game, and their players, which are better than random players."""

import random
from statistics import mean

import pytest

from veritas_rl.envs.openspiel import positions
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Game
from veritas_rl.envs.openspiel.playing import apply_chance
from veritas_rl.envs.openspiel.positions import walks


@pytest.mark.parametrize("case", ["hex(board_size=5)", "connect_four", "hearts", "goofspiel", "liars_dice(numdice=5)"])
def test_the_stages_of_a_game_come_in_order(case: str) -> None:
    begin, second, third, end = walks.stages(case)
    assert begin == 0 < second < third < end <= load(case).spiel.max_game_length()


def test_a_game_of_known_length_has_three_thirds_of_it() -> None:
    # Every deal of hearts has 52 cards to play, and three of four deals have 12 cards to pass.
    _, second, third, end = walks.stages("hearts")
    assert second == pytest.approx(end / 3, rel=0.1)
    assert third == pytest.approx(2 * end / 3, rel=0.1)


@pytest.mark.parametrize("case", ["hex(board_size=5)", "goofspiel", "hearts"])
@pytest.mark.parametrize("third", [0, 1, 2])
def test_candidates_lie_in_their_third(case: str, third: int) -> None:
    game = load(case)
    begin, end = walks.stages(case)[third : third + 2]
    for index in range(5):
        for state, seat in walks.candidates(game, random.Random(index), third, 4):
            made = sum(step.player >= 0 for step in state.full_history()) / (2 if game.simultaneous else 1)
            assert int(begin) <= made <= end
            assert seat in game.movers(state)


def _result(game: Game, skills: tuple[float, float], index: int) -> float:
    """Player 0's return in a game between players of these skills."""
    chance = random.Random(index)
    players = [walks._Player(game, chance, skill) for skill in skills]
    state = game.spiel.new_initial_state()
    while not state.is_terminal():
        if state.is_chance_node():
            apply_chance(state, chance.random())
        else:
            state.apply_action(players[state.current_player()].choose(state))
    return state.player_return(0)


@pytest.mark.parametrize("case", ["hex(board_size=5)", "connect_four", "breakthrough(columns=6,rows=6)", "liars_dice"])
def test_the_more_skilled_walker_wins(case: str) -> None:
    game = load(case)
    first = mean(_result(game, (1.0, 0.0), index) for index in range(40))
    second = mean(_result(game, (0.0, 1.0), index) for index in range(40))
    assert first - second > 0.5


def test_a_player_without_skill_chooses_uniformly() -> None:
    game = load("tic_tac_toe")
    player = walks._Player(game, random.Random(0), 0.0)
    root = game.spiel.new_initial_state()
    chosen = [player.choose(root) for _ in range(900)]
    assert all(60 <= chosen.count(action) <= 140 for action in range(9))


def test_players_of_quoridor_have_walls_left_in_most_tasks() -> None:
    """Nearly all legal moves are walls, so random players have no walls left in nine of ten positions."""
    case = "quoridor(board_size=7,wall_count=8)"
    tasks = [positions.decision_of(case, k, 42, "train") for k in range(6)]
    walls = [any(name[-1] in "hv" for name in load(case).action_names(state, seat).values()) for state, seat in tasks]
    assert sum(walls) >= 3
