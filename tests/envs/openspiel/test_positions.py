"""Positions: the same in every process, split by symmetry class, distinct, and never a chance node."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from veritas_rl.envs.openspiel import positions
from veritas_rl.envs.openspiel.cases import DEFAULT_CASES, load
from veritas_rl.envs.openspiel.env import OpenSpielConfig, OpenSpielEnvironment
from veritas_rl.envs.registry import make_task
from veritas_rl.errors import UserError

FEW_CLASSES = ("kuhn_poker",)
LONG = 100
"""A game of that many moves takes long to walk: fewer tasks of it are drawn."""


def test_tic_tac_toe_is_whole() -> None:
    found = positions.enumerate_states("tic_tac_toe")
    assert found is not None
    assert len(found) == 4520  # the decision states of the game
    assert len({position.group for position in found}) == 627  # up to the 8 symmetries of the square
    assert (positions.count("tic_tac_toe", "val") or 0) >= 1000
    assert (positions.count("tic_tac_toe", "val") or 0) + (positions.count("tic_tac_toe", "train") or 0) == 4520


def test_small_card_games_are_whole() -> None:
    kuhn, leduc = positions.enumerate_states("kuhn_poker"), positions.enumerate_states("leduc_poker")
    assert kuhn is not None
    assert leduc is not None
    assert len(kuhn) == 12
    assert (len(leduc), len({position.group for position in leduc})) == (936, 288)  # 288 up to suits: Southey et al.
    assert not positions.is_split("kuhn_poker")
    assert positions.is_split("leduc_poker")
    assert positions.count("kuhn_poker", "train") == positions.count("kuhn_poker", "val") == 12


@pytest.mark.parametrize("case", ["tic_tac_toe", "leduc_poker", "hex(board_size=5)", "breakthrough(columns=6,rows=6)"])
def test_no_class_is_on_both_sides_whatever_the_seed(case: str) -> None:
    game = load(case)
    groups = {
        split: {game.symmetry_key(*positions.decision_of(case, k, seed, split)) for k in range(60) for seed in (1, 2)}
        for split in ("train", "val")
    }
    assert not groups["train"] & groups["val"]


@pytest.mark.parametrize("case", DEFAULT_CASES)
def test_positions_are_distinct_decision_nodes(case: str) -> None:
    game = load(case)
    tasks = 100 if game.spiel.max_game_length() < LONG else 20
    for split in ("train", "val"):
        decisions = [positions.decision_of(case, k, 42, split) for k in range(tasks)]
        assert all(seat in game.movers(state) for state, seat in decisions)
        assert len({game.information_key(state, seat) for state, seat in decisions}) == (
            12 if case in FEW_CLASSES else tasks
        )


@pytest.mark.parametrize("case", ["tic_tac_toe", "connect_four"])
def test_a_task_has_a_state_of_its_own_each_time(case: str) -> None:
    first, seat = positions.decision_of(case, 5, 42, "train")
    history = first.history()
    first.apply_action(first.legal_actions()[0])
    again, _ = positions.decision_of(case, 5, 42, "train")
    assert (again.history(), again.current_player()) == (history, seat)


def test_the_deals_of_a_game_are_those_of_its_luck() -> None:
    def dealt(luck: str) -> list[int]:
        state = load("leduc_poker").spiel.new_initial_state()
        positions.deal(state, luck)
        return state.history()

    hands = {tuple(dealt(str(luck))) for luck in range(200)}
    assert len(hands) == 30  # 6 cards for one player, 5 for the other
    assert [dealt("a"), dealt("b")] == [dealt("a"), dealt("b")]


@pytest.mark.parametrize("case", ["kuhn_poker", "liars_dice", "2048"])
def test_chance_outcomes_share_the_draws_by_their_probabilities(case: str) -> None:
    root = load(case).spiel.new_initial_state()
    outcomes = root.chance_outcomes()
    draws = [(number + 0.5) / 1000 for number in range(1000)]
    found = Counter()
    for drawn in (*draws, 1 - 2**-53):
        state = root.clone()
        positions.apply_chance(state, drawn)
        found[state.history()[0]] += 1
    assert found.keys() == {action for action, _ in outcomes}
    assert all(abs(found[action] - 1000 * probability) <= 2 for action, probability in outcomes)


@pytest.mark.parametrize("case", ["hex(board_size=5)", "tic_tac_toe", "leduc_poker"])
def test_depth_bounds_the_moves(case: str) -> None:
    game = load(case)
    for k in range(20):
        state, seat = positions.decision_of(case, k, 42, "train", 3)
        assert sum(1 for step in state.full_history() if step.player >= 0) <= 3
        assert game.information_key(state, seat)


def test_a_split_without_states_of_that_depth_is_an_error() -> None:
    empty = []
    for split in ("train", "val"):  # the empty board is on one side alone
        try:
            assert positions.decision_of("hex(board_size=5)", 500, 42, split, 0)[0].history() == []
        except UserError:
            empty.append(split)
    assert len(empty) == 1
    with pytest.raises(UserError, match="max_random_steps"):
        OpenSpielEnvironment().catalogue(OpenSpielConfig(cases="hex(board_size=5)", depth=0), empty[0])


def test_a_walk_reaches_every_stage_of_the_game() -> None:
    lengths = [len(positions.decision_of("hex(board_size=5)", k, 42, "train")[0].history()) for k in range(100)]
    assert min(lengths) <= 3
    assert max(lengths) >= 14


def test_seeds_and_tasks_differ() -> None:
    def draw(seed: int) -> list[list[int]]:
        return [positions.decision_of("connect_four", k, seed, "train")[0].history() for k in range(20)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_any_order_of_asking_gives_the_same_states() -> None:
    late = positions.decision_of("connect_four", 200, 3, "train")[0].history()
    positions._block.cache_clear()
    in_order = [positions.decision_of("connect_four", k, 3, "train")[0].history() for k in range(190, 201)]
    assert in_order[-1] == late


def test_the_same_prompt_in_any_process() -> None:
    tasks = [
        make_task("openspiel", case, 77, split="val") for case in ("tic_tac_toe", "hex(board_size=5)", "leduc_poker")
    ]
    code = (
        "import sys; from veritas_rl.envs.base import *; from veritas_rl.envs.registry import *\n"
        "for name in sys.argv[1:]:\n"
        "    task = task_from_id(name); session = get_environment(task.env).start(task); turn = session.turns()[0]\n"
        "    session.step({turn.seat: Reply(turn.answers[-1])}); print(turn.messages, session.scores())"
    )
    printed = set()
    for seed in ("0", "1", "random"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, *(task.id for task in tasks)]
        printed.add(subprocess.run(command, env=env, capture_output=True, check=True, text=True).stdout)
    assert len(printed) == 1
    assert OpenSpielEnvironment().start(tasks[1]).turns()[0].messages[0]["content"][:50] in printed.pop()
