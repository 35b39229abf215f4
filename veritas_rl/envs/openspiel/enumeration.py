"""List all decisions of small games."""

from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.playing import History
from veritas_rl.seeding import generator

MAX_STATES = 50_000
"""The maximum number of states of an enumerated game."""
MAX_LINES = 1e9
"""The maximum number of lines of play, as estimated by `lines`, for which enumeration is tried."""


@dataclass(frozen=True)
class Position:
    """A decision.

    Attributes:
        history: The history of the state.
        seat: The seat to move.
        depth: The number of earlier moves of players; -1 if it is unknown.
        group: The symmetry class; "" if it is unknown.
        forced: Whether there is only one legal action.
    """

    history: History
    seat: int
    depth: int = -1
    group: str = ""
    forced: bool = False


@lru_cache(maxsize=64)
def enumerate_states(case: str) -> tuple[Position, ...] | None:
    """One decision for each information state, by depth; None if there are more than `MAX_STATES` states."""
    game = load(case)
    return None if lines(game) > MAX_LINES else states_within(game, None, MAX_STATES)


def states_within(game: Game, depth: int | None, most: int) -> tuple[Position, ...] | None:
    """One decision for each information state, by depth.

    Args:
        game: The game.
        depth: The maximum number of earlier moves of players; None for no limit.
        most: The maximum number of true states; the result is None if there are more.
    """
    found: dict[str, Position] = {}
    root = game.spiel.new_initial_state()
    seen = {game.state_key(root)}
    level, moves = [root], 0
    while level:
        following: list[State] = []
        for state in level:  # the list grows during the loop, because outcomes of chance have the same depth
            for seat in game.movers(state):
                information = game.information_key(state, seat)
                if information not in found:
                    group, forced = game.symmetry_key(state, seat), len(state.legal_actions(seat)) == 1
                    found[information] = Position(tuple(state.history()), seat, moves, group, forced)
            if moves == depth and not state.is_chance_node():
                continue
            for action in state.legal_actions():
                child = state.child(action)
                key = None if child.is_terminal() else game.state_key(child)
                if key is None or key in seen:
                    continue
                seen.add(key)
                if len(seen) > most:
                    return None
                (level if state.is_chance_node() else following).append(child)
        level, moves = following, moves + 1
    return tuple(found.values())


def lines(game: Game) -> float:
    """A rough size of the game tree (Knuth 1975): the median product of branching factors over 9 random games."""
    sizes = []
    for index in range(9):
        random, state, size = generator("lines", game.case, index), game.spiel.new_initial_state(), 1.0
        while not state.is_terminal() and size <= MAX_LINES:
            actions = state.legal_actions()
            size *= len(actions)
            state.apply_action(random.choice(actions))
        sizes.append(size)
    return median(sizes)
