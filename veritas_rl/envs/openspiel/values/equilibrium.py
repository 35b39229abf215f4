"""Equilibrium play of small games with hidden information, by OpenSpiel's CFR+ (Tammelin 2014).

The average policy of some iterations is close to a Nash equilibrium: its NashConv is 0.002 in kuhn_poker, 0.03 in
leduc_poker and 0.05 in liars_dice(numdice=1), in units of return.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyspiel

from veritas_rl.envs.openspiel import enumeration
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.errors import UserError
from veritas_rl.paths import cache_folder
from veritas_rl.seeding import digest

ITERATIONS, LEAST_ITERATIONS = 100, 40
UPDATES = 10_000_000
"""The total number of histories visited to solve a game, about ten seconds; larger games get fewer iterations."""
MAX_HISTORIES = 500_000
"""The maximum number of histories of a solved game; liars_dice(numdice=1) has 294,883."""
TOLERANCE = 0.05
"""The difference in return up to which actions count as equally good, because CFR+ only approximates the
equilibrium."""


Table = dict[str, dict[int, float]]
"""A number for each action of each information state."""


class Equilibrium:
    """The CFR+ policy of a turn-based two-player zero-sum game, and the value of each action against it.

    Args:
        game: The game.
        folder: The folder in which the results are kept, because they take up to a minute; None for none.

    Raises:
        UserError: The game is of another kind, or has more than `MAX_HISTORIES` histories.
    """

    def __init__(self, game: Game, folder: Path | None = None) -> None:
        has_text = game.type.provides_information_state_string
        if game.players != 2 or not game.zero_sum or game.simultaneous or not has_text:
            raise UserError(
                f"{game.case} cannot be solved by CFR+: that needs two players in turn, a zero sum, information states"
            )
        count = count_histories(game.case)
        if count is None:
            raise UserError(
                f"{game.case} is too large to solve exactly: it has more than {MAX_HISTORIES:,} histories; use a search"
                " such as mcts:50"
            )
        self.game = game
        iterations = max(LEAST_ITERATIONS, min(ITERATIONS, UPDATES // count))
        # The file's name contains everything that its contents depend on.
        named = f"{game.case}-{iterations}-{version('open_spiel')}-{digest(Path(__file__).read_text()):016x}"
        self._kept = folder / f"equilibrium-{digest(named):016x}.json" if folder else None
        kept = _read(self._kept) if self._kept else None
        if kept is not None:
            self._policy, self._worths = kept
            return
        solver = pyspiel.CFRPlusSolver(game.spiel)
        for _ in range(iterations):
            solver.evaluate_and_update_policy()
        table = solver.tabular_average_policy().policy_table()
        self._policy: Table = {key: dict(pairs) for key, pairs in table.items()}
        self._worths: Table | None = None

    def probabilities(self, state: State) -> Mapping[int, float]:
        """The probability of each legal action for the player to move."""
        return self._policy[state.information_state_string()]

    def values(self, state: State) -> Mapping[int, float]:
        """The expected return of each legal action for the player to move, see `action_returns`."""
        if self._worths is None:
            self._worths = action_returns(self.game, self._policy)
            if self._kept:
                _write(self._kept, (self._policy, self._worths))
        return self._worths[state.information_state_string()]


def action_returns(game: Game, policy: Mapping[str, Mapping[int, float]]) -> Table:
    """The expected return of each action in each information state for its player, if all players follow a policy
    afterwards. Histories are weighted by the probabilities of chance and the opponent.

    Args:
        game: A turn-based two-player zero-sum game.
        policy: The probability of each action in each information state.
    """
    sums: Table = {}
    reached: dict[str, float] = {}

    def visit(node: Node, reach: tuple[float, float], chance: float) -> float:
        """The expected return of player 0; `reach` contains each player's probability of reaching the node."""
        if isinstance(node, tuple):
            return sum(p * visit(child, reach, chance * p) for p, child in node)
        if not isinstance(node, _Choice):
            return node
        player, key, total = node.player, node.key, 0.0
        # Every history keeps a small weight, so that states that the opponent never reaches have values too.
        weight = chance * (reach[1 - player] + 1e-9)
        reached[key] = reached.get(key, 0.0) + weight
        row, policy_here = sums.setdefault(key, dict.fromkeys(node.children, 0.0)), policy[key]
        for action, child in node.children.items():
            p = policy_here[action]
            worth = visit(child, (reach[0] * p, reach[1]) if player == 0 else (reach[0], reach[1] * p), chance)
            row[action] += weight * (1 - 2 * player) * worth
            total += p * worth
        return total

    visit(_tree(game.case), (1.0, 1.0), 1.0)
    return {key: {action: worth / reached[key] for action, worth in row.items()} for key, row in sums.items()}


@dataclass(frozen=True, slots=True)
class _Choice:
    """A node of a game's tree at which a player moves.

    Attributes:
        player: The player.
        key: The information state.
        children: The node after each action.
    """

    player: int
    key: str
    children: "dict[int, Node]"


Node = float | tuple[tuple[float, Any], ...] | _Choice
"""A node of a game's tree: the return of player 0 at its end, chance's nodes with their probabilities, or a choice."""


@lru_cache(maxsize=4)
def _tree(case: str) -> Node:
    """The tree of a case of at most `MAX_HISTORIES` histories, because OpenSpiel's states are slow to walk."""

    def node(state: State) -> Node:
        if state.is_terminal():
            return float(state.player_return(0))
        if state.is_chance_node():
            return tuple((p, node(state.child(action))) for action, p in state.chance_outcomes())
        children = {action: node(state.child(action)) for action in state.legal_actions()}
        return _Choice(state.current_player(), state.information_state_string(), children)

    return node(load(case).spiel.new_initial_state())


def _read(file: Path) -> tuple[Table, Table] | None:
    """The policy and the values in a file; None without a readable file."""
    try:
        policy, worths = json.loads(file.read_text())
        return _with_numbers(policy), _with_numbers(worths)
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _with_numbers(table: Mapping[str, Mapping[str, float]]) -> Table:
    return {key: {int(action): number for action, number in row.items()} for key, row in table.items()}


def _write(file: Path, tables: tuple[Table, Table]) -> None:
    """Write the policy and the values, if the folder can be written."""
    part = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(tables))
        part.replace(file)
    except OSError:
        with suppress(OSError):
            part.unlink()


@lru_cache(maxsize=64)
def count_histories(case: str) -> int | None:
    """The number of histories of a game, including terminal ones; None if there are more than `MAX_HISTORIES`."""
    if enumeration.lines(load(case)) > enumeration.MAX_LINES:
        return None
    count, open_ = 0, [load(case).spiel.new_initial_state()]
    while open_:
        state = open_.pop()
        count += 1
        if count + len(open_) > MAX_HISTORIES:
            return None
        if not state.is_terminal():
            open_ += [state.child(action) for action in state.legal_actions()]
    return count


def has_equilibrium(case: str) -> bool:
    """Whether CFR+ solves a case: small, hidden information, two players in turn, zero-sum."""
    game = load(case)
    suits = game.hidden and game.players == 2 and game.zero_sum and not game.simultaneous
    return suits and game.type.provides_information_state_string and count_histories(case) is not None


@lru_cache(maxsize=16)
def equilibrium_of(case: str) -> Equilibrium:
    """The equilibrium of a case, cached in the process and in the user's cache folder."""
    return Equilibrium(load(case), cache_folder())
