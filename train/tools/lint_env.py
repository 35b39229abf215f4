"""Play an environment and look for misleading rewards: rewarded mistakes, leaks, rewards for guessing.

    python train/tools/lint_env.py --env openspiel --cases "hex(board_size=5),leduc_poker" --tasks 8

With at least 5 tasks for each case, the command also measures OpenSpiel's cases: whether values of moves differ by more
than the noise, whether good moves are paid best, and whether success depends on the move. That takes from 1 s a case
(small board games) to about 10 s (chess, gin rummy) on one core; the other checks take a few seconds a case.

With --page the findings of all cases are written as a page, with the cases that the environment refuses, and why.

With --json the rows of three cases at a time are written as soon as they are done, and the same command resumes an
interrupted run. Remove the file after a change of the environment.

Exit code 0: no finding. 1: findings. 2: an argument is wrong.
"""

import argparse
import inspect
import shlex
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.configs import split_list
from veritas_rl.envs.abilities import refused
from veritas_rl.envs.lint import Row, lint, record, report
from veritas_rl.envs.lint.page import page_of
from veritas_rl.envs.lint.processes import open_environment
from veritas_rl.envs.places import absolute, is_place
from veritas_rl.envs.registry import environment_at, environment_named, environment_names
from veritas_rl.envs.task import PROMPTS
from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.judging.options import ENVIRONMENT, add_workers
from veritas_rl.parallel import read_workers

QUIET_SECONDS = 5
"""Without a terminal, a shorter run prints no progress."""


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Look for rewards that would mislead training.")
    parser.add_argument("--env", default="openspiel", help=f"{ENVIRONMENT}; default: openspiel")
    cases = "cases, separated by commas; default: the cases of the environment's default configuration"
    parser.add_argument("--cases", "--games", default="", help=cases)
    parser.add_argument("--tasks", type=int, default=8, help="number of tasks of each case; default: 8")
    add_workers(parser)
    parser.add_argument("--prompt", choices=PROMPTS, default="full", help="the kind of prompt to check; default: full")
    parser.add_argument(
        "--json", type=Path, help="the JSON file for the rows by case; cases that it already contains are skipped"
    )
    parser.add_argument("--page", type=Path, help="the Markdown file for the findings by check")
    given = parser.parse_args()
    workers = read_workers(given.workers)
    for option, file in (("--json", given.json), ("--page", given.page)):
        if file and not file.parent.is_dir():
            raise UserError(f"{option}: the folder {file.parent} does not exist: create it first")
    env = _name_of(given.env)
    settings = {"env": env, "tasks": given.tasks, "prompt": given.prompt}
    before = record.read(given.json, settings) if given.json else {}

    def keep(rows: Mapping[str, Sequence[Row]]) -> None:
        write_whole(given.json, record.text_of(rows, settings))

    # A game with the generic description is not a finding.
    warnings.filterwarnings("ignore", message=".*has no description of its own")
    shown, output = Console(stderr=True), Console()
    if before:
        shown.print(f"{len(before)} cases are already in {given.json}", highlight=False)
    started, tenth = time.monotonic(), 0
    bar_of_cases = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=shown,
        transient=True,
        disable=not shown.is_terminal,
    )
    with workers, bar_of_cases as progress:
        bar = progress.add_task("starting")

        def advance(done: int, of: int, doing: str) -> None:
            nonlocal tenth
            progress.update(bar, completed=done, total=of, description=doing)
            seconds = time.monotonic() - started
            if not shown.is_terminal and seconds > QUIET_SECONDS and done * 10 // of > tenth:
                tenth = done * 10 // of
                left = seconds / done * (of - done)
                shown.print(f"{done}/{of}  {doing}  {seconds:.0f} s, about {left:.0f} s left", highlight=False)

        kept = keep if given.json else None
        cases = split_list(given.cases, "cases")
        rows = lint(env, cases, given.tasks, given.prompt, advance, workers, before, kept)
    report.show(rows, output)
    if given.page:
        environment = open_environment(env)
        about, command = (inspect.getdoc(environment) or "").partition("\n\n")[0], shlex.join(["python", *sys.argv])
        date = time.strftime("%Y-%m-%d")
        write_whole(given.page, page_of(environment.name, about, rows, refused(environment), command, date))
    return int(any(row.findings for row in rows))


def _name_of(text: str) -> str:
    """The name of an environment, or its place if it has the name of another one, whose successor it may be."""
    folder = Path.cwd()
    if is_place(text):
        place = absolute(text, folder)
        if environment_at(place, f"the environment {text}").name in environment_names():
            return place
    return environment_named(text, folder)


if __name__ == "__main__":
    exit_on_user_error(main)
