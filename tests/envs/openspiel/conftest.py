"""Fixtures for the tests of games with cards and dice."""

import random
from collections.abc import Callable, Iterator

import pytest

from veritas_rl.envs.openspiel import playing
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Decision, State

EAGER = ("knock", "meld", "lay off")


def _games(case: str, count: int) -> Iterator[list[State]]:
    """The states of random games, one list per game; rare moves are made when they are possible."""
    game = load(case)
    for index in range(count):
        chance = random.Random(index)
        state, states = game.spiel.new_initial_state(), []
        while not state.is_terminal():
            if state.is_chance_node():
                playing.apply_chance(state, chance.random())
                continue
            states.append(state.clone())
            names = game.action_names(state, state.current_player())
            rare = [action for action, name in names.items() if name.startswith(EAGER)]
            state.apply_action(chance.choice(rare or list(names)))
        states.append(state)
        yield states


def _some_decisions(case: str, count: int) -> list[Decision]:
    """One random decision of each of `count` games; of every third game, the last decision."""
    found = []
    if "cribbage" in case:
        count //= 4  # a game has hundreds of decisions
    for index, (*states, _) in enumerate(_games(case, count)):
        state = states[-1] if index % 3 == 0 else random.Random(index).choice(states)
        found.append((state, state.current_player()))
    return found


def _play(case: str, chance: list[int], *names: str) -> State:
    """The state after moves by name and these chance outcomes, in order; later outcomes are the first possible ones."""
    game, dealt, moves = load(case), iter(chance), iter(names)
    state = game.spiel.new_initial_state()
    while not state.is_terminal():
        if state.is_chance_node():
            state.apply_action(next(dealt, state.legal_actions()[0]))
            continue
        name = next(moves, None)
        if name is None:
            break
        known = {name: action for action, name in game.action_names(state, state.current_player()).items()}
        state.apply_action(known[name])
    assert next(moves, None) is None
    return state


@pytest.fixture
def games() -> Callable[[str, int], Iterator[list[State]]]:
    """Random games, see `_games`."""
    return _games


@pytest.fixture
def some_decisions() -> Callable[[str, int], list[Decision]]:
    """Decisions of random games, see `_some_decisions`."""
    return _some_decisions


@pytest.fixture
def play() -> Callable[..., State]:
    """Plays moves by name, see `_play`."""
    return _play
