"""List recipes, run a recipe and check its figures, keep results, and write the recipes' pages.

    python train/tools/recipes.py list
    python train/tools/recipes.py check NAME [--seed N] [--short] [Hydra overrides]
    python train/tools/recipes.py check NAME --result FOLDER        # judge a run that is finished
    python train/tools/recipes.py keep FOLDER [--note WORDS]        # into train/recipes/NAME/results
    python train/tools/recipes.py write [--check]   # docs/results.md, parts of docs/training.md and of each README.md

The exit code of `check` is 0 if all figures are in their bands, and 1 if a figure is not, or if the command contradicts
the recipe. A run of a recipe prints FOLDER at its end.
"""

import argparse
import dataclasses
import io
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from veritas_rl.errors import UserError, exit_on_user_error, unknown
from veritas_rl.launch.recipes import FOLDER
from veritas_rl.paths import ROOT
from veritas_rl.records import pages
from veritas_rl.records.description import Description, read_description
from veritas_rl.records.result import check_bands, keep, read_result, results_in
from veritas_rl.records.verdict import judge

RESULTS_PAGE, TRAINING_PAGE = ROOT / "docs/results.md", ROOT / "docs/training.md"


def parse(typed: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="list | check | keep | write")
    commands.add_parser("list", help="list all recipes with their results")
    check = commands.add_parser("check", help="run a recipe, and compare its figures with the expected ranges (bands)")
    check.add_argument("name", help="the name of the recipe")
    check.add_argument(
        "--seed", type=int, help="the seed of the run (veritas_rl.seed); default: the seed of the settings"
    )
    check.add_argument("--short", action="store_true", help="run the recipe's short form, which takes minutes")
    judged = "judge a finished run, given by its folder or its result.json, instead of running the recipe"
    check.add_argument("--result", type=Path, help=judged)
    kept = commands.add_parser("keep", help="keep the result of a run in its recipe's folder")
    kept.add_argument("folder", type=Path, help="the run's folder, or its result.json")
    kept.add_argument("--note", default="", help="a remark on the run, shown on the recipe's page")
    write = commands.add_parser("write", help="write the pages of the recipes and of the results")
    write.add_argument("--check", action="store_true", help="write nothing, and fail if a page is out of date")
    given, others = parser.parse_known_args(typed)
    # argparse does not collect positional arguments between options into a list.
    given.overrides = [word for word in others if not word.startswith("-")]
    if others and (given.command != "check" or given.overrides != others):
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    return given


def describe(folder: Path) -> Description | None:
    """The description of a recipe with its basis; None if it has none.

    Raises:
        UserError: The recipe cannot be composed, or a task cannot be started.
    """
    # Late, because these import Hydra and torch, which listing recipes does not need.
    from veritas_rl.launch import rl, sft
    from veritas_rl.launch.recipe_basis import described

    return described(folder, {trainer.kind: trainer for trainer in (rl.TRAINER, sft.TRAINER)})


def find(name: str) -> tuple[Path, Description]:
    """The folder and the description of a recipe of the repository.

    Raises:
        UserError: The recipe does not exist or has no description, or a band does not match the kept runs.
    """
    folder = FOLDER / name
    if not (folder / "config.yaml").is_file() or "/" in name:
        raise unknown("recipe", name, (path.parent.name for path in FOLDER.glob("*/config.yaml")))
    description = describe(folder)
    if description is None:
        raise UserError(f"recipe {name} has no description: add veritas_rl.recipe to its config.yaml")
    check_bands(name, description, results_in(folder))
    return folder, description


