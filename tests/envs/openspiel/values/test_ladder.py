"""The ladder of value sources: the best available source is used, success depends on the move, values repeat."""

import importlib
import os
import pkgutil
import random
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from veritas_rl.envs.base import Reason
from veritas_rl.envs.openspiel import playing, positions, values
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.task import OpenSpielPay
from veritas_rl.envs.openspiel.values import MoveValues, ladder, move_values, playouts, result, state_value
from veritas_rl.envs.openspiel.values.question import Question

FOLD, CALL = 0, 1
"""The actions of Kuhn poker after a bet."""


def after(case: str, *actions: int) -> State:
    return playing.replay(load(case), actions)


def valued(case: str, state: State, visit: int = 0, **pay: Any) -> MoveValues:
    """The move values for the first player who has to move."""
    game = load(case)
    return move_values(game, state, game.movers(state)[0], OpenSpielPay(**pay), visit)


def good(found: MoveValues) -> list[int]:
    return [action for action in found.actions if found.is_good(action)]


def forget() -> None:
    """Clear this process's caches of positions."""
    for kept in (ladder._known, ladder.outlook, ladder.search.searched, playouts.visit_sample, playouts._deals):
        kept.cache_clear()


def test_outcomes_do_not_depend_on_the_size_of_the_return() -> None:
    leduc, hearts = load("leduc_poker"), load("hearts")
    assert [leduc.outcome([x, -x], 0, "result") for x in (-13, -1, 0, 1, 13)] == [0, 0, 0.5, 1, 1]
    assert [hearts.outcome([9, 9, 5, 3], seat) for seat in range(4)] == pytest.approx([1, 1, 1 / 3, 0])
    assert [result(value) for value in (1.0, 0.5, 0.4)] == [Reason.WON, Reason.DRAWN, Reason.LOST]


def test_tic_tac_toe_is_valued_exactly() -> None:
    found = valued(
        "tic_tac_toe", after("tic_tac_toe", 0, 8, 1, 7)
    )  # x has a1 b1, o has c3 b3: c1 wins immediately, a3 later
    assert found.source == "exact"
    assert (found.of(2).value, found.of(4).value, good(found)) == (1.0, 0.0, [2, 6])
    assert found.lost(4) == 1.0
    root = valued("tic_tac_toe", load("tic_tac_toe").spiel.new_initial_state())
    assert {root.of(action).value for action in range(9)} == {0.5}
    assert root.average == 0.5


def test_late_positions_are_solved_and_early_ones_are_not() -> None:
    sources = Counter()
    for case in ("clobber(columns=5,rows=5)", "dots_and_boxes(num_cols=3,num_rows=3)"):
        game = load(case)
        for seed in range(30):
            state, _ = positions.walk(game, random.Random(seed))
            found = valued(case, state)
            sources[found.source] += 1
            if found.source == "solved":
                assert {found.of(action).value for action in found.actions} <= {0.0, 0.5, 1.0}
                assert good(found) == [a for a in found.actions if not found.lost(a)]
    assert sources["solved"] >= 20
    assert sources["search"] >= 10


def test_search_finds_a_win_in_one() -> None:
    found = valued("connect_four", after("connect_four", 0, 1, 0, 1, 0, 1))  # x wins immediately in column 0
    assert found.source == "search"
    assert (found.of(0).value, good(found)) == (1.0, [0])
    assert all(0 < found.lost(action) <= 1 for action in found.actions if action)


def test_a_fold_is_paid_what_it_is_worth() -> None:
    """Folding loses the ante of 1 and calling wins or loses 2, so a fold is worth 1/4 on the scale from -2 to 2."""
    king, jack = (valued("kuhn_poker", after("kuhn_poker", card, 1, 0, 1)) for card in (2, 0))
    assert king.source == "equilibrium"
    assert (king.of(FOLD).value, king.of(CALL).value, good(king)) == (0.25, 1.0, [CALL])
    assert (jack.of(FOLD).value, jack.of(CALL).value, good(jack)) == (0.25, 0.0, [FOLD])
    first = valued("kuhn_poker", after("kuhn_poker", 2, 0))
    assert good(first) == [0, 1]  # the equilibrium mixes betting and slow play with the king


