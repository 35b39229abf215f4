"""Values of the real programs: reproducible in any order, and right where the truth is known."""

import random
from collections.abc import Callable
from typing import Any

import endplay.dds.solve
import endplay.types
import pytest

from veritas_rl.envs.openspiel import playing
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.engines import EngineSpec, engine_values
from veritas_rl.envs.openspiel.engines.backgammon import checkers_of
from veritas_rl.envs.openspiel.engines.bridge import World
from veritas_rl.envs.openspiel.engines.process import EnginePool
from veritas_rl.envs.openspiel.games import State

Installed = Callable[[str], EngineSpec]

BRIDGE = "bridge(use_double_dummy_result=False)"


def random_state(case: str, moves: int, seed: int) -> State:
    """A state of a random game in which a player is to move."""
    dice, state = random.Random(seed), load(case).spiel.new_initial_state()
    left = moves
    while left or state.is_chance_node():
        if state.is_chance_node():
            playing.apply_chance(state, dice.random())
        else:
            state.apply_action(dice.choice(state.legal_actions()))
            left -= 1
    return state


def played(state: State) -> State:
    """A state of bridge after a bid of one no trump by the dealer, three passes and 32 random cards."""
    dice = random.Random(0)
    for action in (59, 52, 52, 52):
        state.apply_action(action)
    for _ in range(32):
        state.apply_action(dice.choice(state.legal_actions()))
    return state


@pytest.mark.parametrize(
    ("name", "case", "moves"),
    [
        ("uci:stockfish:nodes=1000", "chess", (0, 11, 40)),
        ("gtp:gnugo:level=0", "go(board_size=5)", (2, 7, 12)),
        ("gtp:gnugo:level=0", "go(board_size=9)", (4, 21)),
        ("gnubg", "backgammon", (0, 9, 60)),
        ("gnubg:plies=1", "backgammon", (9, 60)),
        ("dds:deals=2", BRIDGE, ()),
    ],
)
def test_values_repeat_in_any_order(
    name: str, case: str, moves: tuple[int, ...], installed: Installed, pool: EnginePool
) -> None:
    installed(name)
    game = load(case)
    states = [random_state(case, count, count) for count in moves] or [
        played(random_state(case, 0, seed)) for seed in (1, 2, 3)
    ]

    def values(state: State) -> dict[int, float]:
        found = engine_values(game, state, state.current_player(), name)
        assert found is not None
        return dict(found)

    first = [values(state) for state in states]
    again = [values(state) for state in reversed(states)][::-1]
    pool.close()
    restarted = [values(state) for state in states[1:]]
    assert first == again
    assert first[1:] == restarted
    for state, found in zip(states, first, strict=True):
        assert sorted(found) == sorted(state.legal_actions())
        assert all(0 <= value <= 1 for value in found.values())
    assert any(len(set(found.values())) > 1 for found in first)


def test_stockfish_knows_mates_stalemates_and_hanging_pieces(installed: Installed, pool: EnginePool) -> None:
    installed("uci:stockfish:nodes=2000")
    game = load("chess")

    def values(fen: str, player: int) -> dict[str, float]:
        state = game.spiel.new_initial_state(fen)
        found = engine_values(game, state, player, "uci:stockfish:nodes=2000")
        assert found is not None
        return {game.action_name(state, player, action): value for action, value in found.items()}

    mate = values("6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1", 1)
    assert mate["Ra8#"] == max(mate.values()) == 1.0
    queen = values("7k/8/6K1/5Q2/8/8/8/8 w - - 0 1", 1)
    assert (queen["Qf7"], queen["Qf8#"]) == (0.5, 1.0), "stalemate and mate"
    hanging = values("r3k3/3Q4/8/8/8/8/8/4K3 b - - 0 1", 0)
    assert hanging["Kxd7"] > 0.9
    assert all(value < 0.5 for move, value in hanging.items() if move != "Kxd7")


def test_a_move_that_repeats_a_position_for_the_third_time_is_a_draw(installed: Installed, pool: EnginePool) -> None:
    """White is a rook ahead, and the repetition turns the win into a draw."""
    installed("uci:stockfish:nodes=2000")
    game = load("chess")
    state = game.spiel.new_initial_state("7k/8/8/8/8/8/8/R3K3 w - - 0 1")
    names = ["Ra2", "Kg8", "Ra1", "Kh8", "Ra2", "Kg8", "Ra1", "Kh8"][:7]
    for name in names:
        player = state.current_player()
        (action,) = (a for a in state.legal_actions() if state.action_to_string(player, a) == name)
        state.apply_action(action)
    values = engine_values(game, state, 0, "uci:stockfish:nodes=2000")
    assert values is not None
    drawn = {a for a in state.legal_actions() if state.child(a).is_terminal()}
    assert drawn
    assert all(values[action] == 0.5 for action in drawn)
    assert all(values[action] < 0.1 for action in values.keys() - drawn)


