"""The pages of recipes' results: a part of each recipe's README.md, its curve, docs/results.md, and a table of recipes.

All of them are generated from the files in `train/recipes/*/results`.
"""

import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean

from veritas_rl.errors import UserError
from veritas_rl.records import exploitability
from veritas_rl.records.description import Description, Form
from veritas_rl.records.result import Result, nearest_kind, origin, results_in, without_departures
from veritas_rl.records.verdict import shown

CURVE = "curve.png"
BEGIN = "<!-- from results/: python train/tools/recipes.py write -->"
END = "<!-- end of what is from results/ -->"
NOT_RUN = "has not run on its hardware"
"""The words in the first line of the README of a recipe without a kept run."""

FAILURE = "What failure looks like"
"""The heading of the section of a recipe's README on failure."""

SCRIPTS = {"rl": "openspiel-ppo-trainer.sh", "sft": "openspiel-SFT-trainer.sh"}
"""The script in train/scripts that runs a recipe, by its trainer."""

ROWS = 8
"""The maximum number of steps in the table of metrics by step."""

PAGE_HEAD = """# Results

Each recipe is linked to its page, which has the command, the dates, the machine, the minutes, the curves, and what was
tried with other settings. Values stand beside their seeds, with 95% intervals in brackets. `after RL/optimal` is the
share of held-out tasks that succeed after RL, `after RL/legal` the share of answers that can be read, and `gain` what
RL added since the warm-up. A repeated run must reach the *expected* range:

```bash
python train/tools/recipes.py list             # the recipes and their kept seeds
python train/tools/recipes.py check NAME       # run a recipe and compare its figures with the expected ranges
python train/tools/recipes.py write            # write this page and the recipes' pages from train/recipes/*/results
```

Each result has two digests: one of the recipe's settings as they resolve, with all defaults, and one of the tasks that
these settings give. A run with *earlier settings* is from before a change of the settings, wherever it was made. A run
with *other tasks* is from before a change of the prompts, the answers or the split. An expected range that comes only
from such runs says so, and confirms no run.

[settings/recipes.md](settings/recipes.md) says what each recipe trains.
[games/what_two_cores_learn.md](games/what_two_cores_learn.md) has the default command on ten games, and
[leaderboard.md](leaderboard.md) compares players by one suite.
"""


def read_all(
    folder: Path, describe: Callable[[Path], Description | None]
) -> dict[Path, tuple[Description, list[Result]]]:
    """Each recipe with a description, and its kept results.

    Args:
        folder: The folder of the recipes.
        describe: Reads the description of a recipe's folder; None if it has none.

    Raises:
        UserError: A file is damaged.
    """
    found: dict[Path, tuple[Description, list[Result]]] = {}
    for config in sorted(folder.glob("*/config.yaml")):
        description = describe(config.parent)
        if description is not None:
            found[config.parent] = (description, results_in(config.parent))
    return found


def has_run(results: Sequence[Result]) -> bool:
    """Whether a run of the recipe, in its present or an earlier form, is kept."""
    return any(not result.departures for result in results)


def readme_part(description: Description, results: Sequence[Result], forecast: str = "") -> str:
    """The generated part of a recipe's README, in Markdown.

    Args:
        description: The recipe.
        results: The recipe's kept results.
        forecast: The forecast of memory and time; "" for no forecast.
    """
    parts: list[str] = [forecast] if forecast else []
    for form in _forms(description):
        runs = without_departures(results, form)
        if not runs:
            continue
        if form == "short":
            parts.append("The short form, `python train/tools/recipes.py check NAME --short`:")
        parts += [_figures_table(runs, _bands(description, results, form), description), _costs(runs)]
        if form == "whole":
            parts += _steps_table(runs)
    if tried := [result for result in results if result.departures]:
        parts += ["Tried, with other settings:", _tried(tried, description)]
    return "\n\n".join(parts) if parts else "No run is kept."


def _forms(description: Description) -> tuple[Form, ...]:
    return ("whole", "short") if description.short else ("whole",)


