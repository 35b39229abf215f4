"""Values of the ends of games and playouts are reachable, fair to both sides, and higher for the leading player."""

import random
from collections.abc import Iterator

import pytest

from veritas_rl.envs.base import Reason, play
from veritas_rl.envs.openspiel import playing
from veritas_rl.envs.openspiel.cases import DEFAULT_CASES, load
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.registry import make_task
from veritas_rl.players.random import RandomPlayer

ENV = OpenSpielEnvironment()


def states_of(game: Game, seed: int) -> Iterator[State]:
    """The states of a random game before each player's action, and the terminal state."""
    chance = random.Random(seed)
    state = game.spiel.new_initial_state()
    while not state.is_terminal():
        if state.is_chance_node():
            playing.apply_chance(state, chance.random())
            continue
        yield state.clone()
        state.apply_action(chance.choice(state.legal_actions()))
    yield state


def after(case: str, *names: str) -> tuple[Game, State]:
    """The state after moves by name, with the first outcome at each chance node."""
    game = load(case)
    state = game.spiel.new_initial_state()
    for name in (*names, None):
        while state.is_chance_node():
            state.apply_action(state.legal_actions()[0])
        if name is not None:
            known = {name: action for action, name in game.action_names(state, state.current_player()).items()}
            state.apply_action(known[name])
    return game, state


