"""The result of a run of a recipe: one JSON file, made from the reports of the run and kept in the recipe's folder.

train/recipes/NAME/results/seed-42.json               a run of the unchanged recipe
train/recipes/NAME/results/short-seed-42.json         one in the short form
train/recipes/NAME/results/tried-WORDS-seed-42.json   a run with changed settings
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veritas_rl.basis import EARLIER_SETTINGS, Basis
from veritas_rl.errors import UserError
from veritas_rl.records.description import Description, Form

RESULTS = "results"
RESULT = "result.json"

Figure = Mapping[str, float]
"""A figure: "mean", and "low" and "high" of its 95% interval if it has one."""


@dataclass(frozen=True)
class Result:
    """The result of a run.

    Attributes:
        recipe: The recipe's name.
        basis: The recipe's settings and tasks when the result was made; see `Description.basis`.
        form: "whole" or "short".
        seed: `veritas_rl.seed`.
        date: The day of the run's end, as YYYY-MM-DD.
        machine: The processor cores and GPUs available to the run.
        minutes: The minutes of each stage, by name.
        memory: The peak memory of all processes of the run together, in GiB; None if it was not measured.
        departures: The settings of the command that differ from the recipe, one line each. The recipe's bands do not
            apply to a run with departures.
        figures: The figures, by name.
        curves: Points of a step and a value, by metric.
        shares: The share of RL's minutes in each phase of its steps, see `figures.PHASES`.
        note: A note for readers; "" for no note.
    """

    recipe: str
    basis: Basis
    form: Form
    seed: int
    date: str
    machine: str
    minutes: Mapping[str, float]
    memory: float | None
    departures: tuple[str, ...]
    figures: Mapping[str, Figure]
    curves: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    def to_json(self) -> str:
        """The text of the result's file."""
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    def follows(self, description: Description) -> bool:
        """Whether this is a run of the description's settings and tasks without changes."""
        return not self.departures and not self.remark(description)

    def remark(self, description: Description) -> str:
        """What has changed in the recipe since the run, see `Basis.remark`.

        Raises:
            ValueError: The description has no basis.
        """
        if description.basis is None:
            raise ValueError(f"the description of {self.recipe} was read without its basis")
        return self.basis.remark(description.basis)


def read_result(path: Path) -> Result:
    """Read a result from its file, or from the folder of its run.

    Raises:
        UserError: The result is missing or damaged.
    """
    file = path / RESULT if path.is_dir() else path
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        return Result(**{**values, "basis": Basis(**values["basis"]), "departures": tuple(values["departures"])})
    except FileNotFoundError:
        raise UserError(f"{path} has no {RESULT}; a finished run of a recipe writes one") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{file} is no result of a recipe ({error})") from error


def results_in(folder: Path) -> list[Result]:
    """The kept results of a recipe's folder, by form and seed. Results with changed settings come last."""
    found = [read_result(path) for path in sorted((folder / RESULTS).glob("*.json"))]
    return sorted(found, key=lambda result: (bool(result.departures), result.form != "whole", result.seed))


def keep(result: Result, folder: Path) -> Path:
    """Save a result in its recipe's folder; it replaces an earlier result of the same seed and form.

    Raises:
        UserError: The folder belongs to another recipe.
    """
    if result.recipe != folder.name:
        raise UserError(f"the result is of the recipe {result.recipe}, not of {folder.name}; name the right recipe")
    words = "short-" if result.form == "short" else ""
    if result.departures:
        changed = " ".join(result.departures)
        key = re.sub(r"[^a-z0-9]+", "-", changed.partition(" ")[0].lower()).strip("-")
        words += f"tried-{key}-{hashlib.sha256(changed.encode()).hexdigest()[:6]}-"
    file = folder / RESULTS / f"{words}seed-{result.seed}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(result.to_json(), encoding="utf-8")
    return file


def same_kind(results: Sequence[Result], description: Description, form: Form) -> list[Result]:
    """The results of a form of the unchanged recipe, by seed."""
    return [result for result in without_departures(results, form) if result.follows(description)]


def without_departures(results: Sequence[Result], form: Form) -> list[Result]:
    """The results of a form of the recipe as it was at the time, by seed."""
    return [result for result in results if result.form == form and not result.departures]


def nearest_kind(results: Sequence[Result], description: Description, form: Form) -> list[Result]:
    """The results of the unchanged recipe; without any, those of the recipe with other tasks, then earlier settings."""
    runs = without_departures(results, form)
    remarks = [run.remark(description) for run in runs]
    nearest = min(remarks, key=lambda remark: (EARLIER_SETTINGS in remark, remark), default="")
    return [run for run, remark in zip(runs, remarks, strict=True) if remark == nearest]


def origin(figure: str, description: Description, results: Sequence[Result], form: Form) -> str:
    """What has changed in the recipe since the runs from which the band of a figure comes; "" for the unchanged recipe
    and if no run has the figure."""
    runs = nearest_kind([run for run in results if figure in run.figures], description, form)
    return runs[0].remark(description) if runs else ""


def check_bands(name: str, description: Description, results: Sequence[Result]) -> None:
    """Check that each band has a kept run, and contains the figures of all kept runs of the unchanged recipe.

    A band may come from runs before a change of the recipe or of its tasks; see `origin`.

    Raises:
        UserError: A band has no kept run, or a kept run is outside its band.
    """
    forms: tuple[Form, ...] = ("whole", "short") if description.short else ("whole",)
    for form in forms:
        for figure, (low, high) in description.expected_of(form).items():
            runs = [run for run in without_departures(results, form) if figure in run.figures]
            seeds = {run.seed: run.figures[figure]["mean"] for run in runs if run.follows(description)}
            if not runs:
                raise UserError(
                    f"recipe {name}: the {form} form expects {figure} in [{low:g}, {high:g}], but no kept run has this "
                    "figure; keep a run with train/tools/recipes.py keep, or remove the band"
                )
            for seed, mean in seeds.items():
                if not low <= mean <= high:
                    raise UserError(
                        f"recipe {name}: the {form} form expects {figure} in [{low:g}, {high:g}], but the kept run of "
                        f"seed {seed} has {mean:g}; widen the band"
                    )


def machine_of(cores: int, gpus: int) -> str:
    """A machine in words."""
    return f"{cores} cores, {'no GPU' if not gpus else '1 GPU' if gpus == 1 else f'{gpus} GPUs'}"


def as_figure(value: Any) -> Figure | None:
    """A number or an estimate as a figure; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return {"mean": float(value)}
    if isinstance(value, Mapping) and {"mean", "low", "high"} <= value.keys():
        return {name: float(value[name]) for name in ("mean", "low", "high")}
    return None
