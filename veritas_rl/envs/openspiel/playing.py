"""Reaches states: draws outcomes of chance, and replays histories."""

import itertools

from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.seeding import uniform

History = tuple[int, ...]


def deal(state: State, chance_seed: str) -> None:
    """Draw the outcomes of chance up to the next decision or the end, in place, from the chance seed and the ply."""
    while state.is_chance_node():
        apply_chance(state, uniform("chance", chance_seed, state.move_number()))


def apply_chance(state: State, drawn: float) -> None:
    """Apply the outcome of a chance node that a random number selects by its probability.

    Args:
        state: A chance node; it is changed in place.
        drawn: A number in [0, 1). The outcomes divide this interval in their order; the last outcome also takes the
            rounding error.
    """
    action, upto = -1, 0.0
    for action, probability in state.chance_outcomes():  # noqa: B007
        upto += probability
        if drawn < upto:
            break
    state.apply_action(action)


def replay(game: Game, history: History) -> State:
    """The state that a history leads to."""
    state = game.new_game()
    if not game.simultaneous:
        for action in history:
            state.apply_action(action)
        return state
    steps = iter(history)
    for action in steps:
        if state.is_simultaneous_node():
            # At a simultaneous node the history has one action of every player.
            state.apply_actions([action, *itertools.islice(steps, game.players - 1)])
        else:
            state.apply_action(action)
    return state
