"""Whether a long run leaks: memory and open files of each process, and the files that it writes to disk.

    python benchmarks/long_run.py [--steps 1000] [--output found.json] [Hydra overrides]

The script trains the small model of a CPU run with default settings, and measures every process of the run after each
step. The last four fifths of the steps count: the resident memory of each process may grow by 5%, or by 4 MiB if that
is more, and the number of open files by 2. Growth is the difference between the medians of the first tenth and the last
tenth of these steps. At the end, at most four checkpoints may be on disk. All other files may grow by 64 KiB per step.

The exit code is 1 if anything exceeds these limits.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import psutil
from rich.console import Console
from rich.table import Table

from veritas_rl.checkpoints.layout import step_folders
from veritas_rl.checkpoints.prune import size_of
from veritas_rl.metrics_file import MetricsFile
from veritas_rl.paths import ROOT

MOST_GROWTH = 0.05
LEAST_BYTES = 4 << 20
MOST_FILES = 2
MOST_BYTES_A_STEP = 64 << 10
MIB = 2**20


@dataclass(frozen=True)
class Look:
    """The memory and the open files of a process after a step.

    Attributes:
        step: The step.
        memory: The resident memory, in bytes.
        own: The part of `memory` that is not shared with other processes.
        files: The number of open files.
    """

    step: int
    memory: int
    own: int
    files: int


@dataclass(frozen=True)
class Disk:
    """The files of a run on disk after a step.

    Attributes:
        step: The step.
        checkpoints: The number of checkpoints.
        rest: The bytes of logs, metrics and Ray's files.
    """

    step: int
    checkpoints: int
    rest: int


@dataclass(frozen=True)
class Change:
    """A measured value at the beginning and at the end of the counted steps.

    Attributes:
        first: The median of the first tenth.
        last: The median of the last tenth.
    """

    first: float
    last: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> "Change":
        """The change over a series."""
        tenth = max(1, len(numbers) // 10)
        return cls(median(numbers[:tenth]), median(numbers[-tenth:]))

    def flat(self, share: float, least: float) -> bool:
        """Whether the value has grown by at most `share` of its first value, or by at most `least`."""
        return self.last - self.first <= max(share * self.first, least)


def processes_of(launcher: int) -> Iterator[psutil.Process]:
    """The launcher and all its child processes."""
    parent = psutil.Process(launcher)
    yield parent
    yield from parent.children(recursive=True)


def name_of(process: psutil.Process) -> str:
    """Ray's title of a process without the running method, or the module or script that Python runs, or its name."""
    words = process.cmdline()
    if words and words[0].startswith("ray::"):
        return words[0].partition(".")[0]
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    return next((Path(word).name for word in words if word.endswith(".py")), process.name())


def watched(
    run: subprocess.Popen[bytes], folder: Path, ray: Path
) -> tuple[dict[tuple[int, str], list[Look]], list[Disk]]:
    """Measure a run after each step until it ends.

    Args:
        run: The launcher.
        folder: The folder of its checkpoints.
        ray: Ray's temporary folder.
    """
    looks: dict[tuple[int, str], list[Look]] = defaultdict(list)
    disk: list[Disk] = []
    logs, metrics = None, None
    while run.poll() is None:
        time.sleep(0.2)
        if logs is None or metrics is None:
            if not (folder / "run.json").exists():
                continue
            logs = Path(json.loads((folder / "run.json").read_text())["folder"])
            metrics = MetricsFile(logs / "metrics.jsonl")
        for step, _ in list(metrics.new())[-1:]:
            for process in processes_of(run.pid):
                try:
                    memory = process.memory_info()
                    look = Look(step, memory.rss, memory.rss - memory.shared, process.num_fds())
                    looks[process.pid, name_of(process)].append(look)
                except psutil.Error:
                    continue
            disk.append(Disk(step, len(step_folders(folder)), size_of(logs) + size_of(ray)))
    return looks, disk


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--output", type=Path, help="a JSON file for all measurements")
    parser.add_argument("overrides", nargs="*")
    given = parser.parse_args()
    # Ray's sockets are in its folder, and the length of a socket's path is limited.
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as ray, tempfile.TemporaryDirectory() as checkpoints:
        folder = Path(checkpoints) / "run"
        run = subprocess.Popen(
            [
                *(sys.executable, "-m", "veritas_rl.launch.main", f"trainer.default_local_dir={folder}"),
                *(f"trainer.total_training_steps={given.steps}", "veritas_rl.evaluation=null", *given.overrides),
            ],
            cwd=ROOT,
            env={**os.environ, "RAY_TMPDIR": ray},
        )
        looks, disk = watched(run, folder, Path(ray))
    if run.returncode:
        sys.exit(f"training failed with exit code {run.returncode}: what it said stands above")
    counts = given.steps // 5
    table, grown = Table(title=f"Steps {counts + 1} to {given.steps}"), list[str]()
    for column in ("process", "MiB", "at the end", "change", "own MiB", "at the end", "files", "at the end"):
        table.add_column(column, justify="left" if column == "process" else "right")
    for (number, name), seen in looks.items():
        later = [look for look in seen if look.step > counts]
        if not later or later[0].step > counts + 2 or later[-1].step < given.steps - 1:
            continue  # The process did not run during all counted steps.
        memory, own = Change.of([look.memory for look in later]), Change.of([look.own for look in later])
        files = Change.of([look.files for look in later])
        if not memory.flat(MOST_GROWTH, LEAST_BYTES):
            grown.append(f"the memory of {name} ({number})")
        if not files.flat(0, MOST_FILES):
            grown.append(f"the open files of {name} ({number})")
        table.add_row(
            name,
            *(f"{value / MIB:.1f}" for value in (memory.first, memory.last)),
            f"{memory.last / memory.first - 1:+.1%}",
            *(f"{value / MIB:.1f}" for value in (own.first, own.last)),
            *(f"{value:.0f}" for value in (files.first, files.last)),
        )
    later_disk = [found for found in disk if found.step > counts]
    rest = (later_disk[-1].rest - later_disk[0].rest) / max(1, later_disk[-1].step - later_disk[0].step)
    most = max(found.checkpoints for found in disk)
    if rest > MOST_BYTES_A_STEP:
        grown.append("what is written beside checkpoints")
    if later_disk[-1].checkpoints > 4:
        grown.append("the number of checkpoints")
    console = Console(width=160)
    console.print(table)
    console.print(f"checkpoints at once: {most}; beside them {rest / 1024:.1f} KiB are written a step")
    console.print("grown: " + "; ".join(grown) if grown else "nothing grows", soft_wrap=True)
    if given.output is not None:
        processes = [
            {"process": number, "name": name, "looks": [asdict(look) for look in seen]}
            for (number, name), seen in looks.items()
        ]
        given.output.write_text(json.dumps({"processes": processes, "disk": [asdict(found) for found in disk]}) + "\n")
    sys.exit(1 if grown else 0)


if __name__ == "__main__":
    main()
