"""The report of an evaluation: a table on the terminal, and report.json, report.html and report.png.

The same evaluation gives the same bytes, but for what stands under "times". The page holds its picture and its style,
and asks no other machine for anything.
"""

import base64
import dataclasses
import json
import textwrap
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib
from jinja2 import Environment
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.envs.registry import get_environment
from veritas_rl.judging.evaluation import Evaluation
from veritas_rl.judging.perturbed import PerturbedCheck
from veritas_rl.judging.report import percent
from veritas_rl.judging.statistics import Comparison, Estimate
from veritas_rl.judging.summary import ALL, THRESHOLDS, Row, describe_divergences, grouped, level_of
from veritas_rl.players.cost import describe

matplotlib.use("Agg")

CAPTION = (
    "95% intervals: of a rate the span of Wilson's and of one resampled by deal, of a mean score resampled by deal."
)
CAPTION_OF_ANSWERS = (
    "95% intervals: of a rate the span of Wilson's and of one resampled by class, of a mean value resampled by class. "
    "A class holds the tasks that ask the same."
)
NEEDED = "games that this difference would need for a power of 80%"


def values_of(evaluation: Evaluation) -> dict[str, Any]:
    """The whole report as plain values."""
    settings = {**dataclasses.asdict(evaluation.settings), "config": dict(evaluation.settings.config)}
    # The first row of a player and an opponent is over everything.
    total = {(row.player, row.opponent): row for row in reversed(evaluation.rows) if row.seat == ALL}.values()
    seconds = evaluation.seconds
    return {
        "settings": settings,
        "players": evaluation.players,
        "notes": evaluation.notes,
        "rows": [dataclasses.asdict(row) for row in evaluation.rows],
        "milestones": [dataclasses.asdict(milestone) for milestone in evaluation.milestones],
        "comparisons": [dataclasses.asdict(versus) for versus in evaluation.versus],
        "perturbed": [_perturbed_values(found) for found in evaluation.perturbed],
        "tokens": {
            "read": sum(row.prompt_tokens for row in total),
            "written": sum(row.tokens for row in total),
            "answers": sum(row.moves for row in total),
        },
        "cost": evaluation.cost,
        "times": {
            "seconds": round(seconds, 3),
            "games_played_now": evaluation.played,
            "games_per_second": round(evaluation.played / seconds, 3) if evaluation.played and seconds else None,
        },
    }