@pytest.mark.parametrize("k", range(6))
def test_leduc_poker_pays_half_for_a_loss_of_one_chip(k: int) -> None:
    found = valued("leduc_poker", positions.decision_of("leduc_poker", k, 42, "train")[0])
    best = max(found.of(action).value for action in found.actions)
    for action in found.actions:
        chips = 26 * (best - found.of(action).value)  # returns range from -13 to 13
        assert found.lost(action) == pytest.approx(chips / (chips + 1))


def worth_by_cfr(case: str, iterations: int) -> dict[str, dict[int, float]]:
    """Action values by information state if both play the average policy of plain CFR (rewards use CFR+)."""
    import pyspiel

    spiel = load(case).spiel
    solver = pyspiel.CFRSolver(spiel)
    for _ in range(iterations):
        solver.evaluate_and_update_policy()
    table = {key: dict(row) for key, row in solver.tabular_average_policy().policy_table().items()}
    sums: dict[str, dict[int, float]] = {}
    weights: dict[str, float] = {}

    def visit(state: Any, chance: float, reach: tuple[float, float]) -> float:
        if state.is_terminal():
            return state.player_return(0)
        if state.is_chance_node():
            return sum(p * visit(state.child(a), chance * p, reach) for a, p in state.chance_outcomes())
        player, key = state.current_player(), state.information_state_string()
        weight = chance * (reach[1 - player] + 1e-9)
        weights[key] = weights.get(key, 0.0) + weight
        total = 0.0
        for action, p in table[key].items():
            then = (reach[0] * p, reach[1]) if player == 0 else (reach[0], reach[1] * p)
            worth = visit(state.child(action), chance, then)
            row = sums.setdefault(key, {})
            row[action] = row.get(action, 0.0) + weight * (worth if player == 0 else -worth)
            total += p * worth
        return total

    visit(spiel.new_initial_state(), 1.0, (1.0, 1.0))
    return {key: {action: worth / weights[key] for action, worth in row.items()} for key, row in sums.items()}


@pytest.mark.parametrize(
    ("case", "iterations"), [("kuhn_poker", 2000), pytest.param("leduc_poker", 1000, marks=pytest.mark.long)]
)
def test_the_best_paid_move_is_hardly_ever_an_equilibrium_mistake(case: str, iterations: int) -> None:
    truth, mistakes, folds = worth_by_cfr(case, iterations), 0, 0
    for k in range(200):
        state, seat = positions.decision_of(case, k, 42, "train")
        found = move_values(load(case), state, seat, OpenSpielPay(reward="outcome"))
        paid = max(found.actions, key=lambda action: found.of(action).value)
        worth = truth[state.information_state_string()]
        mistakes += max(worth.values()) - worth[paid] > 0.1  # in chips; CFR+ and CFR stop near the equilibrium
        folds += paid == 0 and len(found.actions) > 1
    assert mistakes <= 10
    assert folds >= 20


def positions_of(cases: tuple[str, ...]) -> list[tuple[str, State]]:
    return [(case, positions.walk(load(case), random.Random(seed))[0]) for case in cases for seed in range(3)]


def test_values_do_not_depend_on_what_was_asked_before() -> None:
    asked = positions_of(("goofspiel", "hex(board_size=7)", "blackjack", "backgammon"))

    def paid(order: list[tuple[str, State]], visits: tuple[int, ...]) -> dict[Any, Any]:
        forget()
        return {
            (case, str(state.history()), visit, action): (
                found.source,
                found.of(action),
                found.is_good(action),
                found.lost(action),
            )
            for case, state in order
            for visit in visits
            for found in [valued(case, state, visit, playouts=8)]
            for action in found.actions[:3]
        }

    assert paid(asked, (0, 1, 2)) == paid(asked[::-1], (2, 1, 0))


