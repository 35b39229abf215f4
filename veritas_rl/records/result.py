"""The result of a run of a recipe: one JSON file, made from the reports of the run, and kept in the recipe's folder.

train/recipes/NAME/results/seed-42.json               a run as the recipe stands
train/recipes/NAME/results/short-seed-42.json         one in the short form
train/recipes/NAME/results/tried-WORDS-seed-42.json   one whose command departed from the recipe
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veritas_rl.errors import UserError
from veritas_rl.records.description import Description, Form

RESULTS = "results"
RESULT = "result.json"

Figure = Mapping[str, float]
"""A mean under "mean", and its 95% interval under "low" and "high" where it has one."""


@dataclass(frozen=True)
class Result:
    """What a run came to.

    Attributes:
        recipe: The recipe's name.
        digest: See `Description.digest`.
        form: "whole" or "short".
        seed: `veritas_rl.seed`.
        date: When it ended, as YYYY-MM-DD.
        machine: The processor cores and the GPUs that the run might use.
        minutes: How long each stage took, by its name.
        memory: The most memory in GiB that all processes of the run held together; None where it was not measured.
        departures: What the command set otherwise than the recipe, a line each; such figures say nothing of the bands.
        figures: What was found.
        curves: Points of a step and a value, by the metric.
        note: What a reader must know; "" for nothing.
    """

    recipe: str
    digest: str
    form: Form
    seed: int
    date: str
    machine: str
    minutes: Mapping[str, float]
    memory: float | None
    departures: tuple[str, ...]
    figures: Mapping[str, Figure]
    curves: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    note: str = ""

    def to_json(self) -> str:
        """As the text of its file."""
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    def follows(self, description: Description) -> bool:
        """Whether it is a run of these settings, with nothing changed."""
        return self.digest == description.digest and not self.departures


def read_result(path: Path) -> Result:
    """A result from its file, or from the folder of its run.

    Raises:
        UserError: There is none, or it is damaged.
    """
    file = path / RESULT if path.is_dir() else path
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        return Result(**{**values, "departures": tuple(values["departures"])})
    except FileNotFoundError:
        raise UserError(f"there is no result in {path}: a run of a recipe ends with a {RESULT}") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{file} is no result of a recipe ({error})") from error


def results_in(folder: Path) -> list[Result]:
    """The results that are kept in a recipe's folder: by form and seed, those that departed from the recipe last."""
    found = [read_result(path) for path in sorted((folder / RESULTS).glob("*.json"))]
    return sorted(found, key=lambda result: (bool(result.departures), result.form != "whole", result.seed))


def keep(result: Result, folder: Path) -> Path:
    """Keep a result in its recipe's folder, in place of an earlier one of the same seed and form.

    Raises:
        UserError: The folder is that of another recipe.
    """
    if result.recipe != folder.name:
        raise UserError(f"this is a result of the recipe {result.recipe}, and not of {folder.name}")
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
    """The results of a form, of the recipe as it stands, by seed."""
    return [result for result in results if result.form == form and result.follows(description)]


def check_bands(name: str, description: Description, results: Sequence[Result]) -> None:
    """Refuse a band that no kept run supports, or that one contradicts.

    Raises:
        UserError: There is such a band.
    """
    forms: tuple[Form, ...] = ("whole", "short") if description.short else ("whole",)
    for form in forms:
        runs = same_kind(results, description, form)
        for figure, (low, high) in description.expected_of(form).items():
            seeds = {run.seed: run.figures[figure]["mean"] for run in runs if figure in run.figures}
            if not seeds:
                raise UserError(
                    f"recipe {name}: the {form} form expects {figure} in [{low:g}, {high:g}], and no kept run has it: "
                    "a band needs a seed; keep a run with train/tools/recipes.py keep, or take the band out"
                )
            for seed, mean in seeds.items():
                if not low <= mean <= high:
                    raise UserError(
                        f"recipe {name}: the {form} form expects {figure} in [{low:g}, {high:g}], and the kept run of "
                        f"seed {seed} has {mean:g}: widen the band"
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