def _figures_table(runs: Sequence[Result], bands: Mapping[str, str], description: Description) -> str:
    names = list(bands) or _all_figures(runs)
    heads = [_seed(run, description) for run in runs]
    lines = [_row(["figure", *heads, "expected"]), _row(["---"] * (len(runs) + 2))]
    for name in names:
        cells = [shown(run.figures[name]) if name in run.figures else "" for run in runs]
        lines.append(_row([name, *cells, bands.get(name, "")]))
    return "\n".join(lines)


def _seed(run: Result, description: Description) -> str:
    """The seed of a run, and what has changed in the recipe since."""
    return _with_remark(f"seed {run.seed}", run.remark(description))


def _with_remark(text: str, remark: str) -> str:
    return f"{text}, {remark}" if remark else text


def _bands(description: Description, results: Sequence[Result], form: Form) -> dict[str, str]:
    """The band of each figure, and what has changed in the recipe since the runs from which it comes."""
    return {
        name: _with_remark(f"[{low:g}, {high:g}]", origin(name, description, results, form))
        for name, (low, high) in description.expected_of(form).items()
    }


def _all_figures(runs: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in run.figures))


def _costs(runs: Sequence[Result]) -> str:
    lines = []
    for run in runs:
        minutes = "".join(f", {name} {spent:.1f} minutes" for name, spent in run.minutes.items())
        parts = ", ".join(f"{share:.0%} {phase}" for phase, share in run.shares.items())
        minutes += f"; of RL's minutes {parts}" if parts else ""
        memory = f", {run.memory:.1f} GiB of memory" if run.memory else ""
        note = f"; {run.note}" if run.note else ""
        lines.append(f"- seed {run.seed}: {run.date}, {run.machine}{memory}{minutes}{note}")
    return "\n".join(lines)


def _steps_table(runs: Sequence[Result]) -> list[str]:
    """The mean over seeds of each curve at some steps, with the lowest and the highest value."""
    curves = list(dict.fromkeys(name for run in runs for name in run.curves))
    if not curves:
        return []
    steps = sorted({step for run in runs for name in curves for step, _ in run.curves.get(name, ())})
    chosen = (
        [steps[round(place * (len(steps) - 1) / (ROWS - 1))] for place in range(ROWS)] if len(steps) > ROWS else steps
    )
    lines = [_row(["step", *curves]), _row(["---"] * (len(curves) + 1))]
    for step in dict.fromkeys(chosen):
        cells = []
        for name in curves:
            values = [value for run in runs for at, value in run.curves.get(name, ()) if at == step]
            spread = f" [{min(values):.3g}, {max(values):.3g}]" if len(values) > 1 else ""
            cells.append(f"{mean(values):.3g}{spread}" if values else "")
        lines.append(_row([str(step), *cells]))
    seeds = len({run.seed for run in runs if run.curves})
    how = f"mean, least and greatest over {seeds} seeds" if seeds > 1 else "one seed"
    return [f"By training step ({how}):", "\n".join(lines), f"![Curves over the training steps]({CURVE})"]


def _tried(runs: Sequence[Result], description: Description) -> str:
    names = list(description.expected) or _all_figures(runs)
    lines = []
    for run in runs:
        found = ", ".join(f"{name} {shown(run.figures[name])}" for name in names if name in run.figures) or "no figure"
        note = f" {run.note}" if run.note else ""
        head = _with_remark(f"seed {run.seed}, {run.date}", run.remark(description))
        lines.append(f"- {head}: {'; '.join(map(_code, run.departures))}: {found}.{note}")
    return "\n".join(lines)


