"""The cost of the trace environment: programs, their truths, judged answers, and the time that a training step waits.

    python benchmarks/trace.py [--rounds 3] [--seconds 2] [--cores 2]

- Pieces, in one thread: programs generated, their forms made, debug prints injected, replies judged.
- Truths of ready programs, and whole questions (program, form, debug prints, truth), on `--cores` cores,
  without cached results. All runs of a program count as one truth. They are compared with reasoning-gym's codeio, where
  it is installed (`bash train/scripts/setup.sh bench`): an item of codeio takes a ready program from its data set and
  runs it once, in the same interpreter and without a sandbox. The row `x N` runs codeio in N processes, one per core.
- A simulated training: batches of 256 tasks of all levels, and steps of 3 s during which this process sleeps. As in a
  training, the next two batches are prepared ahead. The waiting time is the time to prepare and start tasks.

All rows alternate. The script prints medians over the rounds, per second of wall time, so run it on an idle machine.
"""

import argparse
import contextlib
import importlib.util
import io
import itertools
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from veritas_rl.envs.base import Reply
from veritas_rl.envs.task import Task
from veritas_rl.envs.trace import text
from veritas_rl.envs.trace.config import TraceConfig
from veritas_rl.envs.trace.env import TraceEnvironment
from veritas_rl.envs.trace.injection import inject
from veritas_rl.envs.trace.programs import Program, generate
from veritas_rl.envs.trace.questions import LEVELS, form_of
from veritas_rl.envs.trace.scoring import judge
from veritas_rl.envs.trace.task import TracePay
from veritas_rl.envs.trace.truths import Truth, Truths
from veritas_rl.seeding import generator

MIXES = {"levels 1-3": range(1, 4), "levels 1-10": range(1, 11)}
BATCH, STEP_SECONDS, STEPS, AHEAD = 256, 3.0, 5, 2
WANTED = {"judging": 10_000, "truths": 150}
NUMBERS = itertools.count()
"""Gives each program a new number, so that no program repeats."""

Work = Callable[[float], float]
"""Works for a given number of seconds of wall time, and returns units per second."""


def programs(levels: Sequence[int]) -> Iterator[Program]:
    """New programs without end, cycling through the levels."""
    for number in NUMBERS:
        level = levels[number % len(levels)]
        yield generate(generator("benchmark", level, number), level)


def repeat(work: Callable[[], int]) -> Work:
    """Work that repeats a piece, which returns the number of units done, for some seconds."""

    def run(seconds: float) -> float:
        started, done = time.perf_counter(), 0
        while (took := time.perf_counter() - started) < seconds:
            done += work()
        return done / took

    return run


def pieces(levels: Sequence[int]) -> dict[str, Work]:
    """The parts that run in one thread of the training process."""
    made = list(itertools.islice(programs(levels), 60))
    fresh = programs(levels)
    turn = itertools.count()

    def injected() -> int:
        for program in made:
            inject(program.source, generator("benchmark", next(turn)), program.opaque)
        return len(made)

    with tempfile.TemporaryDirectory() as folder, Truths(folder=Path(folder)) as truths:
        found = [truth.stdout for truth in truths.truths_of([(p.source, "") for p in made]) if isinstance(truth, Truth)]
    said = [text.fenced(truth) for truth in found]
    said += [f"<think>{truth}</think>\nIt prints\n{text.fenced(truth.swapcase())}" for truth in found]
    pays = [TracePay(reward=reward, compare=compare) for reward in TracePay.rewards for compare in ("exact", "lenient")]

    def judged() -> int:
        for pay in pays:
            for reply, truth in zip(said, found * 2, strict=True):
                judge(Reply(reply), truth, pay)
        return len(pays) * len(said)

    return {
        "programs generated": repeat(lambda: len(list(itertools.islice(fresh, 20)))),
        "forms": repeat(lambda: len([form_of(program.source) for program in made])),
        "debug prints injected": repeat(injected),
        "judging": repeat(judged),
    }


def truths_of(levels: Sequence[int], folder: Path, cores: int) -> Work:
    """Truths of programs; the programs and their debug prints are made before the clock starts."""
    truths = Truths(threads=cores, folder=folder)
    truths.truths_of([("print(1)", "")] * cores)
    fresh = programs(levels)

    def run(seconds: float) -> float:
        ready = [
            (inject(p.source, generator("benchmark", p.source), p.opaque), "") for p in itertools.islice(fresh, 600)
        ]
        started, done = time.perf_counter(), 0
        while time.perf_counter() - started < seconds and ready:
            some, ready = ready[:60], ready[60:]
            done += sum(isinstance(truth, Truth) for truth in truths.truths_of(some))
        return done / (time.perf_counter() - started)

    return run


