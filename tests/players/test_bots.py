"""The random player and the exact player."""

import random

import pytest

from veritas_rl.envs.base import Reason, play
from veritas_rl.envs.openspiel import enumeration, playing
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.env import OpenSpielConfig, OpenSpielEnvironment
from veritas_rl.envs.openspiel.players.exact import ExactPlayer
from veritas_rl.envs.openspiel.values.minimax import ExactSolver
from veritas_rl.envs.registry import make_task
from veritas_rl.errors import UserError
from veritas_rl.players.random import RandomPlayer

ENV = OpenSpielEnvironment()


def games(count: int) -> list:
    return [ENV.start(make_task("openspiel", "tic_tac_toe", k, mode="episode")) for k in range(count)]


def test_a_random_move_in_tic_tac_toe_is_optimal_with_probability_0_580() -> None:
    game = load("tic_tac_toe")
    solver = ExactSolver(game)
    found = enumeration.enumerate_states("tic_tac_toe") or ()
    shares = []
    for position in found:
        state = playing.replay(game, position.history)
        shares.append(len(solver.optimal_actions(state)) / len(state.legal_actions()))
    assert sum(shares) / len(shares) == pytest.approx(0.580, abs=5e-4)


def test_the_random_player_is_uniform_repeatable_and_leaves_the_global_generator_alone() -> None:
    turns = ENV.start(make_task("openspiel", "tic_tac_toe", 0, mode="episode")).turns()
    before = random.getstate()
    said = [RandomPlayer(seed).act(turns)[0].text for seed in range(1800)]
    assert random.getstate() == before
    counts = [said.count(answer) for answer in turns[0].answers]
    assert sum(counts) == 1800
    assert sum((count - 200) ** 2 / 200 for count in counts) < 26.1  # chi-squared, 8 degrees of freedom, p = 0.001
    assert RandomPlayer(5).act(list(turns) * 2) == RandomPlayer(5).act(turns) * 2


def test_exact_players_draw_tic_tac_toe_and_never_lose_to_chance() -> None:
    player = ExactPlayer()
    assert play(games(1), player)[0][0].reason is Reason.DRAWN
    for seat in (0, 1):
        reasons = [play(games(1), {seat: player, 1 - seat: RandomPlayer(seed)})[0][seat].reason for seed in range(30)]
        assert Reason.LOST not in reasons
        assert reasons.count(Reason.WON) > 15


def test_the_exact_player_solves_every_task() -> None:
    tasks = ENV.catalogue(OpenSpielConfig(cases="tic_tac_toe,hex(board_size=3)", prompt="brief"), "val")
    scores = play([ENV.start(task) for task in tasks], ExactPlayer())
    assert all(score.success for session in scores for score in session.values())
    guesses = play([ENV.start(task) for task in tasks], RandomPlayer(1))
    assert 0.3 < sum(score.success for session in guesses for score in session.values()) / len(tasks) < 0.75


def test_the_exact_player_refuses_large_games() -> None:
    with pytest.raises(UserError, match="connect_four is too large"):
        play([ENV.start(make_task("openspiel", "connect_four", 0, depth=2))], ExactPlayer(max_states=300))
