"""The players that OpenSpiel brings, by name: "mcts:50", "mcts:full", "exact"."""

from veritas_rl.envs.environment import PlayerKind
from veritas_rl.envs.openspiel.players.exact import ExactPlayer, check_solvable
from veritas_rl.envs.openspiel.players.mcts import MCTSPlayer, check_searchable

SIMULATIONS = 50
"""Of a search that is named without a number."""


def make_search(name: str, seed: int | str) -> MCTSPlayer:
    """The search of a name such as "mcts:50"."""
    given = name.partition(":")[2]
    return MCTSPlayer(None if given == "full" else int(given or SIMULATIONS), seed=seed)


def level_of_search(name: str) -> str:
    """A search of fewer simulations than the usual number is "medium"."""
    simulations = name.partition(":")[2]
    return "medium" if simulations.isdigit() and int(simulations) < SIMULATIONS else "hard"


KINDS = (
    PlayerKind(
        forms=("mcts", "mcts:SIMS", "mcts:full"),
        pattern=r"mcts(?::(?:full|[0-9]{1,9}))?",
        description=f"tree search with SIMS simulations a move, {SIMULATIONS} by default; full: the game's own budget",
        make=make_search,
        check=lambda name, case: check_searchable(case),
        stand_in="random",
        canonical=lambda name: f"mcts:{SIMULATIONS}" if name == "mcts" else name,
        level=level_of_search,
    ),
    PlayerKind(
        forms=("exact",),
        pattern="exact",
        description="the solution of a game that is small enough",
        make=lambda name, seed: ExactPlayer(seed=seed),
        check=lambda name, case: check_solvable(case),
    ),
)