def _code(text: str) -> str:
    return html.escape(text, quote=False)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def with_part(page: str, part: str, path: str) -> str:
    """A page with its generated part replaced.

    Raises:
        UserError: The page, which is in the file `path`, has no place for the generated part.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"{path} has no place for its results; add the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{part}\n\n{END}{after}"


def check_first_line(readme: str, name: str, results: Sequence[Result]) -> None:
    """Check that the first line of a README states correctly whether the recipe has a kept run.

    Raises:
        UserError: The first line is wrong.
    """
    first = readme.partition("\n")[0]
    if has_run(results) == (NOT_RUN in first):
        should = "no longer" if has_run(results) else "first"
        raise UserError(f"train/recipes/{name}/README.md: its first line must {should} say that it {NOT_RUN}")


def results_page(recipes: Mapping[Path, tuple[Description, list[Result]]]) -> str:
    """docs/results.md."""
    rows, waiting, named = [], [], {}
    for folder, (description, results) in recipes.items():
        link = f"[{folder.name}]({_page_of(folder)})"
        named[link] = {_seed(run, description): run for run in without_departures(results, "whole")}
        if not has_run(results):
            waiting.append(link)
        for form in _forms(description):
            runs, bands = without_departures(results, form), _bands(description, results, form)
            for name in list(bands) or _all_figures(runs):
                having = [run for run in runs if name in run.figures]
                values = [f"{shown(run.figures[name])} ({_seed(run, description)})" for run in having]
                short = ", short form" if form == "short" else ""
                rows += [_row([link, f"{name}{short}", "; ".join(values), bands.get(name, "")])] if values else []
    table = "\n".join([_row(["recipe", "figure", "kept runs", "expected"]), _row(["---"] * 4), *rows])
    missing = f"\nNot run yet: {', '.join(waiting)}.\n" if waiting else ""
    return f"{PAGE_HEAD}\n{table}\n{missing}{exploitability.section(named)}"


def recipes_table(
    recipes: Mapping[Path, tuple[Description, list[Result]]], forecasts: Mapping[Path, tuple[float, float]]
) -> str:
    """The table of all recipes in docs/training.md, in Markdown.

    Args:
        recipes: The recipes with their kept results, by folder.
        forecasts: The forecast minutes, and the forecast GiB of a GPU, of recipes without a kept run.
    """
    heads = ["recipe", "script", "hardware", "minutes", "memory", "figures to expect", "failure"]
    lines = [_row(heads), _row(["---"] * len(heads))]
    for folder, (description, results) in recipes.items():
        runs = nearest_kind(results, description, "whole")
        machines = "; ".join(dict.fromkeys(run.machine for run in runs))
        if runs:
            measured = [run for run in runs if run.minutes]
            minutes = _range([sum(run.minutes.values()) for run in measured])
            minutes = _with_remark(minutes, measured[0].remark(description) if measured else "")
            memory = _range([run.memory for run in runs if run.memory is not None], " GiB")
        elif folder in forecasts:
            minutes, memory = f"{forecasts[folder][0]:.0f}, forecast", f"{forecasts[folder][1]:.1f} GiB, forecast"
        else:
            minutes = memory = "not measured" if has_run(results) else "not run"
        bands = "; ".join(f"{name} {band}" for name, band in _bands(description, results, "whole").items())
        described = f"## {FAILURE}\n" in (folder / "README.md").read_text(encoding="utf-8")
        anchor = FAILURE.lower().replace(" ", "-")
        lines.append(
            _row(
                [
                    f"[{folder.name}]({_page_of(folder)})",
                    f"`{SCRIPTS[description.trainer]}`",
                    f"`{description.hardware}`" + (f": {machines}" if machines else ""),
                    minutes,
                    memory,
                    bands or "not measured",
                    f"[its page]({_page_of(folder)}#{anchor})" if described else "[metrics](#metrics)",
                ]
            )
        )
    return "\n".join(lines)


def _page_of(folder: Path) -> str:
    return f"../train/recipes/{folder.name}/README.md"


def _range(values: Sequence[float], unit: str = "") -> str:
    ends = dict.fromkeys(f"{end:.1f}" for end in (min(values), max(values))) if values else {}
    return f"{' to '.join(ends)}{unit}" if ends else "not measured"


def draw_curve(path: Path, results: Sequence[Result], description: Description) -> bool:
    """Draw the curves of a recipe's runs in the form "whole" as a PNG: a panel per metric, and a line per seed.

    These are runs of the unchanged recipe; without any, those from before its last change, with a remark.

    Returns:
        Whether there is a curve.
    """
    runs = [run for run in nearest_kind(results, description, "whole") if run.curves]
    if not runs:
        return False
    # Imported late, because the import takes a second and listing recipes does not need it.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for run in runs for name in run.curves))
    figure = Figure(figsize=(4.2 * len(names), 3.4), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for run in runs:
            points = run.curves.get(name, ())
            axes.plot(
                [step for step, _ in points],
                [value for _, value in points],
                linewidth=1,
                label=_seed(run, description),
            )
        axes.set(title=name, xlabel="training step")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    # The version of matplotlib is left out, so that the bytes are the same on every machine.
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return True