@pytest.mark.parametrize("case", DEFAULT_CASES)
def test_winning_is_worth_more_than_anything_else_and_what_one_gains_the_other_loses(case: str) -> None:
    game = load(case)
    worth: dict[str, list[float]] = {"won": [], "drawn": [], "unfinished": [], "lost": []}
    for seed in range(4):
        states = list(states_of(game, seed))
        for start, end in ((states[0], states[-1]), (states[len(states) // 2], states[-1]), (states[0], states[-2])):
            values = [game.graded(start, end, seat, "auto") for seat in range(game.players)]
            assert all(0 <= value <= 1 for value in values)
            if game.players == 2 and game.short_name != "gin_rummy":  # a gin hand is graded by the player's own cards
                assert sum(values) == pytest.approx(1)
            if game.zero_sum and game.players > 1 and not game.stakes:
                for value, paid in zip(values, end.returns(), strict=True):
                    end_of = (
                        "unfinished" if not end.is_terminal() else ("drawn", "won", "lost")[int(paid / abs(paid or 1))]
                    )
                    worth[end_of].append(value)
    for better, worse in (("won", "drawn"), ("won", "unfinished"), ("drawn", "lost"), ("unfinished", "lost")):
        assert min(worth[better], default=1) >= max(worth[worse], default=0)
    assert min(worth["won"], default=1) > 0.5 > max(worth["lost"], default=0)


@pytest.mark.parametrize(
    "case",
    [
        "go(board_size=9)",
        "go(board_size=5,komi=0.0)",
        "oware",
        "goofspiel",
        "dots_and_boxes",
        "cribbage",
        "pig",
    ],
)
def test_the_player_with_the_larger_margin_has_won(case: str) -> None:
    """Checks the package's counts of areas, discs, seeds, points and boxes against OpenSpiel's results."""
    game, decided = load(case), 0
    for seed in range(20 if "cribbage" not in case else 3):
        *_, end = states_of(game, seed)
        if game.short_name == "go" and end.returns() == [0, 0]:
            continue  # a repeated position
        for seat in (0, 1):
            margin, paid = game.margin(end, seat), end.returns()[seat] - end.returns()[1 - seat]
            assert (margin > 0) - (margin < 0) == (paid > 0) - (paid < 0)
            decided += margin != 0
    assert decided


def test_margins_that_are_counted_by_hand() -> None:
    game, state = after("chess", "e4", "d5", "exd5")
    assert [game.margin(state, seat) for seat in (0, 1)] == [-1, 1]  # white is player 1
    game, state = after("backgammon")
    assert [game.margin(state, seat) for seat in (0, 1)] == [0, 0]
    game, state = after("quoridor(board_size=9)", "e8", "e1h")
    assert game.margin(state, 0) == 9 - 8  # the wall blocks the direct way of both: 9 moves for o, 8 for x
    game, state = after("quoridor(board_size=9)", "e8")
    assert game.margin(state, 0) == 1
    game, state = after("pig", "roll", "stop")
    assert [game.margin(state, seat) for seat in (0, 1)] == [0, 0]  # chance rolled a 1
    game, state = after("breakthrough(columns=6,rows=6)")
    assert not game.is_graded


def test_the_mobility_of_amazons_is_the_number_of_its_moves() -> None:
    game = load("amazons(board_size=6)")
    for state in list(states_of(game, 1))[:-1:3]:
        counts = [0, 0]
        mover = state.current_player()
        for start in state.legal_actions():
            counts[mover] += len(state.child(start).legal_actions())
        other = game.margin(state, mover) - counts[mover]
        assert other <= 0
        assert game.margin(state, 1 - mover) == -game.margin(state, mover)


def test_bridge_scores_as_openspiel_does() -> None:
    case = "bridge(use_double_dummy_result=False,dealer_vul=True)"
    game, seen = load(case), set()
    for seed in range(60):
        chance, state = random.Random(seed), game.spiel.new_initial_state()
        while not state.is_terminal():
            actions = state.legal_actions()
            if not state.is_chance_node() and actions[0] >= 52:  # prefers passes and doubles to vary contracts
                actions = [action for action in actions if action < 55] + actions[-8:][:1] + actions[2:4]
            state.apply_action(chance.choice(actions))
        assert game.margin(state, 0) == pytest.approx(state.returns()[0])
        seen.add(state.returns()[0])
    assert len(seen) > 15


def test_a_bid_is_valued_by_what_its_contract_is_expected_to_bring() -> None:
    game = load("bridge(use_double_dummy_result=False)")
    chance = random.Random(3)
    state = game.spiel.new_initial_state()
    while state.is_chance_node():
        state.apply_action(chance.choice(state.legal_actions()))
    assert game.playout_limit(state) == 0
    names = {name: action for action, name in game.action_names(state, 0).items()}
    values = {name: game.graded(state, state.child(action), 0, "auto") for name, action in names.items()}
    assert values["pass"] == 0.5
    assert values["7NT"] < values["1NT"]


def test_points_gained_in_a_game_for_one_are_paid_on_a_scale_that_is_reached() -> None:
    game = load("2048")
    assert [round(game.outcome([points], 0), 2) for points in (0, 745, 2040, 20480)] == [0, 0.27, 0.5, 0.91]
    states = list(states_of(game, 1))
    late, end = states[-6], states[-1]
    gained = end.player_return(0) - late.player_return(0)
    assert game.graded(late, end, 0, "auto") == 0.5 + 0.5 * gained / (gained + 16)
    assert game.graded(late, late, 0, "auto") == 0.5  # earlier points are not paid


def test_stakes_are_paid_by_default_where_they_matter() -> None:
    for case in DEFAULT_CASES:
        known = load(case).short_name in ("kuhn_poker", "leduc_poker", "gin_rummy", "bridge")
        assert load(case).stakes is known
    leduc, bridge = load("leduc_poker"), load("bridge")
    assert leduc.outcome([-1, 1], 0) == pytest.approx(12 / 26)
    assert [bridge.outcome([points, -points], 0) for points in (-300, 0, 300)] == [0.25, 0.5, 0.75]
    assert [bridge.outcome([points, -points], 0, "result") for points in (-300, 0, 300)] == [0, 0.5, 1]


def test_a_game_that_is_cut_pays_for_how_it_stands() -> None:
    for case, most in (("chess", 60), ("oware", 16), ("hearts", 40), ("connect_four", 6)):
        paid = set()
        for k in range(4):
            session = ENV.start(make_task("openspiel", case, k, mode="episode", max_moves=most))
            (scores,) = play([session], RandomPlayer(1))
            assert {score.reason for score in scores.values()} == {Reason.UNFINISHED}
            assert not any(score.success for score in scores.values())
            if load(case).players == 2:
                assert sum(score.value for score in scores.values()) == pytest.approx(1)
            paid |= {score.value for score in scores.values()}
        assert len(paid) > 1
    (scores,) = play([ENV.start(make_task("openspiel", "2048", 0, mode="episode", max_moves=50))], RandomPlayer(1))
    points = float(scores[0].details["return"])
    assert scores[0].value == points / (points + 2000) > 0
