"""Make training data of expert play: parquet for SFT, or questions for RL, with nothing of the evaluation set in it.

    python train/tools/generate_demonstrations.py --games tic_tac_toe --expert exact --num_demonstrations 2000 \\
        --seed 42 --output train/parquet --prompt brief

It writes train.parquet, val.parquet and demonstrations.json, which says what was drawn, left out and checked. Then
`bash train/scripts/openspiel-SFT-trainer.sh` trains on it. docs/dataset_generation.md has the columns.
"""

import argparse
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from veritas_rl.demonstrations import dataset
from veritas_rl.demonstrations.generate import Settings, generate
from veritas_rl.envs.task import MODES, PROMPTS
from veritas_rl.errors import UserError, exit_on_user_error


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--games", default="tic_tac_toe", help="games or cases with commas, as in 'hex(board_size=5),kuhn_poker'")
    add("--expert", help="who answers: a bot, a model, or a server's address (default: exact; none with --format rl)")
    add("--num_demonstrations", type=int, default=2000, help="rows of both files (default: %(default)s)")
    add("--output", type=Path, default=Path("train/parquet"), help="the folder (default: %(default)s)")
    add("--format", choices=dataset.FORMATS, default="sft", help="sft: with answers; rl: questions (default: sft)")
    add("--prompt", choices=PROMPTS, default="full", help="brief: the position alone, for a small model")
    add("--mode", choices=MODES, default="move", help="move: label states; episode: play whole games")
    add("--opponent", help="with --mode episode: who plays the other seats (default: the expert, in every seat)")
    add("--min_value", type=float, default=0.0, help="drop moves worth less, in [0, 1]; 1: optimal ones alone")
    add("--max_random_steps", type=int, help="random moves before a state at most (default: any state of a game)")
    add("--val_ratio", type=float, default=0.1, help="share of val.parquet (default: %(default)s)")
    add("--seed", type=int, default=42, help="seeds states and players (default: %(default)s)")
    return parser


def main() -> None:
    """Generate, write, and say what there is."""
    given = arguments().parse_args()
    if given.format == "rl" and given.expert is not None:
        raise UserError("--format rl has no answers: leave --expert out, or set --format sft")
    dataset.check_share(given.val_ratio)
    settings = Settings(
        games=given.games,
        expert=None if given.format == "rl" else given.expert or "exact",
        number=given.num_demonstrations,
        seed=given.seed,
        mode=given.mode,
        prompt=given.prompt,
        min_value=given.min_value,
        max_random_steps=given.max_random_steps,
        opponent=given.opponent,
    )
    console = Console()
    started = time.monotonic()
    columns = (TextColumn("drawing states"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("", total=settings.number)
        made, counts = generate(settings, lambda kept: progress.update(bar, completed=kept))
        progress.console.print("writing and checking", highlight=False)
        report = dataset.write(given.output, settings, made, counts, given.val_ratio)
    if counts.kept < settings.number:
        console.print(f"no more than {counts.kept} of {settings.number}: there are no other positions", highlight=False)
    for name, file in report["files"].items():
        console.print(f"{file['rows']:>8} rows  {given.output / name}", soft_wrap=True, highlight=False)
    console.print(
        f"{counts.kept} of {counts.drawn} states drawn were kept; left out: {counts.in_evaluation_set} in the "
        f"evaluation set, {counts.duplicates} duplicates, {sum(counts.mistakes.values())} mistakes, "
        f"{counts.rejected_by_quality} below min_value, {counts.surplus} more than wanted; "
        f"{time.monotonic() - started:.1f} s",
        highlight=False,
        soft_wrap=True,
    )
    found = report["check"]
    console.print(
        f"checked: {found['rows_in_evaluation_set']} of {found['rows']} rows are in the evaluation set "
        f"({found['evaluation_tasks']} tasks, {found['evaluation_classes']} symmetry classes)",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    exit_on_user_error(main)