_PRINT = """
import random, sys
from veritas_rl.envs.openspiel import positions
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.task import OpenSpielPay
from veritas_rl.envs.openspiel.values import move_values
for case in ("goofspiel", "hex(board_size=9)", "hearts"):
    game = load(case)
    state, seat = positions.walk(game, random.Random(1))
    for visit in map(int, sys.argv[1:]):
        found = move_values(game, state, seat, OpenSpielPay(playouts=16), visit)
    print(case, found.source, *(repr((found.of(a), found.is_good(a))) for a in found.actions[:4]))
"""


def test_a_visit_pays_the_same_in_a_process_that_saw_no_other() -> None:
    def printed(*visits: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": visits[0]}
        command = [sys.executable, "-c", _PRINT, *visits]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    assert printed("0", "1", "2", "3") == printed("3")
    assert printed("3") != printed("2")


def test_means_sharpen_over_visits_up_to_a_bound() -> None:
    state = positions.walk(load("goofspiel"), random.Random(2))[0]
    action = state.legal_actions(0)[0]
    errors = [valued("goofspiel", state, visit, playouts=16).of(action).error for visit in range(12)]
    assert errors[7] is not None
    assert errors[0] is not None
    assert errors[7] < 0.6 * errors[0]
    assert errors[7:] == errors[7:8] * 5


def test_success_is_about_the_move_and_not_about_the_position() -> None:
    """Whatever the level of the values in a position, successful moves are worth more than the average legal move."""
    some, all_of_them = 0, 0
    for case in ("goofspiel", "blackjack", "hex(board_size=7)"):
        for seed in range(20):
            state, _ = positions.walk(load(case), random.Random(seed))
            found = valued(case, state, playouts=64)
            if len(found.actions) < 2:
                continue
            best = good(found)
            some += 0 < len(best) < len(found.actions)
            all_of_them += len(best) == len(found.actions)
            if found.source == "playouts":
                assert all(found.of(action).value > found.average for action in best)
    assert some >= 15
    assert all_of_them <= 5


def test_optimal_pays_less_the_more_a_move_loses_and_values_a_bounded_number_of_moves() -> None:
    game = load("battleship")
    state, seat = positions.walk(game, random.Random(1))
    assert len(state.legal_actions(seat)) > 2 * ladder.MAX_MOVES
    forget()
    found = move_values(game, state, seat, OpenSpielPay(reward="optimal", playouts=4))
    assert 0 <= found.lost(found.actions[0]) <= 1
    assert playouts.visit_sample.cache_info().misses <= ladder.MAX_MOVES + 3
    losses = [found.lost(action) for action in found.actions[:10]]
    assert len(set(losses)) > 1 or set(losses) == {0.0}


def test_every_cache_of_values_is_bounded() -> None:
    found = 0
    for module in pkgutil.iter_modules(values.__path__, values.__name__ + "."):
        for kept in vars(importlib.import_module(module.name)).values():
            if hasattr(kept, "cache_parameters"):
                found += 1
                assert kept.cache_parameters()["maxsize"] is not None
    assert found >= 4


def test_cached_playouts_are_counted_in_bytes() -> None:
    forget()
    game = load("goofspiel(num_cards=4)")
    question = Question.of(game, *positions.walk(game, random.Random(1)))
    sample = playouts.sample_of(question, None, 1024, "auto", 8)
    assert sample.results is not None
    kept = playouts.visit_sample.cache_info()
    assert sample.results.nbytes <= kept.currsize <= 2 * sample.results.nbytes
    assert kept.maxsize == playouts.CACHED_BYTES <= 256 * 2**20


def test_a_state_is_worth_to_both_players_what_is_left_of_one() -> None:
    game = load("connect_four")
    state = after("connect_four", 0, 1, 0, 1)
    pay = OpenSpielPay()
    assert state_value(game, state, 0, pay) + state_value(game, state, 1, pay) == pytest.approx(1)
    late: Game = load("dots_and_boxes(num_cols=3,num_rows=3)")
    state = late.spiel.new_initial_state()
    dice = random.Random(5)
    for _ in range(19):
        state.apply_action(dice.choice(state.legal_actions()))
    assert {state_value(late, state, seat, pay) for seat in (0, 1)} <= {0.0, 0.5, 1.0}
