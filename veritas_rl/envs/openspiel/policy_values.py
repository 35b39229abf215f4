"""Exact values of a policy in a small two-player zero-sum game, against a best response and against the optimum.

A policy gives every information state the probability of each legal action. With hidden information the values are
OpenSpiel's (`TabularBestResponse`, `expected_returns`), and the optimum is the CFR+ equilibrium of
`values.equilibrium`. With perfect information and no chance this module computes the values by backward induction, and
the optimum plays each move of the greatest minimax value with equal probability.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import pyspiel

from veritas_rl.envs.openspiel import enumeration, playing
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.values.equilibrium import TOLERANCE, equilibrium_of, has_equilibrium
from veritas_rl.envs.openspiel.values.minimax import is_exact, solver_of
from veritas_rl.errors import UserError

Probabilities = Mapping[int, float]
"""The probability of each legal action; they sum to 1."""

Policy = Mapping[str, Probabilities]
"""The probabilities of each information state, by its key; see `Decision`."""

MAX_DECISIONS = 50_000
"""The maximum number of information states of a game that is judged exactly."""


@dataclass(frozen=True)
class Decision:
    """An information state of a player; with perfect information a position.

    Attributes:
        key: OpenSpiel's information state string; with perfect information, `Game.information_key`.
        label: A short name of the state for a person.
        state: One of the states in the information state.
        seat: The seat to move.
        depth: The number of earlier moves, by all players.
        best: The best actions.
        optimum: The policy of the optimum in this state.
    """

    key: str
    label: str
    state: State
    seat: int
    depth: int
    best: frozenset[int]
    optimum: Probabilities


@dataclass(frozen=True)
class Worth:
    """The values of a policy, in units of return.

    Attributes:
        worst: For each seat, the expected return of the policy against a best response.
        against_optimum: For each seat, the expected return against the optimum.
        game: For each seat, the value of the game: the optimum against itself.
    """

    worst: tuple[float, float]
    against_optimum: tuple[float, float]
    game: tuple[float, float]

    @property
    def nash_conv(self) -> float:
        """The sum of the gains of two best responses against the policy; in a zero-sum game, the seats' total loss
        against the value of the game (Lanctot et al. 2017). Exploitability is half of this sum."""
        return 0.0 - sum(self.worst)


@lru_cache(maxsize=16)
def decisions_of(case: str) -> tuple[Decision, ...]:
    """Every information state of both players, nearest to the start first.

    Args:
        case: A canonical case.

    Raises:
        UserError: The game is too large, or of a kind that has no exact values; the message says what to do instead.
    """
    game = load(case)
    if has_equilibrium(case):
        return _hidden(game)
    if is_exact(case):
        return tuple(_perfect(game))
    if game.players != 2 or game.simultaneous or not game.zero_sum or not (game.hidden or game.solvable):
        raise UserError(
            f"{case} cannot be judged exactly: that needs two players in turn, a zero sum, and either hidden"
            " information or no chance; judge it by its games, without --exact"
        )
    raise _too_large(game)


def _too_large(game: Game) -> UserError:
    lines = enumeration.lines(game)
    size = f"more than {MAX_DECISIONS:,} states"
    if lines > enumeration.MAX_LINES:
        size = f"more than {enumeration.MAX_LINES:.0e} lines of play by an estimate".replace("e+0", "e")
    return UserError(
        f"{game.case} is too large to be judged exactly: it has {size}; judge it by its games, without --exact, or in a"
        " smaller case"
    )


def _hidden(game: Game) -> tuple[Decision, ...]:
    equilibrium = equilibrium_of(game.case)
    found: dict[str, Decision] = {}
    level, depth = [game.spiel.new_initial_state()], 0
    while level:
        following: list[State] = []
        for state in level:  # the list grows during the loop, because outcomes of chance have the same depth
            for action in state.legal_actions():
                child = state.child(action)
                if not child.is_terminal():
                    (level if state.is_chance_node() else following).append(child)
            if state.is_chance_node() or (key := state.information_state_string()) in found:
                continue
            seat = state.current_player()
            values = equilibrium.values(state)
            enough = max(values.values()) - TOLERANCE
            best = frozenset(action for action, value in values.items() if value >= enough)
            label = game.information_key(state, seat)
            found[key] = Decision(key, label, state, seat, depth, best, equilibrium.probabilities(state))
            if len(found) > MAX_DECISIONS:
                raise _too_large(game)
        level, depth = following, depth + 1
    return tuple(found.values())


def _perfect(game: Game) -> list[Decision]:
    solver = solver_of(game.case)
    found = []
    for position in enumeration.enumerate_states(game.case) or ():
        state = playing.replay(game, position.history)
        best = solver.optimal_actions(state)
        optimum = {action: 1 / len(best) if action in best else 0.0 for action in state.legal_actions()}
        key = game.information_key(state, position.seat)
        found.append(Decision(key, key, state, position.seat, position.depth, frozenset(best), optimum))
    return found


def optimum_of(case: str) -> Policy:
    """The optimum's policy."""
    return {decision.key: decision.optimum for decision in decisions_of(case)}