def write(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Write the three files of the report, and return where they are."""
    values = values_of(evaluation)
    picture = folder / "report.png"
    draw(evaluation, picture)
    page = render(
        "report.html.jinja",
        evaluation=evaluation,
        label=labels_of(evaluation),
        values=values,
        gains=[(found, found.other.gain_over(found.plain)) for found in evaluation.perturbed],
        games=has_games(evaluation),
        words=get_environment(evaluation.settings.env),
        settings=json.dumps(values["settings"], indent=2),
        picture=base64.b64encode(picture.read_bytes()).decode(),
        caption=caption_of(evaluation),
        needed=NEEDED,
        describe=describe,
    )
    write_whole(folder / "report.json", json.dumps(values, indent=2) + "\n")
    write_whole(folder / "report.html", page)
    return [folder / "report.json", folder / "report.html", picture]


def render(template: str, *, package: str = "veritas_rl.judging", **values: Any) -> str:
    """A page of a package's template, in the style that all reports share."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"percent": percent, "change": change, "p": p_value, "number": _number}
    style = files("veritas_rl.judging").joinpath("report.css").read_text("utf-8")
    return environment.from_string(files(package).joinpath(template).read_text("utf-8")).render(style=style, **values)


def has_games(evaluation: Evaluation) -> bool:
    """Whether whole games were played, and not single answers given."""
    return evaluation.rows[0].wins is not None


def caption_of(evaluation: Evaluation) -> str:
    """What the intervals are."""
    return CAPTION if has_games(evaluation) else CAPTION_OF_ANSWERS


def print_report(evaluation: Evaluation, console: Console) -> None:
    """Print the tables."""
    label = labels_of(evaluation)
    environment = get_environment(evaluation.settings.env)
    games = has_games(evaluation)
    for (player, opponent), rows in grouped(evaluation.rows, lambda row: (row.player, row.opponent)):
        if games:
            columns = ("games", "won/drawn/\nlost %", "score", "success %", "illegal/\ncut %")
            table = _table(f"{label[player]} against {label[opponent]}", columns)
        else:
            measures = (f"{_wrapped(environment.answers)} %", f"{_wrapped(environment.solved)} %")
            table = _table(f"{label[player]} on held-out tasks", ("tasks", *measures, "mean value"), "group")
        for row in rows:
            table.add_row(*_cells(row), style="" if row.seat == ALL else "dim")
        console.print(table)
        for row in rows:
            if row.measures and row.seat == ALL:
                counted = ", ".join(f"{name} {_number(found)}" for name, found in row.measures.items())
                console.print(f"{row.case}: {counted}", highlight=False)
    console.print(caption_of(evaluation), style="dim")
    for milestone in evaluation.milestones:
        console.print(
            f"{milestone.level} (against {', '.join(label[name] for name in milestone.opponents)}): "
            f"success over {milestone.threshold} asked, {percent(milestone.success)} reached by "
            f"{label[milestone.player]}: {milestone.verdict}",
            soft_wrap=True,
            highlight=False,
        )
    for opponent, found in grouped(evaluation.versus, lambda versus: versus.opponent):
        table = _table(
            f"{label[found[0].first]} less {label[found[0].second]}"
            + (f", against {label[opponent]}" if games else ""),
            ("measure", "difference", "p", f"{'games' if games else 'tasks'} for\n80% power"),
            "game" if games else "group",
        )
        for versus in found:
            for case, what, made in ((versus.case, "score", versus.score), ("", "success", versus.success)):
                table.add_row(case, what, change(made.difference), p_value(made), str(made.values_needed or "-"))
        console.print(table)
        for versus in (versus for versus in found if versus.case != ALL):
            line = describe_divergences(versus.case, versus.games, versus.differing)
            console.print(line, soft_wrap=True, highlight=False)
    for found in evaluation.perturbed:
        console.print(
            f"{label[found.player]} on {len(found.plain.classes)} positions of {found.case}: {_good(found)} "
            f"{percent(found.plain.optimal_rate)}, {found.description} {percent(found.other.optimal_rate)}; "
            f"difference {change(found.other.gain_over(found.plain))}, legal {percent(found.plain.legal_rate)} and "
            f"{percent(found.other.legal_rate)}",
            soft_wrap=True,
            highlight=False,
        )
    for note in evaluation.notes:
        console.print(f"note: {note}", soft_wrap=True, highlight=False)
    for row in evaluation.cost:
        console.print(describe(row), soft_wrap=True, highlight=False)
    values = values_of(evaluation)
    tokens, times = values["tokens"], values["times"]
    what = "games" if games else "tasks"
    speed = f"; {evaluation.played} {what} in {evaluation.seconds:.1f} s" if evaluation.played else ""
    console.print(
        f"{tokens['answers']} answers, {tokens['read']} tokens read, {tokens['written']} written{speed}"
        + (f", {times['games_per_second']:.1f} a second" if times["games_per_second"] else ""),
        highlight=False,
    )


def _wrapped(words: str) -> str:
    """A column's head, a few words a line."""
    return textwrap.fill(words, 14)


def _table(title: str, columns: Sequence[str], first: str = "game") -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _cells(row: Row) -> tuple[str, ...]:
    score = f"{row.score.mean:.2f} [{row.score.low:.2f}, {row.score.high:.2f}]"
    if not (row.wins and row.draws and row.losses):
        return row.case, str(row.games), _rate(row.legal), _rate(row.success), score
    ends = "/".join(map(_whole_percent, (row.wins, row.draws, row.losses)))
    mistakes = f"{_whole_percent(row.illegal)}/{_whole_percent(row.truncated)}"
    name = row.case if row.seat == ALL else f"  seat {row.seat}"
    return name, str(row.games), ends, score, _rate(row.success), mistakes


def _number(found: Estimate) -> str:
    return f"{found.mean:,.1f} [{found.low:,.1f}, {found.high:,.1f}]"


def _whole_percent(share: Estimate) -> str:
    return f"{100 * share.mean:.0f}"


def _rate(share: Estimate) -> str:
    return f"{100 * share.mean:.0f} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def draw(evaluation: Evaluation, path: Path) -> None:
    """Draw the success rates with their intervals, and what the milestones ask for, as a PNG."""
    from matplotlib.figure import Figure

    label = labels_of(evaluation)
    rows = [row for row in evaluation.rows if row.seat == ALL]
    labels = list(dict.fromkeys((row.case, row.opponent) for row in rows))
    players = list(evaluation.players)
    figure = Figure(figsize=(8, 1.5 + 0.6 * len(labels) + 0.25 * len(players)), layout="constrained")
    axes = figure.subplots()
    for number, player in enumerate(players):
        shift = 0.18 * (number - (len(players) - 1) / 2)
        mine = [row for row in rows if row.player == player]
        rates = [row.success for row in mine]
        ends = [[rate.mean - rate.low for rate in rates], [rate.high - rate.mean for rate in rates]]
        places = [labels.index((row.case, row.opponent)) + shift for row in mine]
        axes.errorbar([rate.mean for rate in rates], places, xerr=ends, fmt="o", capsize=3, label=label[player])
    for place, (_, opponent) in enumerate(labels):
        level = level_of(opponent, evaluation.settings.env)
        if level is not None:
            asked = "what the milestone asks for" if place == 0 else None
            axes.plot([THRESHOLDS[level]] * 2, [place - 0.4, place + 0.4], color="0.4", linestyle="--", label=asked)
    axes.set(xlim=(-0.01, 1.01), ylim=(len(labels) - 0.4, -0.6), xlabel="success rate, 95% interval")
    against = "\nagainst {}" if has_games(evaluation) else ""
    axes.set_yticks(range(len(labels)), [f"{case}{against.format(label[opponent])}" for case, opponent in labels])
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper left", ncols=1, frameon=False)
    # Without the version of the library, which would differ from machine to machine.
    figure.savefig(path, dpi=130, metadata={"Software": None})


def change(estimate: Estimate) -> str:
    """A difference of means or rates, with its interval."""
    return f"{estimate.mean:+.3f} [{estimate.low:+.3f}, {estimate.high:+.3f}]"


def p_value(comparison: Comparison) -> str:
    """The p-value, as it is printed."""
    return f"{comparison.p_value:.4f}"


def _good(found: PerturbedCheck) -> str:
    return found.plain.solved if found.other.exact else found.other.solved


def _perturbed_values(found: PerturbedCheck) -> dict[str, Any]:
    return {
        "player": found.player,
        "case": found.case,
        "perturbation": found.perturbation,
        "positions": len(found.plain.classes),
        "exact": found.plain.exact and found.other.exact,
        "plain": {name: dataclasses.asdict(made) for name, made in _rates(found.plain)},
        "other": {name: dataclasses.asdict(made) for name, made in _rates(found.other)},
        "difference": dataclasses.asdict(found.other.gain_over(found.plain)),
    }


def _rates(judgement: Any) -> Sequence[tuple[str, Estimate]]:
    return (("legal", judgement.legal_rate), ("good", judgement.optimal_rate))


def labels_of(evaluation: Evaluation) -> dict[str, str]:
    """A short name for each player and opponent."""
    return short_names([*evaluation.players, *(row.opponent for row in evaluation.rows)])


def short_names(names: Iterable[str]) -> dict[str, str]:
    """A short name for each: the last part of a folder's path, where these differ."""
    parts = {name: name if "://" in name else name.rstrip("/").rpartition("/")[2] for name in names}
    taken = list(parts.values())
    return {name: part if taken.count(part) == 1 else name for name, part in parts.items()}
