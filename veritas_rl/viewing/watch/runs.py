"""Reads training runs and evaluations from their files, even while the files are written.

A training run is a folder with `metrics.jsonl`, or with verl's log before the first step. An evaluation is a folder
with a report or finished games. The files may be copies from another machine that are still being written: an
incomplete line is read later, and a rewritten file is read again from its start.
"""

import json
import math
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from veritas_rl import announcements
from veritas_rl.metrics_file import Tail

METRICS, LOG = "metrics.jsonl", "verl.log"

PAGES = ("shown.html", "report.html", "cross_table.html", "games.html", "exact.html")
"""The pages of a folder that can be opened, in addition to the pages of recorded games."""

MOST_POINTS = 500
"""The maximum number of points of a curve. Neighbouring steps are averaged."""

DEEPEST = 5
"""The depth to which runs are searched below the given folder. They are in train/outputs/DATE/TIME."""

NEVER = frozenset({"model", "checkpoints", ".hydra", "tensorboard", "games", "models"})
"""Folders of a run that contain no runs."""

LAST_BYTES = 100_000
"""The number of bytes at the end of a metrics file that are read, more than one step's line."""

LOG_BYTES = 400_000
"""The number of bytes at the end of a log that are read."""

QUIET_SECONDS = 300.0
"""A run without a report counts as ended after its files have not changed for this many seconds."""