def show_all(console: Console) -> None:
    """Print a row for each recipe."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("recipe", "hardware", "kept seeds", "what it trains"):
        table.add_column(column, overflow="fold")
    for folder, (description, results) in pages.read_all(FOLDER, read_description).items():
        seeds = [str(result.seed) for result in results if result.form == "whole" and not result.departures]
        ran = ", ".join(seeds) if seeds else "has not run" if not pages.has_run(results) else "only the short form"
        table.add_row(folder.name, description.hardware, ran, description.meaning)
    console.print(table)


def check(given: argparse.Namespace) -> int:
    """Run a recipe, or read a finished run, and print the verdict."""
    folder, description = find(given.name)
    if given.result is not None:
        if given.overrides or given.seed is not None or given.short:
            raise UserError("--result judges a finished run: leave out --seed, --short and overrides")
        result = read_result(given.result)
        if result.recipe != given.name:
            raise UserError(f"{given.result} is a result of the recipe {result.recipe}, not of {given.name}")
        verdict = judge(result, description, results_in(folder))
        print("\n".join(verdict.lines))
        return 0 if verdict.confirmed else 1
    # The same settings as in train/scripts. They must be set before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "30000")
    # Late, because these import Hydra and torch, which listing recipes does not need.
    from veritas_rl.launch import command, recipe_run, rl, sft

    typed = [f"recipe={given.name}", *given.overrides]
    if given.seed is not None:
        typed.append(f"veritas_rl.seed={given.seed}")
    sys.argv = [sys.argv[0], *typed]
    words, hardware, dry = command.prepare()
    trainer = sft.TRAINER if description.trainer == "sft" else rl.TRAINER
    form = "short" if given.short else "whole"
    if dry:
        recipe_run.RecipeRun.plan(trainer, sft.TRAINER, words, hardware, form).describe()
        return 0
    _, confirmed = recipe_run.run_recipe(trainer, sft.TRAINER, words, hardware, form)
    return 0 if confirmed else 1


def forecast_of(folder: Path, description: Description) -> tuple[str, float, float] | None:
    """The forecast of train/tools/plan.py for a recipe for GPUs; None for a CPU, where runs are measured.

    Returns:
        The forecast in Markdown, the minutes of all training steps, and the GiB of a GPU.
    """
    if description.hardware == "cpu":
        return None
    # Late, because these import Hydra, which listing recipes does not need.
    from veritas_rl.launch import rl
    from veritas_rl.launch.hardware import Hardware
    from veritas_rl.planning.compose import plan_of
    from veritas_rl.planning.devices import device_for
    from veritas_rl.planning.report import print_plan

    hardware = description.hardware
    os.environ.pop("AGENT_MODEL_REPO_ID", None)  # the variable would replace the recipe's model
    typed = [f"recipe={folder}", f"hardware={hardware}"]
    run = rl.plan(typed, {}, Hardware(cores=2, gpus=1, gpu_bytes=0), datetime.now(), dry=True)
    configuration = run.configuration
    printed = io.StringIO()
    plan = plan_of(configuration, hardware, device_for(hardware))
    print_plan(plan, Console(file=printed, width=100))
    lines = [line.rstrip() for line in printed.getvalue().partition("hardware=")[2].splitlines()]
    text = "\n".join(["hardware=" + lines[0], *lines[1:]])
    command = f"python train/tools/plan.py --hardware {hardware} recipe={folder.name}"
    shown = f"Memory and time are forecasts of `{command}`. Nothing was measured:\n\n```text\n{text}\n```"
    minutes = configuration.trainer.total_training_steps * sum(plan.seconds().values()) / 60
    return shown, minutes, plan.peak.total / 2**30


def write(*, only_check: bool) -> int:
    """Write all pages, or print which pages are not current."""
    recipes = pages.read_all(FOLDER, describe)
    for folder, (description, results) in recipes.items():
        check_bands(folder.name, description, results)
    stale: list[Path] = []
    forecasts: dict[Path, tuple[float, float]] = {}
    for folder, (description, results) in recipes.items():
        file = folder / "README.md"
        if not file.is_file():
            raise UserError(f"{file} is missing: write there what the recipe is, and what failure looks like")
        text = file.read_text(encoding="utf-8")
        pages.check_first_line(text, folder.name, results)
        shown = ""
        if (forecast := forecast_of(folder, description)) is not None:
            shown, minutes, memory = forecast
            forecasts[folder] = minutes, memory
        part = pages.readme_part(description, results, shown).replace("NAME", folder.name)
        _write(file, pages.with_part(text, part, str(file.relative_to(ROOT))), stale, only_check=only_check)
        if not only_check:
            pages.draw_curve(folder / pages.CURVE, results, description)
    _write(RESULTS_PAGE, pages.results_page(recipes), stale, only_check=only_check)
    text, table = TRAINING_PAGE.read_text(encoding="utf-8"), pages.recipes_table(recipes, forecasts)
    _write(TRAINING_PAGE, pages.with_part(text, table, "docs/training.md"), stale, only_check=only_check)
    for path in stale if only_check else ():
        print(f"{path.relative_to(ROOT)} is out of date: run python train/tools/recipes.py write")
    return 1 if only_check and stale else 0


def _write(path: Path, text: str, stale: list[Path], *, only_check: bool) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        stale.append(path)
        if not only_check:
            path.write_text(text, encoding="utf-8")


def main() -> int:
    """The command line."""
    given = parse()
    match given.command:
        case "list":
            show_all(Console())
        case "check":
            return check(given)
        case "keep":
            result = read_result(given.folder)
            folder = FOLDER / result.recipe
            if not folder.is_dir():
                raise unknown("recipe", result.recipe, (path.name for path in FOLDER.iterdir()))
            if given.note:
                result = dataclasses.replace(result, note=given.note)
            print(keep(result, folder).relative_to(ROOT))
        case _:
            return write(only_check=given.check)
    return 0


if __name__ == "__main__":
    sys.path.pop(0)  # modules of this folder must not hide packages
    exit_on_user_error(main)
