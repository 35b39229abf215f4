"""The report at the end of a run: a table of rates with intervals, and a picture of the learning curve."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from rich.table import Table

from veritas_rl.judging.held_out import Judgement
from veritas_rl.judging.statistics import Estimate

matplotlib.use("Agg")


def percent(estimate: Estimate) -> str:
    """An estimate of a rate, as a percentage with its 95% interval."""
    return f"{100 * estimate.mean:.1f}%  [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def measure_of(judgements: Mapping[str, Judgement]) -> str:
    """What `Judgement.optimal_rate` counts, in the environment's words: those for an estimate if any value is one."""
    by_exactness = sorted(judgements.values(), key=lambda judgement: judgement.exact)
    return by_exactness[0].solved


def table_of(judgements: Mapping[str, Judgement], title: str) -> Table:
    """A table with a row for each player: its rates and mean value, with 95% intervals resampled by class."""
    table = Table(title=title, title_justify="left", caption="95% intervals, resampled by symmetry class")
    table.add_column("player")
    table.add_column(next(iter(judgements.values())).answers, justify="right")
    table.add_column(measure_of(judgements), justify="right")
    table.add_column("mean value", justify="right")
    custom = any(judgement.custom for judgement in judgements.values())
    if custom:
        table.add_column("custom reward", justify="right")
    for name, judgement in judgements.items():
        rewards = [str(judgement.mean_custom or "")] if custom else []
        table.add_row(name, *map(percent, _rates(judgement)), *rewards)
    return table


def cases_table(
    judgements: Mapping[str, Judgement], players: Mapping[str, Sequence[Judgement]], gains: Mapping[str, Estimate]
) -> Table:
    """A table with a row for each case: the share of solved tasks of each player, and the gain.

    Args:
        judgements: The judgements of all cases together, by player.
        players: For each case the judgement of each player, in the same order.
        gains: The gain of each case.
    """
    table = Table(title=f"{measure_of(judgements)} by case", title_justify="left")
    table.add_column("case", overflow="fold")
    table.add_column("tasks", justify="right")
    for name in judgements:
        table.add_column(name, justify="right")
    table.add_column("gain", justify="right")
    for case, of_case in players.items():
        solved = [f"{judgement.optimal_rate.mean:.1%}" for judgement in of_case]
        table.add_row(case, str(len(of_case[-1].classes)), *solved, percent(gains[case]))
    return table


def _rates(judgement: Judgement) -> tuple[Estimate, ...]:
    return judgement.legal_rate, judgement.optimal_rate, judgement.mean_value


def draw_level(axes: Any, name: str, level: float) -> None:
    """Draw a named horizontal reference line."""
    axes.axhline(level, color="0.4", linestyle="--", linewidth=1)
    axes.annotate(
        name, (1.0, level), xycoords=("axes fraction", "data"), ha="right", va="bottom", color="0.3", fontsize=9
    )


def draw_learning_curve(
    path: Path, steps: Sequence[int], curves: Mapping[str, Sequence[float]], levels: Mapping[str, float]
) -> None:
    """Draw metrics of a run against its training steps, as a PNG.

    Args:
        path: The PNG file.
        steps: The training step of each point.
        curves: The points of each curve by its name, as rates in [0, 1]; NaN for a missing point.
        levels: The heights of horizontal reference lines, by name.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, points in curves.items():
        there = [(step, value) for step, value in zip(steps, points, strict=True) if not math.isnan(value)]
        at, values = [step for step, _ in there], [value for _, value in there]
        (line,) = axes.plot(at, values, alpha=0.25, linewidth=1)
        axes.plot(at, smoothed(values), color=line.get_color(), linewidth=2, label=name)
    for name, level in levels.items():
        draw_level(axes, name, level)
    axes.set(xlabel="training step", ylabel="mean over the batch", ylim=(0, 1.03))
    axes.margins(x=0.01)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=150)


def smoothed(values: Sequence[float], weight: float = 0.8) -> list[float]:
    """An exponential moving average with bias correction (Kingma and Ba 2015, section 3)."""
    average, total, result = 0.0, 0.0, []
    for value in values:
        average = weight * average + (1 - weight) * value
        total = weight * total + (1 - weight)
        result.append(average / total)
    return result