@dataclass
class Metrics:
    """The columns of a metrics file. Each call of `read` continues at the end of the previous call.

    Attributes:
        path: The file; it may be missing.
        steps: The steps, ascending.
        columns: For each metric, its value at each step; None if the step lacks the metric.
    """

    path: Path
    steps: list[int] = field(default_factory=list)
    columns: dict[str, list[float | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tail = Tail(self.path, self._forget)

    def read(self) -> None:
        """Read the new lines."""
        with suppress(OSError):  # it is being replaced
            for line in self._tail.new():
                self._add(line)

    def _forget(self) -> None:
        self.steps, self.columns = [], {}

    def _add(self, line: bytes) -> None:
        try:
            record = json.loads(line)
            step, data = int(record["step"]), dict(record["data"])
        except (ValueError, TypeError, KeyError):
            return
        # A resumed run repeats some steps. The later values replace the earlier values.
        while self.steps and self.steps[-1] > step:
            self.steps.pop()
            for values in self.columns.values():
                values.pop()
        if not self.steps or self.steps[-1] != step:
            self.steps.append(step)
            for values in self.columns.values():
                values.append(None)
        for name, value in data.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                self.columns.setdefault(str(name), [None] * len(self.steps))[-1] = value

    def newest(self) -> tuple[int, dict[str, Any]]:
        """The last step and its metrics, read from the end of the file; 0 and no metrics without a step."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_BYTES))
                lines = file.read().splitlines(keepends=True)
        except OSError:
            return 0, {}
        for line in reversed(lines):
            try:
                record = json.loads(line)
                return int(record["step"]), dict(record["data"])
            except (ValueError, TypeError, KeyError):
                continue  # the line is incomplete
        return 0, {}

    def last(self, name: str) -> float | None:
        """The newest value of a metric."""
        return next((value for value in reversed(self.columns.get(name, [])) if value is not None), None)

    def total(self, name: str) -> float:
        """The sum over all steps."""
        return sum(value for value in self.columns.get(name, []) if value is not None)

    def curve(self, name: str) -> Sequence[tuple[float, float]]:
        """Points of step and value. Neighbours are averaged if there are more than `MOST_POINTS`."""
        points = [
            (step, value)
            for step, value in zip(self.steps, self.columns.get(name, []), strict=True)
            if value is not None
        ]
        if len(points) <= MOST_POINTS:
            return points
        size = -(-len(points) // MOST_POINTS)
        parts = [points[start : start + size] for start in range(0, len(points), size)]
        return [(part[-1][0], sum(value for _, value in part) / len(part)) for part in parts]


class Run:
    """One folder of a training run or an evaluation.

    Args:
        folder: The folder.
        name: The path below the watched folder.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.metrics = Metrics(folder / METRICS)
        self._typed: list[str] = []
        self._steps: int | None = None

    def summary(self) -> dict[str, Any]:
        """The entry of the list of runs, as plain values. It reads little, so that a long list is fast."""
        step, data = self.metrics.newest()
        changed = max((_changed(self.folder / name) for name in (METRICS, LOG, "games.jsonl")), default=0.0)
        ended = (self.folder / "report.json").exists()
        return {
            "name": self.name,
            "kind": "training" if self.is_training else "evaluation",
            "title": self.title(),
            "step": step,
            "steps": self._steps,
            "changed": changed,
            "quiet": max(0.0, time.time() - changed),
            "state": "ended" if ended else "running" if time.time() - changed < QUIET_SECONDS else "quiet",
            "success": data.get("task/success"),
        }

    def details(self) -> dict[str, Any]:
        """The content of the run's page without its curves, as plain values."""
        metrics = self.metrics
        metrics.read()
        self._steps = self._steps or self._planned()
        return {
            **self.summary(),
            "folder": str(self.folder),
            "typed": self.typed(),
            "said": self._said(),
            "metrics": sorted(metrics.columns),
            "stage": metrics.last("curriculum/stage"),
            "opponents": self._opponents(),
            "mistakes": {
                name: metrics.last(f"task/{name}")
                for name in ("illegal", "truncated", "overlong")
                if f"task/{name}" in metrics.columns
            },
            "tokens": metrics.total("perf/total_num_tokens"),
            "seconds": metrics.total("timing_s/step"),
            "spent": self._spent(),
            "pages": self.pages(),
        }

    @property
    def is_training(self) -> bool:
        return (self.folder / METRICS).exists() or (self.folder / LOG).exists()

    def title(self) -> str:
        """The recipe, the environment and the cases of the command, or else the folder's name."""
        named = []
        for word in self.typed():
            key, _, value = word.partition("=")
            if (recipe := key.removesuffix("@_global_")) != key:
                named.append(recipe.lstrip("+"))
            elif key.rpartition(".")[2] in ("game_types", "cases", "env", "environment") and value != "other":
                named.append(value.strip("'\""))  # the choice other has the environment in another key
        return ", ".join(named) or self.folder.name

    def typed(self) -> list[str]:
        """The overrides of the command, as Hydra recorded them, without those of the machine's processes."""
        if not self._typed:
            try:
                found = yaml.safe_load((self.folder / ".hydra/overrides.yaml").read_text("utf-8"))
            except (OSError, ValueError, yaml.YAMLError):
                return []
            words = map(str, found) if isinstance(found, list) else ()
            self._typed = [word for word in words if not word.lstrip("+").startswith("ray_kwargs.")]
        return self._typed

    def pages(self) -> list[str]:
        """The pages that can be opened: reports, and recorded games from the newest on."""
        games = sorted((self.folder / "games").glob("step_*.html"), key=_step_of, reverse=True)
        return [f"games/{path.name}" for path in games] + [name for name in PAGES if (self.folder / name).is_file()]

    def _planned(self) -> int | None:
        """The planned number of steps, from the configuration that Hydra recorded."""
        try:
            text = (self.folder / ".hydra/config.yaml").read_text("utf-8")
            # Parsing the whole configuration would take 0.1 s.
            parts = [part for part in re.split(r"\n(?=\S)", text) if part.startswith(("trainer:", "veritas_rl:"))]
            steps = OmegaConf.select(OmegaConf.create("\n".join(parts)), "trainer.total_training_steps")
            return int(steps) if steps and int(steps) > 0 else None
        except (OSError, ValueError, TypeError, AssertionError, yaml.YAMLError, OmegaConfBaseException):
            return None

    def _opponents(self) -> list[dict[str, Any]]:
        """The result against each opponent of whole games, at the last step with that opponent."""
        found = []
        for name in sorted(self.metrics.columns):
            parts = name.split("/")
            if len(parts) == 3 and parts[1].startswith("vs_") and parts[2] == "success":
                found.append({"opponent": parts[1].removeprefix("vs_"), "success": self.metrics.last(name)})
        return found

    def _said(self) -> list[str]:
        """The announcements of the trainer, the newest last."""
        try:
            with (self.folder / LOG).open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
                found = re.findall(announcements.PATTERN.encode(), file.read())
        except OSError:
            return []
        return [line.decode("utf-8", "replace")[:500] for line in found[-20:]]

    def _spent(self) -> list[dict[str, Any]]:
        """The requests to servers in an evaluation, see `players.cost`. The report has the prices."""
        for name, key in (("report.json", "cost"), ("ratings.json", "cost"), ("spending.json", None)):
            try:
                found = json.loads((self.folder / name).read_text("utf-8"))
            except (OSError, ValueError):
                continue
            rows = found.get(key) if key and isinstance(found, dict) else found
            if isinstance(rows, list) and rows:
                return [row for row in rows if isinstance(row, dict)]
        return []


class Runs:
    """The runs below a folder.

    Args:
        root: The folder. If it is a run's own folder, that run is shown alone.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._runs: dict[str, Run] = {}

    def all(self) -> list[Run]:
        """The runs, the newest first."""
        found = {self._name(folder): folder for folder in _folders(self.root, DEEPEST)}
        self._runs = {name: self._runs.get(name) or Run(folder, name) for name, folder in found.items()}
        return sorted(self._runs.values(), key=lambda run: -max(_changed(run.folder / METRICS), _changed(run.folder)))

    def get(self, name: str) -> Run | None:
        """The run of this name; None if it does not exist."""
        if name not in self._runs:
            self.all()
        return self._runs.get(name)

    def _name(self, folder: Path) -> str:
        return folder.relative_to(self.root).as_posix() if folder != self.root else self.root.resolve().name


def _folders(folder: Path, deep: int) -> Iterator[Path]:
    """The folders of runs at and below a folder. Links are not followed, because they could form a cycle."""
    try:
        inside = list(os.scandir(folder))
    except OSError:
        return
    names = {entry.name for entry in inside}
    if names & {METRICS, LOG, "report.json", "ratings.json", "shown.jsonl"}:
        yield folder
        return
    for entry in inside:
        if deep and entry.is_dir(follow_symlinks=False) and entry.name not in NEVER:
            yield from _folders(Path(entry.path), deep - 1)


def curves(runs: Sequence[Run], names: Sequence[str]) -> dict[str, dict[str, Sequence[tuple[float, float]]]]:
    """The curves of each metric by run; runs without the metric are left out."""
    for run in runs:
        run.metrics.read()
    return {name: {run.name: run.metrics.curve(name) for run in runs if name in run.metrics.columns} for name in names}


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _step_of(path: Path) -> int:
    number = path.stem.removeprefix("step_")
    return int(number) if number.isdigit() else -1
