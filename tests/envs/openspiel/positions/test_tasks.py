"""Positions are the same in every process, are split by symmetry class, and are never chance nodes."""

import os
import subprocess
import sys

import pytest

from veritas_rl.envs.openspiel import enumeration, positions
from veritas_rl.envs.openspiel.cases import DEFAULT_CASES, load
from veritas_rl.envs.openspiel.env import OpenSpielConfig, OpenSpielEnvironment
from veritas_rl.envs.openspiel.learning_signal.measure import third_of
from veritas_rl.envs.openspiel.positions import tasks
from veritas_rl.envs.registry import make_task
from veritas_rl.errors import UserError

FEW_CLASSES = ("kuhn_poker",)
LONG = 100
"""A number of moves from which walks take long, so that fewer tasks of such games are drawn."""


def test_small_games_are_split_unless_they_have_few_classes() -> None:
    assert positions.is_split("tic_tac_toe")
    assert positions.is_split("leduc_poker")
    assert not positions.is_split("kuhn_poker")
    assert positions.count("kuhn_poker", "train") == positions.count("kuhn_poker", "val") == 12


def test_the_states_of_a_small_game_are_those_that_leave_a_choice() -> None:
    found = enumeration.enumerate_states("tic_tac_toe") or ()
    last = sum(len(position.history) == 8 for position in found)
    assert last == 222  # the boards of four x, four o and no line
    assert sum(positions.count("tic_tac_toe", split) or 0 for split in ("train", "val")) == len(found) - last
    assert positions.count("tic_tac_toe", positions.ALL) == len(found)


def test_all_positions_of_a_large_game_are_those_of_both_splits() -> None:
    game = load("connect_four")
    found = [positions.decision_of("connect_four", k, 42, positions.ALL) for k in range(40)]
    assert {positions.split_of(game, state, seat) for state, seat in found} == {"train", "val"}
    assert all(len(state.legal_actions(seat)) > 1 for state, seat in found)


@pytest.mark.parametrize("case", ["tic_tac_toe", "leduc_poker", "hex(board_size=5)", "breakthrough(columns=6,rows=6)"])
def test_no_class_is_on_both_sides_whatever_the_seed(case: str) -> None:
    game = load(case)
    groups = {
        split: {game.symmetry_key(*positions.decision_of(case, k, seed, split)) for k in range(60) for seed in (1, 2)}
        for split in ("train", "val")
    }
    assert not groups["train"] & groups["val"]


@pytest.mark.parametrize("case", DEFAULT_CASES)
def test_positions_leave_a_choice_and_seldom_come_again(case: str) -> None:
    game = load(case)
    count = 32 if game.spiel.max_game_length() < LONG else 8
    for split in ("train", "val"):
        decisions = [positions.decision_of(case, k, 42, split) for k in range(count)]
        assert all(seat in game.movers(state) for state, seat in decisions)
        assert all(len(state.legal_actions(seat)) > 1 for state, seat in decisions)
        different = len({game.information_key(state, seat) for state, seat in decisions})
        assert different >= (12 if case in FEW_CLASSES else 0.6 * count)


@pytest.mark.parametrize("case", ["tic_tac_toe", "connect_four"])
def test_a_task_has_a_state_of_its_own_each_time(case: str) -> None:
    first, seat = positions.decision_of(case, 5, 42, "train")
    history = first.history()
    first.apply_action(first.legal_actions()[0])
    again, _ = positions.decision_of(case, 5, 42, "train")
    assert (again.history(), again.current_player()) == (history, seat)


@pytest.mark.parametrize("case", ["hex(board_size=5)", "tic_tac_toe", "leduc_poker"])
def test_depth_bounds_the_moves(case: str) -> None:
    game = load(case)
    for k in range(20):
        state, seat = positions.decision_of(case, k, 42, "train", 3)
        assert sum(1 for step in state.full_history() if step.player >= 0) <= 3
        assert game.information_key(state, seat)


@pytest.mark.parametrize("case", DEFAULT_CASES)
def test_a_depth_of_none_works_in_every_game(case: str) -> None:
    game = load(case)
    for split in ("train", "val"):
        assert OpenSpielEnvironment().catalogue(OpenSpielConfig(cases=case, depth=0, reward="legal"), split)
        state, _ = positions.decision_of(case, 0, 42, split, 0)
        assert not any(step.player >= 0 for step in state.full_history())
    if not game.spiel.new_initial_state().is_chance_node():
        assert not positions.is_split(case, 0)
        assert positions.count(case, "train", 0) == positions.count(case, "val", 0) == len(game.movers(state))


def test_a_turn_at_a_shared_start_is_asked_in_validation() -> None:
    environment = OpenSpielEnvironment()
    for split in ("train", "val"):
        near = make_task("openspiel", "hex(board_size=5)", 0, split=split, depth=0)
        assert environment.held_out(near, environment.start(near).turns()[0])
    far = make_task("openspiel", "hex(board_size=5)", 0, split="train")
    assert not environment.held_out(far, environment.start(far).turns()[0])


@pytest.mark.parametrize(
    "case",
    [
        "hex(board_size=5)",
        "connect_four",
        "tic_tac_toe",
        "goofspiel",
        "hearts",
        "gin_rummy",
        "clobber(rows=5,columns=5)",
    ],
)
def test_each_third_of_a_game_keeps_a_fifth_of_its_tasks(case: str) -> None:
    game = load(case)
    thirds = [third_of(game, positions.decision_of(case, k, 42, "train")[0], f"{case} {k}") for k in range(100)]
    assert min(thirds.count(third) for third in range(3)) >= 20


@pytest.mark.filterwarnings("ignore:.*no description of its own")
def test_a_game_without_a_choice_says_so() -> None:
    with pytest.raises(UserError, match="asks nobody to choose"):
        positions.decision_of("blotto(fields=1)", 0, 42, "train")  # all coins go to the one field


@pytest.mark.filterwarnings("ignore:.*no description of its own")
def test_a_depth_that_leaves_no_choice_takes_what_there_is() -> None:
    state, seat = positions.decision_of("maedn", 0, 42, "train", 0)  # the first roll leaves one legal move
    assert len(state.legal_actions(seat)) == 1


def test_seeds_and_tasks_differ() -> None:
    def draw(seed: int) -> list[list[int]]:
        return [positions.decision_of("connect_four", k, seed, "train")[0].history() for k in range(20)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_any_order_of_asking_gives_the_same_states() -> None:
    late = positions.decision_of("connect_four", 200, 3, "train")[0].history()
    tasks._decision.cache_clear()
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
