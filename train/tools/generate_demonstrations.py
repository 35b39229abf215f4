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

from veritas_rl.datasets.rows import check_share
from veritas_rl.demonstrations import dataset
from veritas_rl.demonstrations.generate import Settings, generate
from veritas_rl.demonstrations.questions import PARTIAL
from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.task import MODES
from veritas_rl.errors import exit_on_user_error
from veritas_rl.judging.options import PlayersParser, add_config, add_workers, config_of
from veritas_rl.judging.survey import survey
from veritas_rl.parallel import read_workers
from veritas_rl.progress import progress


def arguments() -> PlayersParser:
    """The command line."""
    parser = PlayersParser(__doc__, "openspiel")
    add = parser.add_argument
    cases = (
        "cases, separated by commas, such as 'hex(board_size=5),kuhn_poker' (default: tic_tac_toe; in another "
        "environment all cases)"
    )
    add("--games", "--cases", help=cases)
    add_config(parser)
    expert = (
        "the player that answers: a bot, a model, or a server's address (default: exact, or the environment's solution)"
    )
    add("--expert", help=expert)
    add(
        "--num_demonstrations", type=int, default=2000, help="total number of rows of both files (default: %(default)s)"
    )
    add("--output", type=Path, default=Path("train/parquet"), help="the folder for the files (default: %(default)s)")
    prompt = "full; unlisted: without the legal answers; brief: only the question, for a small model (default: full)"
    add("--prompt", default="full", help=prompt)
    add("--mode", choices=MODES, default="move", help="move: single answers; episode: whole games")
    opponent = "with --mode episode: the player of the other seats (default: the expert plays every seat)"
    add("--opponent", help=opponent)
    add(
        "--min_value",
        type=float,
        default=0.0,
        help="leave out answers whose value is lower, in [0, 1]; 1 keeps only the best",
    )
    steps = "games: maximum number of random moves before a position (default: any number)"
    add("--max_random_steps", type=int, help=steps)
    add("--val_ratio", type=float, default=0.1, help="share of the rows in val.parquet (default: %(default)s)")
    add("--seed", type=int, default=42, help="seed of the tasks and the players (default: %(default)s)")
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
        games=given.games or environment.config_type.demonstrated,
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
    survey([settings.catalogue("train")], console)
    started = time.monotonic()
    with read_workers(given.workers) as workers, progress(console, settings.number, 0, "demonstration") as advance:
        made, counts = generate(settings, advance, workers, given.output)
    console.print("writing and checking", highlight=False)
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
