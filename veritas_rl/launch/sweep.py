"""Train several settings with several seeds, and compare them in a table.

    bash train/scripts/sweep.sh --name rates --seeds 1,2,3 actor_rollout_ref.actor.optim.lr=1e-3,3e-4 algorithm=grpo

The overrides go to openspiel-ppo-trainer.sh, or to another script with --script. A value with commas is varied, as in
Hydra's multirun. Several such overrides are combined in every way. Each run has its own folder in
train/artifacts/sweeps/NAME. The same command resumes a sweep: finished runs are skipped, and interrupted runs resume.

The runs start one after another. --at_once N starts N runs at a time, for example on a shared Ray cluster:
`ray-cluster.sh submit bash train/scripts/sweep.sh --at_once 4 ... ray_kwargs.ray_init.address=auto
ray_kwargs.ray_init.num_cpus=null`.

The table shows the mean over the seeds with its 95% interval by Student's t, which assumes normally distributed
results. The exit code is 1 if a run has failed.
"""

import argparse
import hashlib
import itertools
import json
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from rich.console import Console
from rich.table import Table
from scipy import stats

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.composition import quoted
from veritas_rl.errors import UserError, exit_on_user_error, last_line
from veritas_rl.launch.resume import Record
from veritas_rl.metrics_file import MetricsFile
from veritas_rl.paths import ROOT

SWEEPS = ROOT / "train/artifacts/sweeps"
SCRIPT = "train/scripts/openspiel-ppo-trainer.sh"
SEED = "veritas_rl.seed"
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Trial:
    """One run of a sweep.

    Attributes:
        setting: The varied overrides.
        seed: The run's seed.
        folder: The folder of its checkpoints and of its output, `output.log`.
        command: The command that starts it.
    """

    setting: tuple[str, ...]
    seed: int
    folder: Path
    command: tuple[str, ...]

    def has_ended(self) -> bool:
        """Whether the run is complete."""
        record = Record.read(self.folder)
        return record is not None and record.finished

    def value(self, metric: str, last: int) -> float | None:
        """The mean of a metric over the last steps that have it; None if no step has it."""
        record = Record.read(self.folder)
        if record is None:
            return None
        seen = [data[metric] for _, data in MetricsFile(Path(record.folder) / "metrics.jsonl").new() if metric in data]
        return fmean(seen[-last:]) if seen else None


