"""Measure what OpenSpiel tasks teach: whether their moves are worth different values, and how well they are paid.

    python train/tools/learning_signal.py --cases "hex(board_size=5),leduc_poker" --tasks 200 --json signal.json

Without --cases, all default cases are measured. With --json each case is written as soon as it is done, and the same
command resumes an interrupted run. The results do not depend on --workers, except for the times. To update
docs/games/what_moves_teach.md:

    python train/tools/learning_signal.py --tasks 100 --moves 16 --json docs/learning_signal.json
    python -m veritas_rl.envs.openspiel.gallery
"""

import argparse
import warnings
from pathlib import Path

from rich.console import Console

from veritas_rl.configs import split_list
from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.judging.options import add_config, add_workers, config_of
from veritas_rl.parallel import read_workers


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument
    add("--cases", "--games", default="", help="cases, separated by commas; default: all default cases")
    add("--tasks", type=int, default=200, help="number of tasks of each case; default: 200")
    playouts = "number of fresh playouts (not those of the reward) of each move, a multiple of 16; default: 128"
    add("--playouts", type=int, default=128, help=playouts)
    add("--moves", type=int, help="maximum number of measured moves of a task, spread evenly; default: all")
    add("--reward", default="outcome", help="the measured reward: outcome or optimal; default: outcome")
    mode = "move: single positions; episode: decisions of whole games between random players; default: move"
    add("--mode", default="move", help=mode)
    add("--seed", type=int, default=42, help="the seed of the set of tasks; default: 42")
    nodes = "maximum number of states that a search for the true values of a position may visit; default: 40000"
    add("--nodes", type=int, default=40_000, help=nodes)
    add_config(parser)
    add_workers(parser)
    add("--json", type=Path, help="the JSON file for the results; cases that it already contains are skipped")
    given = parser.parse_args()
    workers = read_workers(given.workers)
    if given.json and not given.json.parent.is_dir():
        raise UserError(f"--json: the folder {given.json.parent} does not exist: create it first")
    # Late, because this imports pyspiel and scipy: a wrong option does not need them.
    from veritas_rl.checkpoints.folder import write_whole
    from veritas_rl.envs.openspiel.learning_signal import report
    from veritas_rl.envs.openspiel.learning_signal.summary import Settings, jobs_of, measure
    from veritas_rl.progress import progress

    # A game with the generic description can be measured like any other.
    warnings.filterwarnings("ignore", message=".*has no description of its own")
    settings = Settings(
        tasks=given.tasks,
        playouts=given.playouts,
        moves=given.moves,
        reward=given.reward,
        mode=given.mode,
        seed=given.seed,
        nodes=given.nodes,
        config=dict(config_of(given)),
    )
    jobs = jobs_of(settings, split_list(given.cases, "cases"))
    rows = report.measured_before(given.json, settings) if given.json else {}
    missing = {case: of for case, of in jobs.items() if case not in rows}
    shown = Console(stderr=True)
    if len(missing) < len(jobs):
        shown.print(f"{len(jobs) - len(missing)} of {len(jobs)} cases are already in {given.json}", highlight=False)
    with workers, progress(shown, sum(map(len, missing.values())), 0, "task") as advance:
        for row in measure(missing, workers, advance):
            rows[row.case] = row
            if given.json:
                write_whole(given.json, report.text_of(list(rows.values()), settings))
    report.show([rows[case] for case in jobs], settings, Console())


if __name__ == "__main__":
    exit_on_user_error(main)
