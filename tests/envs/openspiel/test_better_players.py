"""In every game the better player is paid more over whole games, and games end by their rules."""

import math
import random
from collections.abc import Sequence

import pytest

from veritas_rl.envs.base import Player, Reply, Turn, play
from veritas_rl.envs.openspiel import playing
from veritas_rl.envs.openspiel.cases import DEFAULT_CASES, load
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.openspiel.games import GAMES
from veritas_rl.envs.openspiel.players.mcts import MCTSPlayer
from veritas_rl.envs.openspiel.view import View
from veritas_rl.envs.registry import make_task
from veritas_rl.players.random import RandomPlayer
from veritas_rl.seeding import generator

ENV = OpenSpielEnvironment()


class GreedyPlayer:
    """Plays the move with the best mean of a few random playouts, which have the limit of the reward's playouts.

    It plays games for which tree search is impossible or slow.

    Args:
        playouts: The number of playouts for each legal move.
    """

    def __init__(self, playouts: int) -> None:
        self.playouts = playouts

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        return [self._answer(turn) for turn in turns]

    def _answer(self, turn: Turn) -> Reply:
        view: View = turn.view
        worths = [sum(self._worth(turn, action, index) for index in range(self.playouts)) for action in view.actions]
        best = [answer for answer, worth in zip(turn.answers, worths, strict=True) if worth == max(worths)]
        return Reply(generator("greedy", *turn.dice).choice(best))

    def _worth(self, turn: Turn, action: int, index: int) -> float:
        view: View = turn.view
        game, dice = load(view.case), generator("greedy", *turn.dice, index)
        state = game.resample(view.state, turn.seat, dice.random)
        others = {seat: dice.choice(state.legal_actions(seat)) for seat in game.movers(state) if seat != turn.seat}
        game.apply(state, {**others, turn.seat: action})
        limit = game.playout_limit(view.state)
        left = math.inf if limit is None else limit
        while not state.is_terminal() and (left or state.is_chance_node()):
            if state.is_chance_node():
                playing.apply_chance(state, dice.random())
            else:
                state.apply_action(dice.choice(state.legal_actions()))
                left -= 1
        return game.graded(view.state, state, turn.seat, "auto")


def gains(case: str, player: Player, deals: int) -> list[float]:
    """The player's gain over a random player, as a mean over the seats of each deal; all other seats play randomly."""
    seats = range(load(case).players)
    found = []
    for k in range(deals):
        task = make_task("openspiel", case, k, mode="episode")
        usual = play([ENV.start(task)], RandomPlayer(1))[0]
        paid = [
            play([ENV.start(task)], {other: player if other == seat else RandomPlayer(1) for other in seats})[0][seat]
            for seat in seats
        ]
        found.append(sum(paid[seat].value - usual[seat].value for seat in seats) / len(seats))
    return found


def assert_better(case: str, player: Player, deals: int) -> None:
    """Assert that the mean gain is more than two standard errors above zero."""
    found = gains(case, player, deals)
    mean = sum(found) / deals
    error = math.sqrt(sum((gain - mean) ** 2 for gain in found) / (deals - 1) / deals)
    assert mean > max(0.0, 2 * error), f"{case}: {mean:.3f}, standard error {error:.3f}"


SEARCH, GREEDY = MCTSPlayer(50), GreedyPlayer(8)
QUICK: dict[str, tuple[Player, int]] = {
    "tic_tac_toe": (SEARCH, 8),
    "kuhn_poker": (MCTSPlayer(100), 120),
    "leduc_poker": (SEARCH, 60),
    "liars_dice": (SEARCH, 12),
    "hex(board_size=5)": (SEARCH, 4),
    "connect_four": (SEARCH, 4),
    "clobber(columns=5,rows=5)": (SEARCH, 6),
    "breakthrough(columns=6,rows=6)": (SEARCH, 4),
    "dots_and_boxes(num_cols=3,num_rows=3)": (GREEDY, 4),
    "othello": (GreedyPlayer(2), 8),
    "oware": (GREEDY, 3),
    "phantom_ttt": (SEARCH, 24),
    "latent_ttt": (SEARCH, 60),
    "pig": (GREEDY, 6),
    "blackjack": (GreedyPlayer(32), 200),
    "2048": (GreedyPlayer(3), 4),
    "goofspiel(num_cards=8)": (GreedyPlayer(16), 10),
    "euchre": (SEARCH, 40),
    "checkers": (GreedyPlayer(2), 3),
    "amazons(board_size=6)": (GreedyPlayer(2), 8),
    "quoridor(board_size=7,wall_count=8)": (GreedyPlayer(1), 2),
}
"""The better player, and a number of deals that shows it reliably, in one or two seconds per case."""
SLOW: dict[str, tuple[Player, int]] = {
    "chess": (GreedyPlayer(2), 6),
    "go(board_size=9)": (GreedyPlayer(2), 4),
    "backgammon": (GreedyPlayer(2), 10),
    "gin_rummy": (GreedyPlayer(2), 10),
    "cribbage": (GreedyPlayer(8), 8),
    "bridge(use_double_dummy_result=False)": (GreedyPlayer(8), 50),
    "hearts": (GreedyPlayer(8), 10),
    "battleship": (MCTSPlayer(16), 6),
    "solitaire": (GREEDY, 80),
    "liars_dice(numdice=5)": (SEARCH, 10),
}


@pytest.mark.parametrize("case", QUICK)
def test_the_better_player_is_paid_more(case: str) -> None:
    assert_better(case, *QUICK[case])


@pytest.mark.long
@pytest.mark.parametrize("case", SLOW)
def test_the_better_player_is_paid_more_in_long_games(case: str) -> None:
    assert_better(case, *SLOW[case])


def test_every_game_has_a_better_player() -> None:
    assert set(GAMES) == {load(case).short_name for case in {**QUICK, **SLOW}}


def share_within_limit(case: str, games: int) -> float:
    """The share of random games that end within the game's move limit."""
    game, ended = load(case), 0
    for index in range(games):
        chance, state, moves = random.Random(index), game.spiel.new_initial_state(), 0
        while not state.is_terminal() and moves < game.max_moves:
            if state.is_chance_node():
                playing.apply_chance(state, chance.random())
                continue
            moves += len(game.movers(state))
            state.apply_action(chance.choice(state.legal_actions()))
        ended += state.is_terminal()
    return ended / games


@pytest.mark.parametrize(
    "case", ["chess", "backgammon", "cribbage", "oware(num_seeds_per_house=5)", "2048", "goofspiel"]
)
def test_random_games_end_by_the_rules(case: str) -> None:
    assert share_within_limit(case, 20) == 1


@pytest.mark.long
@pytest.mark.parametrize("case", DEFAULT_CASES)
def test_99_of_100_random_games_end_by_the_rules(case: str) -> None:
    assert share_within_limit(case, 400) >= 0.99
