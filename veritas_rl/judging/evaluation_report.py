"""The report of an evaluation: a table on the terminal, and report.json, report.html and report.png.

The same evaluation gives the same bytes, except for "times". The page includes its picture and its style, and loads
nothing from a network.
"""

import base64
import dataclasses
import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib
from jinja2 import Environment
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.envs.registry import get_environment
from veritas_rl.judging.evaluation import Evaluation
from veritas_rl.judging.perturbed import PerturbedCheck
from veritas_rl.judging.report import percent
from veritas_rl.judging.statistics import Comparison, Estimate
from veritas_rl.judging.summary import ALL, THRESHOLDS, Row, Versus, describe_divergences, grouped, level_of
from veritas_rl.players.cost import describe

matplotlib.use("Agg")

CAPTION = (
    "95% intervals. The interval of a rate covers Wilson's interval and the bootstrap interval by deal; the interval "
    "of a mean score is the bootstrap interval by deal."
)
CAPTION_OF_ANSWERS = (
    "95% intervals. The interval of a rate covers Wilson's interval and the bootstrap interval by class; the interval "
    "of a mean value is the bootstrap interval by class. A class holds equivalent tasks."
)
SCREEN = 20
"""The maximum number of lines of a printed report; four more lines of a screen are for the paths of its files."""

NOTES = 3
"""The number of notes that a shortened report prints."""

INTERVALS = "95% intervals in brackets"
NEEDED = "games that this difference would need for a power of 80%"


