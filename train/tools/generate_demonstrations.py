"""Make training data from expert answers: parquet for SFT, without questions of the evaluation set.

    python train/tools/generate_demonstrations.py --games tic_tac_toe --expert exact --num_demonstrations 2000 \\
        --seed 42 --output train/parquet --prompt brief

It writes train.parquet, val.parquet and demonstrations.json, which reports what was drawn, left out and checked. The
same command resumes an interrupted run. `bash train/scripts/openspiel-SFT-trainer.sh` trains on the files.
docs/dataset_generation.md has the columns.
"""

import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from veritas_rl.datasets.rows import check_share
from veritas_rl.demonstrations import dataset
from veritas_rl.demonstrations.generate import Settings, generate
from veritas_rl.demonstrations.questions import PARTIAL
from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.task import MODES
from veritas_rl.errors import exit_on_user_error
from veritas_rl.judging.options import PlayersParser, add_config, add_workers, config_of
from veritas_rl.parallel import read_workers


def arguments() -> PlayersParser:
    """The command line."""
    parser = PlayersParser(__doc__, "openspiel")
    add = parser.add_argument
    cases = "cases with commas, as in 'hex(board_size=5),kuhn_poker' (default: tic_tac_toe; of another environment all)"
    add("--games", "--cases", help=cases)
    add_config(parser)
    expert = "who answers: a bot, a model, or a server's address (default: exact, or the environment's own solution)"
    add("--expert", help=expert)
    add("--num_demonstrations", type=int, default=2000, help="rows of both files (default: %(default)s)")
    add("--output", type=Path, default=Path("train/parquet"), help="the folder (default: %(default)s)")
    add("--prompt", default="full", help="full, unlisted, or brief: the bare question, for a small model")
    add("--mode", choices=MODES, default="move", help="move: single answers; episode: whole games")
    add("--opponent", help="with --mode episode: who plays the other seats (default: the expert, in every seat)")
    add(
        "--min_value", type=float, default=0.0, help="drop answers with a lower value, in [0, 1]; 1 keeps only the best"
    )
    add("--max_random_steps", type=int, help="games: at most this many random moves before a position (default: any)")
    add("--val_ratio", type=float, default=0.1, help="share of val.parquet (default: %(default)s)")
    add("--seed", type=int, default=42, help="seeds tasks and players (default: %(default)s)")
    add_workers(parser)
    return parser


def main() -> None:
    """Generate and write demonstrations, and print a summary."""
    given = arguments().parse_args()
    check_share(given.val_ratio)
    environment, config = get_environment(given.env), config_of(given)
    if given.max_random_steps is not None:
        config = (*config, ("max_random_steps", given.max_random_steps))
    settings = Settings(
        games=given.games or environment.demonstrated,
        env=given.env,
        expert=given.expert or environment.expert,
        number=given.num_demonstrations,
        seed=given.seed,
        mode=given.mode,
        prompt=given.prompt,
        min_value=given.min_value,
        opponent=given.opponent,
        config=config,
    )
    console = Console()
    started = time.monotonic()
    columns = (TextColumn("drawing tasks"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    drawing = Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=console, transient=True)
    with read_workers(given.workers) as workers, drawing as progress:
        bar = progress.add_task("", total=settings.number)
        made, counts = generate(settings, lambda kept: progress.update(bar, completed=kept), workers, given.output)
        progress.console.print("writing and checking", highlight=False)
        report = dataset.write(given.output, settings, made, counts, given.val_ratio)
        (given.output / PARTIAL).unlink()
    if counts.kept < settings.number:
        console.print(
            f"only {counts.kept} of {settings.number} rows were made: there are no other questions", highlight=False
        )
    for name, file in report["files"].items():
        console.print(f"{file['rows']:>8} rows  {given.output / name}", soft_wrap=True, highlight=False)
    console.print(
        f"{counts.kept} of {counts.drawn} questions drawn were kept; left out: {counts.in_evaluation_set} in the "
        f"evaluation set, {counts.duplicates} duplicates, {sum(counts.mistakes.values())} mistakes, "
        f"{counts.rejected_by_quality} below min_value; "
        f"{time.monotonic() - started:.1f} s",
        highlight=False,
        soft_wrap=True,
    )
    found = report["check"]
    console.print(
        f"checked: {found['rows_in_evaluation_set']} of {found['rows']} rows are in the evaluation set "
        f"({found['evaluation_tasks']} tasks, {found['evaluation_classes']} classes)",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    exit_on_user_error(main)