def settings_of(words: Sequence[str]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Split overrides into the fixed overrides, and every combination of the varied overrides.

    Args:
        words: The trainer's overrides.

    Raises:
        UserError: Hydra cannot parse an override, or an override sets a key that differs per run.
    """
    fixed: list[str] = []
    varied: list[list[str]] = []
    for word in words:
        if "=" not in word:
            fixed.append(word)
            continue
        try:
            override = OverridesParser.create().parse_override(word)
        except HydraException as error:
            raise UserError(f"{word} is not a valid override ({' '.join(str(error).split())})") from None
        if (key := word.partition("=")[0].lstrip("+~")) in (SEED, "trainer.default_local_dir"):
            raise UserError(f"{key} is set by the sweep: use --seeds for seeds, and --name for the folder")
        if override.is_sweep_override():
            sign = word[: len(word) - len(word.lstrip("+~"))]
            varied.append([f"{sign}{key}={value}" for value in override.sweep_string_iterator()])
        else:
            fixed.append(word)
    return fixed, list(itertools.product(*varied))


def trials_of(folder: Path, script: str, words: Sequence[str], seeds: Sequence[int]) -> list[Trial]:
    """The runs of a sweep: all settings with the first seed, then with the next seed."""
    fixed, settings = settings_of(words)
    made = []
    for seed, setting in itertools.product(seeds, settings):
        place = folder / named(setting) / f"seed-{seed}"
        own = (f"{SEED}={seed}", f"trainer.default_local_dir={quoted(str(place))}")
        made.append(Trial(setting, seed, place, ("bash", script, *fixed, *setting, *own)))
    return made


def named(setting: Sequence[str]) -> str:
    """A readable and unique folder name for a setting."""
    short = ",".join(word.rpartition(".")[2] if "." in word.partition("=")[0] else word for word in setting)
    digest = hashlib.sha256("\0".join(setting).encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9=,._-]', '_', short)[:60] or 'as-it-is'}-{digest}"


def run(trials: Sequence[Trial], at_once: int, console: Console) -> list[Trial]:
    """Run all unfinished trials, and return the failed trials.

    A signal also stops the runs. Each saves, and the same command resumes.
    """
    waiting = [trial for trial in trials if not trial.has_ended()]
    console.print(f"{len(trials)} runs, {len(waiting)} of them unfinished", highlight=False)
    running: dict[subprocess.Popen[bytes], Trial] = {}
    failed: list[Trial] = []

    def stop(number: int, frame: object) -> None:
        for process in running:
            process.send_signal(number)
        waiting.clear()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                trial = waiting.pop(0)
                trial.folder.mkdir(parents=True, exist_ok=True)
                console.print(f"seed {trial.seed} of {shown(trial.setting)}: {trial.folder}", soft_wrap=True)
                with (trial.folder / "output.log").open("ab") as log:
                    # In a new session, so that Ctrl-C reaches the run only once, through `stop`.
                    process = subprocess.Popen(
                        trial.command,
                        cwd=ROOT,
                        stdout=log,
                        stderr=log,
                        stdin=subprocess.DEVNULL,
                        start_new_session=True,
                    )
                running[process] = trial
            for process in [process for process in running if process.poll() is not None]:
                trial = running.pop(process)
                if process.returncode:
                    failed.append(trial)
                    log = (trial.folder / "output.log").read_text(errors="replace")
                    said = last_line(log, f"exit code {process.returncode}")
                    console.print(f"seed {trial.seed} of {shown(trial.setting)} failed: {said}", markup=False)
            time.sleep(POLL_SECONDS)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return failed


def shown(setting: Sequence[str]) -> str:
    """A setting as it is printed."""
    return " ".join(setting) or "the only setting"


@dataclass(frozen=True)
class Cell:
    """A metric over the runs of a setting.

    Attributes:
        metric: The metric's name.
        values: The value of each seed that has the metric.
        mean: The mean; None without values.
        low: The lower bound of the 95% interval; None for fewer than two values.
        high: The upper bound.
    """

    metric: str
    values: Mapping[int, float]
    mean: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, metric: str, values: Mapping[int, float]) -> "Cell":
        """Compute mean and interval of the values."""
        numbers = list(values.values())
        if len(numbers) < 2:
            return cls(metric, values, numbers[0] if numbers else None)
        low, high = stats.ttest_1samp(numbers, 0.0).confidence_interval(0.95)
        return cls(metric, values, fmean(numbers), float(low), float(high))

    def __str__(self) -> str:
        if self.mean is None:
            return "-"
        return f"{self.mean:.3f}" + ("" if self.low is None else f" [{self.low:.3f}, {self.high:.3f}]")


def compare(trials: Sequence[Trial], metrics: Sequence[str], last: int) -> dict[tuple[str, ...], list[Cell]]:
    """The cells of each setting, one for each metric.

    Args:
        trials: The runs.
        metrics: Names in `metrics.jsonl`.
        last: The number of last steps that are averaged.
    """
    made: dict[tuple[str, ...], list[Cell]] = {}
    for setting in dict.fromkeys(trial.setting for trial in trials):
        runs = [trial for trial in trials if trial.setting == setting]
        values = [
            {run.seed: value for run in runs if (value := run.value(metric, last)) is not None} for metric in metrics
        ]
        made[setting] = [Cell.of(metric, of) for metric, of in zip(metrics, values, strict=True)]
    return made


def report(trials: Sequence[Trial], metrics: Sequence[str], last: int, folder: Path, console: Console) -> None:
    """Print the table, and write it to `sweep.json`."""
    rows = compare(trials, metrics, last)
    table = Table("setting", "seeds", *metrics, title=f"mean of the last {last} steps, 95% interval over seeds")
    for setting, cells in rows.items():
        table.add_row(shown(setting), str(min(len(cell.values) for cell in cells)), *map(str, cells))
    console.print(table)
    found = [{"setting": setting, "metrics": [asdict(cell) for cell in cells]} for setting, cells in rows.items()]
    write_whole(folder / "sweep.json", json.dumps({"last": last, "settings": found}, indent=2) + "\n")
    console.print(f"table: {folder / 'sweep.json'}", soft_wrap=True, highlight=False)


def main(typed: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="sweep.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--name", required=True, help="the name of the sweep and of its folder in train/artifacts/sweeps")
    add("--seeds", default="1,2,3", help="seeds, separated by commas; default: 1,2,3")
    metric = "a metric of metrics.jsonl to show in the table; may be repeated; default: critic/score/mean"
    add("--metric", action="append", help=metric)
    add("--last", type=int, default=5, help="number of last steps over which metrics are averaged; default: 5")
    add("--at_once", type=int, default=1, help="number of runs at a time; default: 1")
    add("--script", default=SCRIPT, help=f"the script that starts a run; default: {SCRIPT}")
    add("overrides", nargs="*", help="the trainer's overrides; values with commas are varied")
    given = parser.parse_intermixed_args(typed)
    try:
        seeds = [int(seed) for seed in given.seeds.split(",")]
    except ValueError:
        raise UserError(
            f"--seeds {given.seeds} is not supported: use integers separated by commas, such as 1,2,3"
        ) from None
    if given.last < 1 or given.at_once < 1:
        raise UserError(f"--last {given.last} and --at_once {given.at_once} must be 1 or more")
    if not re.fullmatch(r"[\w.-]+", given.name) or given.name in (".", ".."):
        raise UserError(f"--name {given.name} is not a folder name: use letters, digits, dots, underscores and dashes")
    if not (ROOT / given.script).is_file():
        raise UserError(f"--script {given.script} does not exist: use one of train/scripts")
    folder, console = SWEEPS / given.name, Console(width=max(100, Console().width))
    trials = trials_of(folder, given.script, given.overrides, list(dict.fromkeys(seeds)))
    check_same(folder, [given.script, *settings_of(given.overrides)[0]])
    failed = run(trials, given.at_once, console)
    report(trials, given.metric or ["critic/score/mean"], given.last, folder, console)
    return 1 if failed else 0


def check_same(folder: Path, fixed: Sequence[str]) -> None:
    """Refuse a folder whose runs were started with other fixed overrides. Settings and seeds may be added.

    Raises:
        UserError: The fixed overrides differ.
    """
    file = folder / "words.json"
    if file.exists() and (before := json.loads(file.read_text())) != list(fixed):
        raise UserError(
            f"{folder} holds a sweep with other settings ({' '.join(before)}): choose another --name, or delete the "
            "folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(list(fixed)) + "\n")


if __name__ == "__main__":
    exit_on_user_error(main)