def questions(levels: Sequence[int]) -> Work:
    """Tasks prepared ahead and started: all work from the program to its truth."""
    environment = TraceEnvironment()
    numbers = itertools.count()

    def some() -> list[Task]:
        return [_task(f"level_{levels[next(NUMBERS) % len(levels)]}", next(numbers)) for _ in range(60)]

    def run(seconds: float) -> float:
        started, done, following = time.perf_counter(), 0, some()
        environment.prepare(following)
        while time.perf_counter() - started < seconds:
            now, following = following, some()
            environment.prepare(following)
            done += len([environment.start(task) for task in now])
        took = time.perf_counter() - started
        for task in following:
            environment.start(task)
        return done / took

    return run


def _task(case: str, k: int) -> Task:
    config = TraceConfig(cases=case, num_tasks_per_case=k + 1, seed=7)
    return TraceEnvironment().catalogue(config, "train")[k]


@contextlib.contextmanager
def codeio(cores: int) -> Iterator[Work]:
    """Items of reasoning-gym's codeio, in parallel processes that never share an item."""
    context = multiprocessing.get_context("spawn")
    workers: list[tuple[Any, Connection]] = []
    for number in range(cores):
        here, there = context.Pipe()
        worker = context.Process(target=_codeio_worker, args=(there, number), daemon=True)
        worker.start()
        workers.append((worker, here))
    for _, pipe in workers:
        pipe.recv()

    def run(seconds: float) -> float:
        for _, pipe in workers:
            pipe.send(seconds)
        return sum(pipe.recv() for _, pipe in workers)

    yield run
    for worker, pipe in workers:
        pipe.send(None)
        worker.join()


def _codeio_worker(pipe: Connection, number: int) -> None:
    import reasoning_gym  # pyright: ignore[reportMissingImports]

    # The programs print, and may write files to the working directory.
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        items = reasoning_gym.create_dataset("codeio", seed=1 + number * 1_000_000, size=1_000_000)
        index = itertools.count()
        items[next(index)]
        pipe.send(None)
        while (seconds := pipe.recv()) is not None:
            started, done = time.perf_counter(), 0
            while (took := time.perf_counter() - started) < seconds:
                done += bool(items[next(index)]["metadata"]["output_data"])
            pipe.send(done / took)


def waiting() -> tuple[float, float, float]:
    """Seconds that the first step and an average later step wait for tasks, and the share of waiting in later steps."""
    environment = TraceEnvironment()
    batches = [
        [_task(LEVELS[number % len(LEVELS)], 100_000 + BATCH * batch + number) for number in range(BATCH)]
        for batch in range(STEPS + AHEAD)
    ]
    waits = []
    for step in range(STEPS):
        started = time.perf_counter()
        for batch in batches[step : step + 1 + AHEAD]:
            environment.prepare(batch)
        for task in batches[step]:
            environment.start(task)
        waits.append(time.perf_counter() - started)
        time.sleep(STEP_SECONDS)
    later = sum(waits[1:]) / len(waits[1:])
    return waits[0], later, later / (later + STEP_SECONDS)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds for each row in each round; default: 2")
    parser.add_argument("--cores", type=int, default=2)
    given = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[: given.cores]
    os.sched_setaffinity(0, cores)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        os.environ["XDG_CACHE_HOME"] = folder  # before the environment opens its cache of truths
        rows: dict[tuple[str, str], Work] = {}
        for mix, levels in MIXES.items():
            rows |= {(name, mix): work for name, work in pieces(levels).items()}
        for mix, levels in MIXES.items():
            rows["truths", mix] = truths_of(levels, Path(folder) / mix, len(cores))
            rows["questions", mix] = questions(levels)
        there = importlib.util.find_spec("reasoning_gym") is not None
        if there:
            rows["codeio", "x 1"] = stack.enter_context(codeio(1))
            rows["codeio", f"x {len(cores)}"] = stack.enter_context(codeio(len(cores)))
        found: dict[tuple[str, str], list[float]] = {row: [] for row in rows}
        for number in range(given.rounds + 1):
            for row, work in rows.items():
                rate = work(given.seconds if number else given.seconds / 4)
                if number:  # the first round warms up
                    found[row].append(rate)
        first, later, share = waiting()
    console = Console()
    table = Table("", "of", "a second", "wanted", "of codeio")
    theirs = found.get(("codeio", f"x {len(cores)}"))
    for (name, mix), rates in found.items():
        beside = ""
        if theirs and name in ("truths", "questions", "codeio"):
            beside = f"{median(ours / other for ours, other in zip(rates, theirs, strict=True)):.2f}"
        wanted = f"{WANTED[name]:,}" if name in WANTED else ""
        table.add_row(name, mix, f"{median(rates):,.0f}", wanted, beside)
    console.print(table)
    if not there:
        console.print(
            "reasoning-gym is not installed, so codeio is left out; install it: bash train/scripts/setup.sh bench"
        )
    console.print(
        f"{BATCH} tasks of all levels in a step of {STEP_SECONDS:g} s: the first step waits {first:.2f} s, later steps "
        f"{later:.2f} s, {share:.1%} of the step (required: below 5%); {len(cores)} cores",
        highlight=False,
    )


if __name__ == "__main__":
    main()