def values_of(evaluation: Evaluation) -> dict[str, Any]:
    """The whole report as plain values."""
    settings = {**dataclasses.asdict(evaluation.settings), "config": dict(evaluation.settings.config)}
    total = _totals(evaluation)
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
    """Write the three files of the report, and return their paths."""
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
    """Render a package's template as a page in the style of all reports."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"percent": percent, "change": change, "p": p_value, "number": _number}
    style = files("veritas_rl.judging").joinpath("report.css").read_text("utf-8")
    return environment.from_string(files(package).joinpath(template).read_text("utf-8")).render(style=style, **values)


def _totals(evaluation: Evaluation) -> list[Row]:
    # The first row of each player and opponent covers all its games.
    return [rows[0] for _, rows in grouped(evaluation.rows, lambda row: (row.player, row.opponent))]


def has_games(evaluation: Evaluation) -> bool:
    """Whether whole games were played; False for single answers."""
    return evaluation.rows[0].wins is not None


def caption_of(evaluation: Evaluation) -> str:
    """A sentence that says how the intervals are computed."""
    return CAPTION if has_games(evaluation) else CAPTION_OF_ANSWERS


def print_report(evaluation: Evaluation, console: Console) -> None:
    """Print the tables and the notes, shortened if they do not fit a screen of `SCREEN` lines.

    The rows of single seats are left out first, then comparisons by game or group, then the tables. The files of
    `write` contain all of them.
    """
    over_seats = [row for row in evaluation.rows if row.seat == ALL]
    choices = (
        _parts_of(evaluation, evaluation.rows),
        _parts_of(evaluation, over_seats),
        _short_parts_of(evaluation, over_seats),
        list(_lines_of_totals(evaluation))[:SCREEN],
    )
    parts, shortened = list[RenderableType](), False
    for number, choice in enumerate(choices):
        parts, shortened = list(choice), number > 0
        if sum(len(console.render_lines(part)) for part in parts) <= SCREEN:
            break
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str), highlight=False)
    if shortened:
        console.print("shortened to fit a screen: report.html has every row, comparison and note", highlight=False)


def _parts_of(evaluation: Evaluation, rows: Sequence[Row]) -> Iterator[RenderableType]:
    """Tables of these rows, every comparison, and every note."""
    label, games = labels_of(evaluation), has_games(evaluation)
    for (player, opponent), inside in grouped(rows, lambda row: (row.player, row.opponent)):
        title = f"{label[player]} against {label[opponent]}" if games else f"{label[player]} on held-out tasks"
        yield _table_of_rows(evaluation, inside, title)
        yield from _lines_of_measures(inside)
    yield INTERVALS
    yield from _lines_of_milestones(evaluation)
    for opponent, found in grouped(evaluation.versus, lambda versus: versus.opponent):
        title = f"{label[found[0].first]} less {label[found[0].second]}"
        yield _table_of_versus(evaluation, found, title + (f", against {label[opponent]}" if games else ""))
    yield from _lines_of_divergences(evaluation)
    yield from _lines_of_perturbed(evaluation)
    yield from (f"note: {note}" for note in evaluation.notes)
    yield from _lines_of_cost(evaluation)


def _short_parts_of(evaluation: Evaluation, rows: Sequence[Row]) -> Iterator[RenderableType]:
    """One table of these rows, one of the comparisons over all games, and the first notes."""
    label, games = labels_of(evaluation), has_games(evaluation)
    named: list[Row] = []
    for (player, opponent), inside in grouped(rows, lambda row: (row.player, row.opponent)):
        name = f"{label[player]} against {label[opponent]}" if games else label[player]
        parts = [dataclasses.replace(row, case=f"  {row.case}") for row in inside[1:]]
        named += [dataclasses.replace(inside[0], case=name), *parts]
    yield _table_of_rows(evaluation, named, "all games" if games else "held-out tasks")
    yield from _lines_of_milestones(evaluation)
    if evaluation.versus:
        found = [
            dataclasses.replace(versus, case=f"against {label[versus.opponent]}" if games else versus.case)
            for versus in _total_versus(evaluation)
        ]
        yield _table_of_versus(evaluation, found, f"{label[found[0].first]} less {label[found[0].second]}")
    yield from _lines_of_divergences(evaluation)
    yield from (f"note: {note}" for note in evaluation.notes[:NOTES])
    yield from _lines_of_cost(evaluation)


def _lines_of_totals(evaluation: Evaluation) -> Iterator[str]:
    """A line for each comparison over all games, for each milestone, and for each player and opponent."""
    environment = get_environment(evaluation.settings.env)
    label, games = labels_of(evaluation), has_games(evaluation)
    for versus in _total_versus(evaluation):
        against = f", against {label[versus.opponent]}" if games else ""
        yield (
            f"{label[versus.first]} less {label[versus.second]}{against}: score {change(versus.score.difference)}, "
            f"p {p_value(versus.score)}; {_divergences(evaluation, versus)}"
        )
    yield from _lines_of_milestones(evaluation)
    for row in _totals(evaluation):
        if games:
            name, success = f"{label[row.player]} against {label[row.opponent]}", f"success {percent(row.success)}"
        else:
            name = label[row.player]
            success = f"{percent(row.legal)} {environment.answers}, {percent(row.success)} {environment.solved}"
        yield f"{name}: score {row.score}, {success}"
    yield from _lines_of_cost(evaluation)


def _total_versus(evaluation: Evaluation) -> list[Versus]:
    # The first comparison of each opponent covers all games.
    return [found[0] for _, found in grouped(evaluation.versus, lambda versus: versus.opponent)]


def _table_of_rows(evaluation: Evaluation, rows: Iterable[Row], title: str) -> Table:
    environment = get_environment(evaluation.settings.env)
    if has_games(evaluation):
        table = _table(title, ("games", "won/drawn/\nlost %", "score", "success %", "illegal/\ntruncated %"))
    else:
        measures = (f"{_wrapped(environment.answers)} %", f"{_wrapped(environment.solved)} %")
        table = _table(title, ("tasks", *measures, "mean value"), "group")
    for row in rows:
        table.add_row(*_cells(row), style="" if row.seat == ALL else "dim")
    return table


def _lines_of_measures(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        if row.measures and row.seat == ALL:
            counted = ", ".join(f"{name} {_number(found)}" for name, found in row.measures.items())
            yield f"{row.case}: {counted}"


def _lines_of_milestones(evaluation: Evaluation) -> Iterator[str]:
    label = labels_of(evaluation)
    for milestone in evaluation.milestones:
        yield (
            f"milestone {milestone.level}: {label[milestone.player]} {milestone.verdict}: success "
            f"{percent(milestone.success)}, more than {100 * milestone.threshold:.0f}% is required"
        )


def _table_of_versus(evaluation: Evaluation, found: Iterable[Versus], title: str) -> Table:
    games = has_games(evaluation)
    columns = ("measure", "difference", "p", f"{'games' if games else 'tasks'} for\n80% power")
    table = _table(title, columns, "game" if games else "group")
    for versus in found:
        for case, what, made in ((versus.case, "score", versus.score), ("", "success", versus.success)):
            table.add_row(case, what, change(made.difference), p_value(made), str(made.values_needed or "-"))
    return table


def _lines_of_divergences(evaluation: Evaluation) -> Iterator[str]:
    label, games = labels_of(evaluation), has_games(evaluation)
    for versus in _total_versus(evaluation):
        line = _divergences(evaluation, versus)
        yield f"against {label[versus.opponent]}: {line}" if games else line


def _divergences(evaluation: Evaluation, versus: Versus) -> str:
    what = "games" if has_games(evaluation) else "tasks"
    return describe_divergences(len(versus.differing), versus.games, what, "report.json")


def _lines_of_perturbed(evaluation: Evaluation) -> Iterator[str]:
    label = labels_of(evaluation)
    for found in evaluation.perturbed:
        yield (
            f"{label[found.player]} on {len(found.plain.classes)} tasks of {found.case}: {_good(found)} "
            f"{percent(found.plain.optimal_rate)} unchanged, {percent(found.other.optimal_rate)} {found.description}, "
            f"difference {change(found.other.gain_over(found.plain))}; legal {percent(found.plain.legal_rate)} "
            f"unchanged, {percent(found.other.legal_rate)} {found.description}"
        )


def _lines_of_cost(evaluation: Evaluation) -> Iterator[str]:
    yield from (describe(row) for row in evaluation.cost)
    values = values_of(evaluation)
    tokens, times = values["tokens"], values["times"]
    what = "games" if has_games(evaluation) else "tasks"
    speed = f"; {evaluation.played} {what} in {evaluation.seconds:.1f} s" if evaluation.played else ""
    rate = f", {times['games_per_second']:.1f} a second" if times["games_per_second"] else ""
    counts = f"{tokens['answers']} answers, {tokens['read']} prompt tokens, {tokens['written']} generated tokens"
    yield f"{counts}{speed}{rate}"


def _wrapped(words: str) -> str:
    return textwrap.fill(words, 14)


def _table(title: str, columns: Sequence[str], first: str = "game") -> Table:
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0)
    )
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
    """Draw the success rates with their intervals and the thresholds of the milestones, as a PNG."""
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
            asked = "threshold of the milestone" if place == 0 else None
            axes.plot([THRESHOLDS[level]] * 2, [place - 0.4, place + 0.4], color="0.4", linestyle="--", label=asked)
    axes.set(xlim=(-0.01, 1.01), ylim=(len(labels) - 0.4, -0.6), xlabel="success rate, 95% interval")
    against = "\nagainst {}" if has_games(evaluation) else ""
    axes.set_yticks(range(len(labels)), [f"{case}{against.format(label[opponent])}" for case, opponent in labels])
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper left", ncols=1, frameon=False)
    # The version of matplotlib is left out, so that the bytes are the same on every machine.
    figure.savefig(path, dpi=130, metadata={"Software": None})


def change(estimate: Estimate) -> str:
    """A difference of means or rates, with its interval."""
    return f"{estimate.mean:+.3f} [{estimate.low:+.3f}, {estimate.high:+.3f}]"


def p_value(comparison: Comparison) -> str:
    """The p-value with four digits."""
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
    """A short name for each name: the last part of a path if it is unique, else the whole name."""
    parts = {name: name if "://" in name else name.rstrip("/").rpartition("/")[2] for name in names}
    taken = list(parts.values())
    return {name: part if taken.count(part) == 1 else name for name, part in parts.items()}
