"""Write tasks to files: JSONL and parquet for training and validation, with the columns that other recipes read.

    python train/tools/generate_dataset.py --env lgc-v2 --num-samples 1000 --seed 42 --out-dir train/datasets/lgc-v2
    python train/tools/generate_dataset.py --env lgc-v2 --num-samples 500 --start-task-id 0 --out-dir train/datasets/ids
    python train/tools/generate_dataset.py --env trace --num-samples 200 --task-types level_1,level_2 \\
        --out-dir train/datasets/trace

The same command gives the same bytes with any --workers. It also resumes an interrupted run. docs/dataset_generation.md
has the columns; evaluate_dataset.py scores answers to the questions.
"""

import argparse
import time
from pathlib import Path

from rich.console import Console

from veritas_rl.datasets.draw import VAL_RATIO, Settings
from veritas_rl.datasets.generate import generate
from veritas_rl.errors import exit_on_user_error
from veritas_rl.judging.options import add_config, add_environment, add_workers, config_of
from veritas_rl.parallel import read_workers


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument
    add_environment(parser)
    add("--num-samples", type=int, required=True, help="total number of rows of train and val")
    add("--out-dir", type=Path, required=True, help="the folder for the files")
    types = "types, levels or games, separated by commas (default: all; with openspiel: tic_tac_toe)"
    add("--task-types", default="", help=types)
    levels = "only these levels, separated by commas: 1 to 5 with lgc-v2, level_1 to level_10 with trace"
    add("--levels", default="", help=levels)
    add("--start-task-id", type=int, help="lgc-v2: take consecutive task ids from this id on, not random tasks")
    add("--seed", type=int, default=42, help="seed of the set of tasks (default: %(default)s)")
    add("--val-ratio", type=float, help=f"share of the rows in val; not with --start-task-id (default: {VAL_RATIO})")
    add("--prompt", default="full", help="full, or brief: only the question, for a small model (default: full)")
    add("--language", default="", help="lgc-v2: language of the questions, en or zh (default: en)")
    add_workers(parser)
    add_config(parser)
    given = parser.parse_args()
    workers = read_workers(given.workers)
    settings = Settings(
        env=given.env,
        number=given.num_samples,
        task_types=given.task_types,
        levels=given.levels,
        start_task_id=given.start_task_id,
        seed=given.seed,
        val_ratio=given.val_ratio,
        prompt=given.prompt,
        language=given.language,
        config=config_of(given),
    )
    console, started = Console(), time.monotonic()
    with workers:
        report, drawn = generate(given.out_dir, settings, workers, console)
    rows = sum(file["rows"] for name, file in report["files"].items() if name.endswith(".jsonl"))
    if rows < settings.number:
        console.print(f"only {rows} of {settings.number} rows were made: there are no other questions", highlight=False)
    for name, file in report["files"].items():
        console.print(f"{file['rows']:>8} rows  {given.out_dir / name}", soft_wrap=True, highlight=False)
    there = f", {rows - drawn} were there already" if rows > drawn else ""
    console.print(f"{drawn} rows were drawn{there}; {time.monotonic() - started:.1f} s", highlight=False)


if __name__ == "__main__":
    exit_on_user_error(main)
