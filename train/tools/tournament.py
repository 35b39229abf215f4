"""Play a tournament of every player against every other player, and rate the players.

    python train/tools/tournament.py PLAYER PLAYER ... --games "tic_tac_toe,hex(board_size=5)" --num_episodes 100 \\
        --seed 42 --output FOLDER

A PLAYER is a bot of the environment (listed at the end), a folder (a model, an adapter, global_step_N, or an
experiment), a hub id, or the address of an OpenAI-compatible server (http://localhost:8000/v1). The output
folder gets ratings.json, cross_table.html and cross_table.png. Run the same command again to continue after an
interruption; with additional players it plays only the new matches.
"""

from pathlib import Path

from rich.console import Console

from veritas_rl.errors import exit_on_user_error
from veritas_rl.judging.options import (
    PlayersParser,
    add_options,
    add_workers,
    ask_as_trained,
    config_of,
    purse_of,
    replies_of,
)
from veritas_rl.parallel import read_workers


def main() -> None:
    """The command line."""
    parser = PlayersParser(__doc__, "openspiel")
    parser.add_argument("players", nargs="+", metavar="PLAYER", help="a bot, a folder, a hub id, or an address")
    episodes = "number of games of each case in each match; default: 100"
    parser.add_argument("--num_episodes", type=int, default=100, help=episodes)
    parser.add_argument("--output", type=Path, required=True, help="the folder for the report and the finished games")
    opening = "number of random moves at the start of each game; default: 2 between models, else 0"
    parser.add_argument("--opening", type=int, help=opening)
    add_options(parser)
    add_workers(parser)
    given = parser.parse_args()
    # Late, because the following code imports pyspiel, scipy and matplotlib: a wrong option does not need them.
    ask_as_trained(given, given.players)
    from veritas_rl.rating import report as tournament_report
    from veritas_rl.rating.tournament import Settings, hold

    settings = Settings(
        players=tuple(given.players),
        env=given.env,
        games=given.num_episodes,
        cases=given.games,
        seed=given.seed,
        prompt=given.prompt,
        opening=given.opening,
        max_moves=given.max_moves,
        replies=replies_of(given),
        base=given.base,
        config=config_of(given),
    )
    console = Console()
    with read_workers(given.workers) as workers:
        found = hold(settings, given.output, console, purse_of(given, given.output), workers)
    tournament_report.print_report(found, console)
    for path in tournament_report.write(found, given.output):
        console.print(str(path), soft_wrap=True, highlight=False)


if __name__ == "__main__":
    exit_on_user_error(main)
