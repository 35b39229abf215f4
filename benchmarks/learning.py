"""Does training improve play? Trains the small model on one game after another, and writes the result of each run.

    python benchmarks/learning.py                                     # ten games, all seeds: about two hours on 2 cores
    python benchmarks/learning.py --games "othello,kuhn_poker" --seeds 42

Each run is `GAME_TYPES=... bash train/scripts/openspiel-ppo-trainer.sh hardware=cpu` as a user types it; only the seed
is set. Each finished run adds a row to `--output`. The same command skips finished runs and resumes an interrupted run,
unless the settings or the tasks have changed since its start. `--again` repeats finished runs and replaces their rows.
`python -m veritas_rl.envs.openspiel.gallery` puts the table into docs/games/what_two_cores_learn.md.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

from veritas_rl.configs import split_list
from veritas_rl.envs.openspiel.cases import canonical
from veritas_rl.envs.openspiel.learning_basis import basis_of
from veritas_rl.envs.openspiel.learning_runs import COLUMNS, PATH, LearningRun, cells_of, read, write
from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.paths import ROOT

GAMES = (
    "hex(board_size=5)",
    "kuhn_poker",
    "leduc_poker",
    "connect_four",
    "othello",
    "dots_and_boxes(num_rows=3,num_cols=3)",
    "clobber(rows=5,columns=5)",
    "breakthrough(rows=6,columns=6)",
    "liars_dice(numdice=1)",
    "goofspiel",
)
MORE_SEEDS = ("hex(board_size=5)", "leduc_poker", "othello")
"""The games that are trained with three seeds instead of one."""
SEEDS = (42, 1, 2)
FOLDER = ROOT / "train/outputs/learning"
"""The folder of the runs' checkpoints and outputs."""


def spelled(games: str) -> str:
    """The name of games in GAME_TYPES and in the table: the canonical case, unless that would be a short name, which
    stands for all default cases."""
    case = canonical(games)
    return case if "(" in case else games


def wanted(games: str | None, seeds: str | None) -> list[tuple[str, int]]:
    """The games and the seed of each run: first all games with their first seed, then the other seeds."""
    chosen = split_list(games, "games") if games else GAMES
    of_all = [int(seed) for seed in seeds.split(",")] if seeds else None
    more = {spelled(case) for case in MORE_SEEDS}
    runs = [
        (place, spelled(case), seed)
        for case in chosen
        for place, seed in enumerate(of_all or (SEEDS if spelled(case) in more else SEEDS[:1]))
    ]
    return [(case, seed) for _, case, seed in sorted(runs, key=lambda run: run[0])]


def folder_of(case: str, seed: int) -> Path:
    """The folder of a run's checkpoints, printed output and duration."""
    return FOLDER / f"{''.join(sign if sign.isalnum() else '_' for sign in case)}-{seed}"


def trained(case: str, seed: int) -> LearningRun:
    """Train on a case, or resume its interrupted run.

    Raises:
        UserError: The training failed.
    """
    folder, basis = folder_of(case, seed), basis_of(case)
    started_on = folder / "basis.json"
    begun = json.dumps(asdict(basis))
    if folder.exists() and not (started_on.is_file() and started_on.read_text() == begun):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    started_on.write_text(begun)
    spent = folder / "minutes.txt"
    command = ["bash", "train/scripts/openspiel-ppo-trainer.sh", "hardware=cpu"]
    command += [f"trainer.default_local_dir={folder / 'checkpoints'}"]
    started = time.monotonic()
    before = float(spent.read_text()) if spent.exists() else 0.0
    try:
        with (folder / "printed.txt").open("a") as printed:
            done = subprocess.run(
                [*command, f"veritas_rl.seed={seed}"],
                cwd=ROOT,
                env={**os.environ, "GAME_TYPES": case, "AGENT_MODEL_REPO_ID": ""},
                stdout=printed,
                stderr=subprocess.STDOUT,
                check=False,
            )
    finally:
        minutes = before + (time.monotonic() - started) / 60
        spent.write_text(f"{minutes:.2f}")
    if done.returncode:
        raise UserError(f"training on {case} ended with exit code {done.returncode}; its output is in {printed.name}")
    record = json.loads((folder / "checkpoints/run.json").read_text())
    report = json.loads((Path(record["folder"]) / "report.json").read_text())
    cores = len(os.sched_getaffinity(0))
    return LearningRun(case, seed, round(minutes, 2), cores, date.today().isoformat(), basis, report)


def table_of(runs: list[LearningRun]) -> Table:
    """The runs as a table."""
    table = Table(title="success in % with 95% intervals")
    for name in ("case", *COLUMNS):
        table.add_column(name)
    for run in runs:
        table.add_row(run.case, *cells_of(run))
    return table


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", help="cases, separated by commas; default: the ten games")
    seeds = "seeds, separated by commas; default: three seeds for some games, and one seed for the others"
    parser.add_argument("--seeds", help=seeds)
    parser.add_argument("--again", action="store_true", help="repeat also the trainings that --output already contains")
    parser.add_argument("--output", type=Path, default=PATH)
    given = parser.parse_args()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    again = set(wanted(given.games, given.seeds)) if given.again else set()
    for case, seed in wanted(given.games, given.seeds):
        runs = read(given.output)
        if (case, seed) in {(run.case, run.seed) for run in runs} and (case, seed) not in again:
            continue
        console.print(f"training on {case}, seed {seed}")
        if (case, seed) in again:
            shutil.rmtree(folder_of(case, seed), ignore_errors=True)
        found = trained(case, seed)
        kept = [run for run in runs if (run.case, run.seed) != (case, seed)]
        write(given.output, [*kept, found])
        console.print(f"  {'learned' if found.shows_learning else 'NOT SHOWN to learn'} in {found.minutes:.1f} minutes")
    console.print(table_of(read(given.output)))
    return 0


if __name__ == "__main__":
    exit_on_user_error(main)