@pytest.mark.parametrize("colour", [0, 1])
def test_gnu_go_captures(colour: int, installed: Installed, pool: EnginePool) -> None:
    """Five stones of either color are in atari on an otherwise quiet board."""
    installed("gtp:gnugo:level=1")
    game = load("go(board_size=9)")
    state = game.spiel.new_initial_state()
    inside = ["e5", "e6", "e4", "d5", "f5"]
    around = ["c5", "d6", "d4", "e7", "e3", "f6", "f4"]
    plays = [point for pair in zip(around, [*inside, "a9", "j9"], strict=True) for point in pair]
    names = {game.action_name(state, 0, action): action for action in state.legal_actions()}
    for point in (["pass"] if colour else []) + plays:
        state.apply_action(names[point])
    assert state.current_player() == colour
    values = engine_values(game, state, colour, "gtp:gnugo:level=1")
    assert values is not None
    best = max(values, key=lambda action: values[action])
    assert best == names["g5"]
    assert values[best] > 0.9
    assert values[best] > values[names["pass"]]


def test_gnu_backgammon_favours_who_is_ahead_in_a_race(installed: Installed, pool: EnginePool) -> None:
    """In a race without contact the pip count decides; a move that bears off the last checker wins."""
    installed("gnubg")
    game = load("backgammon")
    races, finished = [], 0
    for seed in range(3):
        dice, state = random.Random(seed), game.spiel.new_initial_state()
        while not state.is_terminal():
            if state.is_chance_node():
                playing.apply_chance(state, dice.random())
                continue
            player = state.current_player()
            sides = [checkers_of(state, side) for side in (player, 1 - player)]
            mine, other = (max(point for point, count in enumerate(side, 1) if count) for side in sides)
            if mine + other < 25:
                ends = [action for action in state.legal_actions() if state.child(action).is_terminal()]
                pips = [sum(point * count for point, count in enumerate(side, 1)) for side in sides]
                ahead = pips[1] - pips[0]
                if ends or abs(ahead) > 30:
                    values = engine_values(game, state, player, "gnubg")
                    assert values is not None
                    races.append((max(values.values()) > 0.5) == (ahead > 0 or bool(ends)))
                    finished += len(ends)
                    assert all(values[action] == 1.0 for action in ends)
            state.apply_action(dice.choice(state.legal_actions()))
    assert finished
    assert len(races) >= 10
    assert all(races)


def test_tricks_of_contracts_are_those_of_openspiel(installed: Installed) -> None:
    """Compares with the double-dummy solver and the scores of OpenSpiel."""
    installed("dds")
    game: Any = load("bridge(use_double_dummy_result=True,dealer_vul=True)")
    for seed in (1, 2):
        state = random_state(game.case, 0, seed)
        world = World(endplay.dds.solve, endplay.types, game, state)
        calls = [52, 55 + 5 * 3 + 2, 55 + 4]  # pass, 4H, 1NT
        found = world.scores_of_calls(calls)
        for call in calls:
            ended = state.clone()
            for action in (call, 52, 52, 52):
                ended.apply_action(action)
            assert ended.is_terminal()
            assert found[call] == ended.returns()[0]


def test_the_best_lead_holds_the_declarer_to_the_double_dummy_tricks(installed: Installed) -> None:
    installed("dds")
    open_game: Any = load(BRIDGE)
    solved: Any = load("bridge(use_double_dummy_result=True)")
    state = random_state(BRIDGE, 0, 5)
    ended = solved.spiel.new_initial_state()
    for action in (*state.history(), 57, 53, 52, 52, 52):  # 1H, doubled
        ended.apply_action(action)
        if action >= 52:
            state.apply_action(action)
    scores = World(endplay.dds.solve, endplay.types, open_game, state).scores_of_cards()
    assert sorted(scores) == state.legal_actions()
    assert min(scores.values()) == ended.returns()[0]


def test_the_last_trick_is_worth_what_it_comes_to(installed: Installed, pool: EnginePool) -> None:
    """The last trick is forced, so the value is the outcome on the game's own scale."""
    installed("dds:deals=1")
    game = load(BRIDGE)
    state = played(random_state(BRIDGE, 0, 4))
    dice = random.Random(2)
    while not state.is_terminal():
        if len(state.legal_actions()) == 1 and game.deal_of(state).tricks[-1][1][2:]:  # pyright: ignore
            child = state.child(state.legal_actions()[0])
            if child.is_terminal():
                player = state.current_player()
                values = engine_values(game, state, player, "dds:deals=1", "utility")
                assert values == {state.legal_actions()[0]: game.outcome(child.returns(), player, "utility")}
                return
        state.apply_action(dice.choice(state.legal_actions()))
    pytest.fail("the game has a last card")


def test_the_value_of_a_card_does_not_look_at_hidden_hands(installed: Installed, pool: EnginePool) -> None:
    installed("dds:deals=2")
    game = load(BRIDGE)
    state = played(random_state(BRIDGE, 0, 6))
    player = state.current_player()
    values = engine_values(game, state, player, "dds:deals=2", "utility")
    for seed in range(3):
        other = game.resample(state, player, random.Random(seed).random)
        assert engine_values(game, other, player, "dds:deals=2", "utility") == values
