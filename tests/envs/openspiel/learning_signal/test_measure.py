"""Measurements of single tasks agree with OpenSpiel or with calculations by hand."""

from dataclasses import replace
from typing import Any

import pytest

from veritas_rl.envs.openspiel import playing, positions
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.learning_signal.measure import (
    Job,
    TaskSignal,
    Truth,
    measure_task,
    third_of,
    true_values,
)
from veritas_rl.envs.openspiel.learning_signal.summary import Settings, jobs_of

FOLD, CALL = 0, 1
"""The actions of Kuhn poker after a bet."""


def minimax(state: Any, seat: int) -> float:
    """The value of a state of tic-tac-toe for a seat: 1, 0.5 or 0."""
    if state.is_terminal():
        return (1 + state.returns()[seat]) / 2
    values = [minimax(state.child(action), seat) for action in state.legal_actions()]
    return max(values) if state.current_player() == seat else min(values)


def measured(case: str, tasks: int, **settings: Any) -> list[tuple[Job, TaskSignal]]:
    (jobs,) = jobs_of(Settings(tasks=tasks, **settings), [case]).values()
    return [(job, measure_task(job)) for job in jobs]


def decision(job: Job) -> tuple[Any, int]:
    return positions.decision_of(job.task.case, job.task.k, job.task.seed, job.task.split)


def test_tic_tac_toe_agrees_with_a_minimax_of_its_own() -> None:
    rows = measured("tic_tac_toe", 40)
    for job, signal in rows:
        state, seat = decision(job)
        values = [minimax(state.child(action), seat) for action in state.legal_actions()]
        assert signal.actions == len(values)
        assert signal.forced == (len(values) == 1)
        assert signal.differs == (max(values) > min(values))
        assert signal.source == "exact"
        assert (signal.tested, signal.p, signal.halves) == (False, None, None)
        if not signal.forced:
            assert (signal.truth, signal.mistake, signal.regret) == (True, 0, 0)
    assert {signal.differs for _, signal in rows if not signal.forced} == {True, False}


def test_kuhn_poker_facing_a_bet() -> None:
    found = set()
    for job, signal in measured("kuhn_poker", 12, playouts=128):
        state, seat = decision(job)
        history = state.history()
        if history[2:] != [1]:  # only the second player after the first player's bet
            continue
        card = history[seat]
        found.add(card)
        truth = true_values(load("kuhn_poker"), state, 0)
        assert truth is not None
        # A call wins 2 with a king and loses 2 with a jack; a fold loses the ante.
        if card == 2:
            assert truth.values == pytest.approx({FOLD: -1, CALL: 2})
            assert (signal.differs, signal.truth, signal.mistake, signal.regret) == (True, True, 0, 0)
        if card == 0:
            assert truth.values == pytest.approx({FOLD: -1, CALL: -2})
    assert {0, 2} <= found


def test_a_mistake_is_a_best_paid_move_that_is_not_among_the_best() -> None:
    truth = Truth({0: -1.0, 1: -2.0, 2: -1.04}, tolerance=0.05)
    assert truth.mistakes([0]) == (0, 0)
    assert truth.mistakes([1]) == (1, 1)
    assert truth.mistakes([0, 1]) == (0.5, 0.5)  # equal pay: both are equally likely
    assert truth.mistakes([2]) == (0, pytest.approx(0.04))


def test_the_best_actions_are_those_within_the_tolerance_that_beat_the_worst_return() -> None:
    truth = Truth({0: -1.0, 1: -2.0, 2: -1.04}, tolerance=0.05)
    assert truth.best(above=-2) == [0, 2]
    assert truth.best(above=-1) == []


def test_some_of_many_moves_are_measured() -> None:
    (job,) = (job for job, _ in measured("connect_four", 1, playouts=16))
    state, _ = decision(job)
    assert len(state.legal_actions()) == 7
    signal = measure_task(replace(job, most_moves=3))
    assert signal.actions == 3
    assert measure_task(replace(job, most_moves=7)).halves == measure_task(job).halves != signal.halves


def test_late_positions_of_a_large_game_are_solved_within_the_nodes() -> None:
    game = load("hex(board_size=5)")
    # x has c1 to c4, and c5 or b5 completes the column. o cannot take both, so all moves of x win and all of o lose.
    xs, os = (2, 7, 12, 17, 0, 5, 10), (3, 8, 13, 18, 1, 6, 11)
    state = playing.replay(game, tuple(cell for pair in zip(xs, os, strict=True) for cell in pair))
    assert true_values(game, state, 10) is None
    truth = true_values(game, state, 40_000)
    assert truth is not None
    assert set(truth.values.values()) == {1}
    state.apply_action(4)
    truth = true_values(game, state, 40_000)
    assert truth is not None
    assert set(truth.values.values()) == {-1}
    leduc = load("leduc_poker")
    state = leduc.spiel.new_initial_state()
    playing.deal(state, "a")
    assert true_values(leduc, state, 0) is not None  # by the equilibrium
    assert true_values(load("liars_dice(numdice=5)"), state, 40_000) is None


def test_thirds_of_a_game() -> None:
    game = load("tic_tac_toe")
    root = game.spiel.new_initial_state()
    assert third_of(game, root, "a") == 0
    almost = playing.replay(game, (0, 1, 2, 4, 3, 5, 7, 6))  # one cell is left: 8 of 9 moves
    assert third_of(game, almost, "a") == 2
    goofspiel = load("goofspiel(num_cards=4)")
    state = playing.replay(goofspiel, ())
    playing.deal(state, "a")
    assert third_of(goofspiel, state, "a") == 0
    state.apply_actions([0, 1])
    playing.deal(state, "a")
    state.apply_actions([1, 0])
    playing.deal(state, "a")
    assert third_of(goofspiel, state, "a") == 2  # two of three rounds with a choice


def test_a_forced_task_has_nothing_to_measure() -> None:
    forced = [signal for _, signal in measured("tic_tac_toe", 40) if signal.forced]
    for signal in forced:
        assert (signal.differs, signal.spread, signal.truth, signal.mistake) == (False, None, False, None)
        assert signal.successes in (0, 1)


def test_decisions_of_whole_games() -> None:
    rows = [signal for _, signal in measured("tic_tac_toe", 20, mode="episode")]
    assert {signal.third for signal in rows} == {0, 1, 2}
    assert all(signal.successes is None and signal.mistake is None for signal in rows)
    assert {signal.differs for signal in rows} == {True, False}


def test_a_task_is_measured_alike_whatever_was_measured_before() -> None:
    rows = measured("connect_four", 3, playouts=16)
    job, signal = rows[2]
    again = measure_task(job)
    assert (again.p, again.spread, again.third, again.halves) == (signal.p, signal.spread, signal.third, signal.halves)
