"""The players of OpenSpiel by name: "mcts:50", "mcts:full", "exact", engines such as "uci:stockfish"."""

from veritas_rl.envs.environment import PlayerKind
from veritas_rl.envs.openspiel.players import engine
from veritas_rl.envs.openspiel.players.exact import ExactPlayer, check_solvable
from veritas_rl.envs.openspiel.players.mcts import MCTSPlayer, check_searchable, sees_hidden

SIMULATIONS = 50
"""The default number of simulations of a search."""


def make_search(name: str, seed: int | str) -> MCTSPlayer:
    """The search of a name such as "mcts:50"."""
    given = name.partition(":")[2]
    return MCTSPlayer(None if given == "full" else int(given or SIMULATIONS), seed=seed)


def level_of_search(name: str) -> str:
    """The level of a search: "medium" with fewer simulations than the default, otherwise "hard"."""
    simulations = name.partition(":")[2]
    return "medium" if simulations.isdigit() and int(simulations) < SIMULATIONS else "hard"


def canonical_search(name: str) -> str:
    """The canonical name of a search with its number of simulations: "mcts:50" for "mcts"."""
    simulations = name.partition(":")[2] or str(SIMULATIONS)
    return f"mcts:{int(simulations) if simulations.isdigit() else simulations}"


def note_on_search(name: str, case: str) -> str:
    """A note if a search sees hidden information; else ""."""
    if not sees_hidden(case):
        return ""
    return f"{case}: the tree search sees what its seat may not know, and is stronger than is fair."


KINDS = (
    PlayerKind(
        forms=("mcts", "mcts:SIMS", "mcts:full"),
        pattern=r"mcts(?::(?:full|[0-9]{1,9}))?",
        description=f"tree search with SIMS simulations a move, {SIMULATIONS} by default; full: the game's own budget",
        make=make_search,
        check=lambda name, case: check_searchable(case),
        stand_in="random",
        canonical=canonical_search,
        level=level_of_search,
        note=note_on_search,
    ),
    PlayerKind(
        forms=("exact",),
        pattern="exact",
        description="the exact solution, for games that are small enough to solve",
        make=lambda name, seed: ExactPlayer(seed=seed),
        check=lambda name, case: check_solvable(case),
    ),
    *engine.KINDS,
)
