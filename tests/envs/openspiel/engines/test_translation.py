"""Positions of random games are converted to the notations of the engines without loss."""

import random
from typing import Any

import chess
import endplay.dds.solve
import endplay.types
import pytest

from veritas_rl.envs.openspiel import playing
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.engines import backgammon, gtp, uci
from veritas_rl.envs.openspiel.engines.bridge import World
from veritas_rl.envs.openspiel.engines.process import EngineError
from veritas_rl.envs.openspiel.games import State


def states(case: str, games: int, moves: int = 400) -> list[State]:
    """The states of random games in which a player is to move."""
    found = []
    for seed in range(games):
        dice, state = random.Random(seed), load(case).spiel.new_initial_state()
        for _ in range(moves):
            if state.is_terminal():
                break
            if state.is_chance_node():
                playing.apply_chance(state, dice.random())
                continue
            found.append(state.clone())
            state.apply_action(dice.choice(state.legal_actions()))
    return found


def test_chess_positions_have_the_same_moves_in_python_chess() -> None:
    for state in states("chess", 4):
        board = chess.Board(uci.fen(state))
        assert {move.uci() for move in board.legal_moves} == set(uci.moves_of(state))
        assert sorted(uci.moves_of(state).values()) == sorted(state.legal_actions())


@pytest.mark.parametrize(
    "fen",
    [
        "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1",
        "r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1",
        "4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 2",
        "1n2k3/P7/8/8/8/8/p7/1N2K3 b - - 0 1",
    ],
    ids=["castling", "castling of black", "en passant", "promotion"],
)
def test_special_moves_lead_to_the_same_positions_in_python_chess(fen: str) -> None:
    state = load("chess").spiel.new_initial_state(fen)
    for move, action in uci.moves_of(state).items():
        board = chess.Board(fen)
        board.push_uci(move)
        assert board.fen().split()[:3] == uci.fen(state.child(action)).split()[:3]


@pytest.mark.parametrize("size", [5, 9, 13, 19])
def test_every_point_of_a_board_can_be_read_back(size: int) -> None:
    game = load(f"go(board_size={size})")
    written = [gtp.vertex(game, action) for action in range(size * size + 1)]
    assert [gtp.action_of(game, text) for text in written] == list(range(size * size + 1))
    assert [gtp.action_of(game, text.lower()) for text in written] == list(range(size * size + 1))
    assert written[0] == "A1"
    assert written[-1] == "pass"
    assert not any("I" in text for text in written)


@pytest.mark.parametrize("text", ["", "I5", "K1", "A0", "A10", "resign", "A", "5", "A1 B2"])
def test_points_outside_the_board_are_refused(text: str) -> None:
    with pytest.raises(EngineError, match="no point of a board of size 9"):
        gtp.action_of(load("go(board_size=9)"), text)


def test_go_games_are_played_again_from_their_commands() -> None:
    game = load("go(board_size=9)")
    for state in states(game.case, 3)[::7]:
        again = game.spiel.new_initial_state()
        for line in gtp.plays_of(game, state):
            word, colour, text = line.split()
            assert (word, colour) == ("play", gtp.COLOURS[again.current_player()])
            again.apply_action(gtp.action_of(game, text))
        assert again.observation_string(0) == state.observation_string(0)


def test_position_ids_of_backgammon_can_be_read_back() -> None:
    game = load("backgammon")
    for state in states(game.case, 5):
        mine, other = (backgammon.checkers_of(state, player) for player in (0, 1))
        text = backgammon.position_id(mine, other)
        assert len(text) == 14
        assert backgammon.read_position_id(text) == (mine, other)
        # OpenSpiel's text has the checkers that were borne off; the others are on the board and the bar.
        off = state.observation_string(0).strip().split("\n")[-1]
        assert off == f"Scores, X: {15 - sum(mine)}, O: {15 - sum(other)}"


def test_the_start_of_backgammon_has_its_known_position_id() -> None:
    """The expected id is from GNU Backgammon's manual."""
    state = states("backgammon", 1, 3)[0]
    sides = [backgammon.checkers_of(state, player) for player in (0, 1)]
    assert sides[0] == sides[1]
    assert backgammon.position_id(*sides) == "4HPwATDgc/ABMA"


def test_deals_of_bridge_can_be_read_back() -> None:
    game: Any = load("bridge(use_double_dummy_result=False)")
    for state in states(game.case, 2)[::5]:
        world = World(endplay.dds.solve, endplay.types, game, state)
        deal, (trick, leader) = game.deal_of(state), ((), 0)
        if deal.tricks:
            leader, trick = deal.tricks[-1]
        on_table = {(leader + turn) % 4: card for turn, card in enumerate(trick)}
        for seat, (_, hand) in enumerate(endplay.types.Deal(world.pbn(trick, leader))):
            cards = {4 * "23456789TJQKA".index(card.rank.abbr) + "cdhs".index("shdc"[card.suit]) for card in hand}
            assert cards == {*deal.hand(seat), *([on_table[seat]] if seat in on_table else [])}
