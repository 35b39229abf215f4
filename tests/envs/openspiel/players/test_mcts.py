"""Tree search is stronger than random play, reproducible, bounded by simulations, and sees no hidden information."""

import random
import subprocess
import sys

import pytest

from veritas_rl.envs.base import Reason, Turn, play
from veritas_rl.envs.openspiel import positions
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.openspiel.players.mcts import MCTSPlayer, check_searchable
from veritas_rl.envs.openspiel.view import View
from veritas_rl.envs.registry import make_task
from veritas_rl.errors import UserError
from veritas_rl.players.random import RandomPlayer
from veritas_rl.players.registry import check_bot, make_bot

pytestmark = pytest.mark.filterwarnings("ignore:.*has no description of its own")
ENV = OpenSpielEnvironment()


def wins(case: str, player: MCTSPlayer, games: int) -> float:
    """The mean value of a player against random players, in alternating seats."""
    seats = load(case).players
    total = 0.0
    for k in range(games):
        bots = {seat: player if seat == k % seats else RandomPlayer(1) for seat in range(seats)}
        total += play([ENV.start(make_task("openspiel", case, k, mode="episode"))], bots)[0][k % seats].value
    return total / games


@pytest.mark.parametrize(
    ("case", "least"),
    [
        ("tic_tac_toe", 0.9),
        ("connect_four", 0.9),
        ("hex(board_size=5)", 0.9),
        ("leduc_poker", 0.55),
        ("euchre", 0.55),
        ("phantom_ttt", 0.65),  # the last three games are searched in sampled worlds
        ("liars_dice", 0.7),
        ("liars_dice(numdice=5)", 0.85),
    ],
)
def test_fifty_simulations_beat_chance(case: str, least: float) -> None:
    assert wins(case, MCTSPlayer(50), 40) >= least


def test_a_search_is_the_same_in_any_process() -> None:
    """Also in poker, where ties must not be broken by hash order, which differs between processes."""
    program = (
        "from veritas_rl.envs.registry import make_task\n"
        "from veritas_rl.envs.openspiel.env import OpenSpielEnvironment\n"
        "from veritas_rl.envs.openspiel.players.mcts import MCTSPlayer\n"
        "for case in ('kuhn_poker', 'leduc_poker', 'tic_tac_toe'):\n"
        "    turns = [OpenSpielEnvironment().start(make_task('openspiel', case, k)).turns()[0] for k in range(40)]\n"
        "    print([reply.text for reply in MCTSPlayer(4).act(turns)])\n"
    )
    said = {subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout for _ in range(3)}
    assert len(said) == 1


def turn_of(case: str, state: object, seat: int, chance: str = "deal") -> Turn:
    actions = tuple(state.legal_actions(seat))  # pyright: ignore[reportAttributeAccessIssue]
    view = View(state, actions, load(case).case)
    return Turn(seat, (), tuple(map(str, actions)), dice=(chance, 1, seat), view=view)


def test_a_move_depends_on_seed_and_dice_alone() -> None:
    state, seat = positions.walk(load("hex(board_size=7)"), random.Random(2))
    turn = turn_of("hex(board_size=7)", state, seat)
    first = MCTSPlayer(30).act([turn])
    assert MCTSPlayer(30).act([turn, turn]) == first * 2
    others = {MCTSPlayer(2, seed=seed).act([turn])[0].text for seed in range(12)}
    assert len(others) > 1


@pytest.mark.parametrize("case", ["leduc_poker", "kuhn_poker", "gin_rummy"])
def test_the_search_does_not_see_hidden_cards(case: str) -> None:
    game, player = load(case), MCTSPlayer(40)
    for index in range(6):
        state, seat = positions.walk(game, random.Random(index))
        other = game.resample(state, seat, random.Random(index + 100).random)
        assert player.act([turn_of(case, state, seat)]) == player.act([turn_of(case, other, seat)])


def test_a_search_that_does_not_stop_at_a_proof_finds_the_win_too() -> None:
    state = load("tic_tac_toe").spiel.new_initial_state()
    for action in (0, 3, 1, 4):  # x wins at 2
        state.apply_action(action)
    turn = turn_of("tic_tac_toe", state, 0)
    for solve in (True, False):
        assert MCTSPlayer(200, solve=solve).act([turn])[0].text == "2"


def test_games_that_cannot_be_searched_are_refused_with_the_reason() -> None:
    with pytest.raises(UserError, match="at once"):
        check_searchable("goofspiel")
    with pytest.raises(UserError, match="before its end"):
        check_searchable("2048")


@pytest.mark.parametrize("name", ["mtcs", "mcts:", "mcts:0", "mcts:-5", "mcts:many", "", "exact:1"])
def test_unknown_bots_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"unknown player|at least 1"):
        make_bot(name, "openspiel")


def test_a_bot_that_cannot_play_a_case_is_refused_before_it_plays() -> None:
    check_bot("exact", "openspiel", ["tic_tac_toe", "kuhn_poker"])
    check_bot("mcts:full", "openspiel", ["hex(board_size=5)"])
    for case, size in (
        ("liars_dice(numdice=2)", "more than 500,000 histories"),
        ("connect_four", "more than 100,000 states"),
        ("chess", "more than 100,000 states"),
    ):
        with pytest.raises(UserError, match=f"{size}.*mcts:50"):
            check_bot("exact", "openspiel", [case])


def test_the_equilibrium_wins_chips_from_a_random_player() -> None:
    exact, chance = make_bot("exact", "openspiel"), make_bot("random", "openspiel")
    returns = []
    for k in range(600):
        seat = k % 2
        task = make_task("openspiel", "kuhn_poker", k // 2, mode="episode")
        score = play([ENV.start(task)], {seat: exact, 1 - seat: chance})[0][seat]
        assert score.reason in (Reason.WON, Reason.LOST)
        returns.append(float(score.details["return"]))
    assert sum(returns) / len(returns) > 0.1


@pytest.mark.parametrize("simulations", [1, 2, 10, 17])
def test_a_few_simulations_are_enough_for_a_legal_move(simulations: int) -> None:
    for case in ("liars_dice", "phantom_ttt"):  # searched in sampled worlds
        (turn,) = ENV.start(make_task("openspiel", case, 1, mode="episode")).turns()
        assert MCTSPlayer(simulations).act([turn])[0].text in turn.answers
