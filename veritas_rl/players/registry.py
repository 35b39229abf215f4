"""The players that have a name: "random", "mcts:50", "exact". What users type for an opponent is read here.

none           nobody: every seat is left to whoever plays the session
self           the model that plays sits on every seat
random         a uniformly random legal move
mcts           tree search with 50 simulations a move; mcts:SIMS with SIMS
mcts:full      tree search with the game's own budget: for evaluation, a move may take seconds
exact          the solution of a game that is small enough

and, in training, models beside the one that is trained:

checkpoint:WHO     what `loading` opens: a folder, a checkpoint, an adapter, a hub id, a server's address
past               an earlier checkpoint of the same run, drawn for each game
"""

import re
from collections.abc import Iterable

from veritas_rl.envs.base import Player
from veritas_rl.envs.openspiel.players.exact import ExactPlayer, check_solvable
from veritas_rl.envs.openspiel.players.mcts import MCTSPlayer, check_searchable
from veritas_rl.errors import UserError
from veritas_rl.players.random import RandomPlayer

SELF = "self"
ALL_SEATS = ("none", SELF)
"""The opponents that are the model itself."""

CHECKPOINT, PAST = "checkpoint:", "past"
"""How the opponents are named that are models."""

BOTS = ("random", "mcts", "mcts:SIMS", "mcts:full", "exact")
SIMULATIONS = 50


def make_bot(name: str, seed: int | str = 0) -> Player:
    """The player of this name.

    Raises:
        UserError: No bot is called so.
    """
    if name == "random":
        return RandomPlayer(seed)
    if name == "exact":
        return ExactPlayer(seed=seed)
    match = re.fullmatch(r"mcts(?::(full|\d{1,9}))?", name)
    if match is None:
        others = f"in training also {CHECKPOINT}WHO, {PAST} and self"
        raise UserError(f"unknown opponent {name!r}: the bots are {', '.join(BOTS)}; {others}")
    if match[1] == "full":
        return MCTSPlayer(None, seed=seed)
    return MCTSPlayer(int(match[1] or SIMULATIONS), seed=seed)


def is_model(name: str) -> bool:
    """Whether an opponent is a model beside the one that is trained."""
    return name == PAST or name.startswith(CHECKPOINT)


def check_bot(name: str, cases: Iterable[str]) -> None:
    """Refuse a bot that does not exist, or cannot play one of these cases.

    Raises:
        UserError: Why.
    """
    make_bot(name)
    for case in cases:
        if name == "exact":
            check_solvable(case)
        elif name.startswith("mcts"):
            check_searchable(case)


def stand_in(name: str, case: str) -> str:
    """Who plays a case in training for a bot: itself, or "random" where a tree search cannot.

    A stage of a curriculum has one opponent for all its games, of which a few cannot be searched.
    """
    if name.startswith("mcts"):
        try:
            check_searchable(case)
        except UserError:
            return "random"
    return name
