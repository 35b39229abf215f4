"""CPU time of one OpenSpiel task, by case and reward: started, answered with a random legal move, scored.

    python benchmarks/values.py [--cases CASES] [--tasks 20] [--rewards outcome,optimal,legal] [--before FOLDER]
    python benchmarks/values.py --visit 7    # tasks that another process has asked seven times before

The script prints the mean CPU time of making the position with its prompt, the mean CPU time of scoring the answer, and
the longest task. Work that a process does once per case, such as solving a small game, is not counted. Each reward has
its own process, because positions and values are cached. `--before` is a checkout of an earlier version, which is also
measured, alternating with this version case by case in separate processes. `--playouts 64` gives both versions the same
number of playouts.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from veritas_rl.configs import split_list
from veritas_rl.envs.base import Reply
from veritas_rl.envs.openspiel.cases import DEFAULT_CASES
from veritas_rl.envs.registry import get_environment, make_task
from veritas_rl.seeding import generator

FAR = 1_000_000
"""The number of an untimed task that fills the caches of a process."""


def timed(case: str, tasks: int, reward: str, playouts: int | None, visit: int) -> Iterator[tuple[float, float]]:
    """CPU seconds of each task: to start it, and to answer and score it."""
    environment = get_environment("openspiel")
    values = {} if playouts is None else {"playouts": playouts}
    for k in (FAR, *range(tasks)):
        task = make_task("openspiel", case, k, reward=reward, **values)
        if visit:  # earlier versions have no visits
            task = replace(task, visit=visit)
        started = time.process_time()
        session = environment.start(task)
        turns = session.turns()
        shown = time.process_time()
        session.step({turn.seat: Reply(generator("answers", task.id).choice(turn.answers)) for turn in turns})
        session.scores()
        if k != FAR:
            yield shown - started, time.process_time() - shown


def measured_in(folder: Path, case: str, reward: str, given: argparse.Namespace) -> list[tuple[float, float]]:
    """Measure a case in a process that imports the package from a folder."""
    command = [sys.executable, __file__, "--cases", case, "--tasks", str(given.tasks), "--rewards", reward]
    command += ["--as-json"] + (["--visit", str(given.visit)] if given.visit else [])
    command += [] if given.playouts is None else ["--playouts", str(given.playouts)]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="")
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--rewards", default="outcome,optimal,legal")
    parser.add_argument("--playouts", type=int)
    parser.add_argument("--visit", type=int, default=0)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--as-json", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    cases = split_list(given.cases, "cases") or DEFAULT_CASES
    if given.as_json:
        warnings.simplefilter("ignore")
        print(json.dumps(list(timed(cases[0], given.tasks, given.rewards, given.playouts, given.visit))))
        return
    here = Path(__file__).parents[1]
    trees = {"": here} | ({"before": given.before} if given.before else {})
    columns = [f"{reward} {tree}".strip() for reward in given.rewards.split(",") for tree in trees]
    table = Table(box=SIMPLE_HEAD, title="milliseconds a task: position + value, worst")
    for name in ("case", *columns):
        table.add_column(name, justify="left" if name == "case" else "right", no_wrap=True)
    means: dict[str, list[float]] = {name: [] for name in columns}
    worst = dict.fromkeys(columns, 0.0)
    for case in cases:
        found = {
            f"{reward} {tree}".strip(): measured_in(folder, case, reward, given)
            for reward in given.rewards.split(",")
            for tree, folder in trees.items()
        }
        words = []
        for name in columns:
            shown, scored = (fmean(column) for column in zip(*found[name], strict=True))
            longest = max(map(sum, found[name]))
            means[name].append(shown + scored)
            worst[name] = max(worst[name], longest)
            words.append(f"{1e3 * shown:.1f} + {1e3 * scored:.1f}, {1e3 * longest:.0f}")
        table.add_row(case, *words)
        print(case, *words, file=sys.stderr, flush=True)
    last = [
        f"{1e3 * fmean(means[name]):.1f}, {1e3 * max(means[name]):.0f}, {1e3 * worst[name]:.0f}" for name in columns
    ]
    table.add_row("mean, mean of the slowest case, worst", *last)
    Console(width=max(120, 45 + 24 * len(columns))).print(table)


if __name__ == "__main__":
    main()