def worth_of(case: str, policy: Policy) -> Worth:
    """The values of a policy for both seats.

    Args:
        case: A canonical case.
        policy: Probabilities for each of `decisions_of(case)`.

    Raises:
        UserError: As `decisions_of`.
    """
    measure = _hidden_worth if load(case).hidden else _perfect_worth
    return measure(case, policy)


def _hidden_worth(case: str, policy: Policy) -> Worth:
    spiel = load(case).spiel
    root = spiel.new_initial_state()
    mine, best = _tabular(policy), _tabular(optimum_of(case))

    def expected(*seats: pyspiel.TabularPolicy) -> list[float]:
        return pyspiel.expected_returns(root, list(seats), -1, True)

    return Worth(
        worst=(-_best_response(spiel, 1, mine), -_best_response(spiel, 0, mine)),
        against_optimum=(expected(mine, best)[0], expected(best, mine)[1]),
        game=(expected(best, best)[0], expected(best, best)[1]),
    )


def _best_response(spiel: pyspiel.Game, seat: int, policy: pyspiel.TabularPolicy) -> float:
    """The return of a seat's best response to the policy of the other seat."""
    return pyspiel.TabularBestResponse(spiel, seat, policy).value_from_state(spiel.new_initial_state())


def _tabular(policy: Policy) -> pyspiel.TabularPolicy:
    return pyspiel.TabularPolicy({key: list(row.items()) for key, row in policy.items()})


def _perfect_worth(case: str, policy: Policy) -> Worth:
    game, optimum = load(case), optimum_of(case)

    def against_best(key: str, values: Mapping[int, float]) -> float:
        return min(values.values())

    def against_optimum(key: str, values: Mapping[int, float]) -> float:
        return sum(p * values[action] for action, p in optimum[key].items())

    first = max(solver_of(case).values(game.spiel.new_initial_state()).values())
    return Worth(
        worst=(_induction(game, policy, 0, against_best), _induction(game, policy, 1, against_best)),
        against_optimum=(_induction(game, policy, 0, against_optimum), _induction(game, policy, 1, against_optimum)),
        game=(first, 0.0 - first),
    )


def _induction(game: Game, policy: Policy, seat: int, other: Callable[[str, Mapping[int, float]], float]) -> float:
    """The expected return of a seat that plays the policy. `other` computes the value of an opponent's decision for the
    seat, from the decision's key and the values of its actions for the seat."""
    known: dict[str, float] = {}

    def value(state: State) -> float:
        if state.is_terminal():
            return state.player_return(seat)
        same = game.state_key(state)
        if same not in known:
            mover = state.current_player()
            key = game.information_key(state, mover)
            values = {action: value(state.child(action)) for action in state.legal_actions()}
            mine = mover == seat
            known[same] = sum(p * values[action] for action, p in policy[key].items()) if mine else other(key, values)
        return known[same]

    return value(game.spiel.new_initial_state())
