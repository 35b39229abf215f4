"""Let a checkpoint play whole games, and say how well, with intervals.

    python train/tools/evaluate.py --checkpoint CHECKPOINT --num_episodes 200 --opponent random,mcts \\
        --games "tic_tac_toe,hex(board_size=5)" --seed 42 [--compare OTHER] [--relabelled] [--output FOLDER]

CHECKPOINT is a folder (a model, an adapter, global_step_N, or an experiment), a hub id, the address of an
OpenAI-compatible server (http://localhost:8000/v1), or a bot. An opponent is random, mcts, mcts:SIMS, mcts:full, exact,
or again one of these. The report goes to the output folder as report.json, report.html and report.png, some games to
look at as shown.html. The same command goes on after an interruption, and takes finished games from there.
"""

import argparse
from pathlib import Path

from rich.console import Console

from veritas_rl.arena.options import add_options, replies_of
from veritas_rl.envs.openspiel.cases import split_list
from veritas_rl.errors import UserError, exit_on_user_error


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--checkpoint", required=True, help="who is judged: a folder, a hub id, an address, or a bot")
    parser.add_argument("--num_episodes", type=int, default=100, help="games of each case, against each opponent")
    parser.add_argument("--opponent", default="random", help="one or more with commas: bots, or checkpoints")
    parser.add_argument("--compare", help="another checkpoint, on the same games")
    parser.add_argument(
        "--relabelled", action="store_true", help="judge single moves also with other labels, and mirrored"
    )
    parser.add_argument("--output", type=Path, help="the folder of the report and of the finished games")
    parser.add_argument("--opening", type=int, help="random moves at the start; default: 0 against bots, else 2")
    parser.add_argument("--games_to_show", type=int, default=8, help="games that are written down to be looked at")
    add_options(parser)
    given = parser.parse_args()
    # What follows imports pyspiel, scipy and matplotlib: help and a wrong option need none of them.
    from veritas_rl.arena import evaluation_report
    from veritas_rl.arena.evaluation import Settings, evaluate

    settings = Settings(
        checkpoint=given.checkpoint,
        compare=given.compare,
        opponents=split_list(given.opponent, "opponent"),
        games=given.num_episodes,
        cases=given.games,
        seed=given.seed,
        prompt=given.prompt,
        opening=given.opening,
        max_moves=given.max_moves,
        relabelled=given.relabelled,
        replies=replies_of(given),
        base=given.base,
    )
    folder = given.output or settings.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be made ({error}): give another --output") from error
    console = Console()
    found = evaluate(settings, folder, console, given.games_to_show)
    evaluation_report.tell(found, console)
    page = folder / "shown.html"
    for path in [*evaluation_report.write(found, folder), *([page] if page.exists() else [])]:
        console.print(str(path), soft_wrap=True, highlight=False)


if __name__ == "__main__":
    exit_on_user_error(main)
