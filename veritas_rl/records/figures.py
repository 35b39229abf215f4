"""Reads named figures and curves from the files of a run."""

from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from veritas_rl.metrics_file import MetricsFile
from veritas_rl.records.result import Figure, as_figure

LAST = 10
"""The number of newest checkpoints over which the mean of a curve is computed."""

OF_GAMES = {rate: rate for rate in ("score", "success", "wins", "draws", "losses", "legal")}
"""The rates of whole games that become figures, and their names."""

OF_ANSWERS = {"legal": "legal", "success": "optimal", "score": "value"}
"""The rates of single answers that become figures, and their names."""

GAIN = "gain"
"""The last part of the name of a difference between the trained model and the one before."""

OF_POLICIES = ("nash_conv", "optimal_rate", "illegal_mean", "value_seat_0/worst_case", "value_seat_1/worst_case")
"""The metrics of an exact evaluation that become figures."""

PHASES = {"rollout": ("timing_s/gen",), "update": ("timing_s/update_actor", "timing_s/update_critic")}
"""The phases of a training step whose shares of time are kept, and their metrics in seconds."""

Points = list[tuple[int, float]]


def figures_of_run(report: Mapping[str, Any]) -> dict[str, Figure]:
    """The rates in the report.json of a training: `after RL/optimal`, `gain`, and for a mixture `trace/gain`."""
    return dict(_leaves(report, ""))


def _leaves(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Figure]]:
    for name, value in tree.items():
        if (figure := as_figure(value)) is not None:
            yield f"{prefix}{name}", figure
        elif isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}/")


def figures_of_games(report: Mapping[str, Any], name: str, compared: str = "start") -> dict[str, Figure]:
    """The judged player's rates over all seats in the report.json of an evaluation: `NAME/CASE/OPPONENT/score`.

    The rates of a compared player are named `NAME/CASE/OPPONENT/start/score`. `NAME/CASE/OPPONENT/gain` is the judged
    player's score less that of the compared player on the same deals, and `differing` the share of games that differ.
    Single answers have no opponent. Their names are those of a training's report: `NAME/CASE/optimal`, and the gain is
    that of `optimal`.

    Args:
        report: The report.
        name: The evaluation's name in the recipe.
        compared: The name of the compared player.
    """
    found: dict[str, Figure] = {}
    settings = report["settings"]
    # Single answers are neither won nor lost, and a report has single answers alone or whole games alone.
    answers = all(row["wins"] is None for row in report["rows"])
    for row in report["rows"]:
        if row["seat"] != "all":
            continue
        whose = "" if row["player"] == settings["checkpoint"] else f"{compared}/"
        for rate, called in (OF_ANSWERS if answers else OF_GAMES).items():
            if (figure := as_figure(row[rate])) is not None:
                found[f"{_place(row, name, answers)}/{whose}{called}"] = figure
        for measure, value in row["measures"].items():
            if (figure := as_figure(value)) is not None:
                found[f"{_place(row, name, answers)}/{whose}{measure}"] = figure
    for pair in report["comparisons"]:
        where = _place(pair, name, answers)
        if (figure := as_figure(pair["success" if answers else "score"]["difference"])) is not None:
            found[f"{where}/{GAIN}"] = figure
        found[f"{where}/differing"] = {"mean": len(pair["differing"]) / pair["games"]}
    return found


def _place(row: Mapping[str, Any], name: str, answers: bool) -> str:
    return f"{name}/{row['case']}" if answers else f"{name}/{row['case']}/{row['opponent']}"


def figures_of_agreement(found: Mapping[str, Any], name: str) -> dict[str, Figure]:
    """The agreement of a merged model with its base and adapter, see `veritas_rl.checkpoints.agreement`.

    `NAME/same tokens` is the share of places with the same most likely token, and `NAME/logits` the largest difference
    of two logits as a share of what rounding explains.
    """
    return {
        f"{name}/same tokens": {"mean": found["agreeing"] / found["places"]},
        f"{name}/logits": {"mean": found["largest"] / found["tolerance"]},
    }


def figures_of_suite(report: Mapping[str, Any], name: str) -> dict[str, Figure]:
    """The overall score in a suite.json, `NAME/score`, and the score of each case, `NAME/CASE/score`."""
    found = {f"{name}/score": as_figure(report["number"])}
    for case in (*report["games"], *report["answers"]):
        found[f"{name}/{case['name']}/score"] = as_figure(case["score"])
    return {figure: value for figure, value in found.items() if value is not None}


def figures_of_policies(report: Mapping[str, Any], name: str) -> tuple[dict[str, Figure], dict[str, Points]]:
    """The numbers in an exact.json: `NAME/CASE/nash_conv` of the newest checkpoint, and the NashConv of all
    checkpoints by step.

    `NAME/CASE/nash_conv of the last 10` is the mean over the newest 10 checkpoints, if there are as many.
    """
    figures: dict[str, Figure] = {}
    curves: dict[str, Points] = {}
    settings = report["settings"]
    for case, players in report["cases"].items():
        judged = {who: found["metrics"] for who, found in players.items() if "states" in found}
        other = settings["compare"]
        own = [metrics for who, metrics in judged.items() if who != other]
        if not own:
            continue  # only the reference was judged
        for rate in OF_POLICIES:
            figures[f"{name}/{case}/{rate}"] = {"mean": own[-1][rate]}
            if other in judged:
                figures[f"{name}/{case}/start/{rate}"] = {"mean": judged[other][rate]}
        if settings["every_step"]:
            steps = [int(who.rpartition("global_step_")[2]) for who in judged if who != other]
            values = [metrics["nash_conv"] for metrics in own]
            curves[f"{name}/{case}/nash_conv"] = list(zip(steps, values, strict=True))
            if len(values) >= LAST:
                figures[f"{name}/{case}/nash_conv of the last {LAST}"] = {"mean": sum(values[-LAST:]) / LAST}
    return figures, curves


def curves_of(metrics: Path, names: tuple[str, ...]) -> dict[str, Points]:
    """The points of some metrics in a metrics.jsonl. Missing metrics are left out."""
    found: dict[str, Points] = {name: [] for name in names}
    for step, data in MetricsFile(metrics).new():
        for name in names:
            if isinstance(value := data.get(name), int | float) and isfinite(value):
                found[name].append((step, round(float(value), 5)))
    return {name: points for name, points in found.items() if points}


def shares_of(metrics: Path, minutes: float | None) -> dict[str, float]:
    """The share of a training's time in each of `PHASES`. Updates of actor and critic at the same time count twice.

    Args:
        metrics: Its metrics.jsonl.
        minutes: Its minutes from start to end; None for a training without these phases.
    """
    if minutes is None:
        return {}
    seconds = dict.fromkeys(PHASES, 0.0)
    for _, data in MetricsFile(metrics).new():
        for phase, names in PHASES.items():
            seconds[phase] += sum(data.get(name, 0.0) for name in names)
    return {phase: round(spent / 60 / minutes, 3) for phase, spent in seconds.items()}
