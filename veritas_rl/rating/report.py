"""The report of a tournament: tables on the terminal, and ratings.json, cross_table.html and cross_table.png.

The same games give the same bytes, with or without interruptions. The page includes its picture and its style, and
loads nothing from a network.
"""

import base64
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.judging.evaluation_report import render, short_names
from veritas_rl.judging.statistics import Estimate
from veritas_rl.judging.summary import ALL
from veritas_rl.players.cost import describe
from veritas_rl.rating.cross_table import CrossTable, Match
from veritas_rl.rating.tournament import Tournament

matplotlib.use("Agg")

CAPTION = (
    "Ratings by the model of Bradley and Terry, mean 1500; 400 points ahead score 10 to 1. 95% intervals cover the "
    "bootstrap interval by deal and the interval of the likelihood."
)
COLOURS = "RdBu"


def values_of(tournament: Tournament) -> dict[str, Any]:
    """The whole report as plain values."""
    return {
        "settings": tournament.settings.played(),
        "players": tournament.players,
        "notes": tournament.notes,
        "cost": tournament.cost,
        "tables": [
            {
                "case": table.case,
                "standings": [
                    {**dataclasses.asdict(standing), "points": standing.points} for standing in table.standings
                ],
                "matches": [dataclasses.asdict(match) for match in table.matches.values()],
            }
            for table in tournament.tables
        ],
    }


def write(tournament: Tournament, folder: Path) -> list[Path]:
    """Write the three files of the report, and return their paths."""
    values = values_of(tournament)
    picture = folder / "cross_table.png"
    draw(tournament, picture)
    page = render(
        "tournament.html.jinja",
        package="veritas_rl.rating",
        tournament=tournament,
        label=short_names(tournament.players),
        settings=json.dumps(values["settings"], indent=2),
        picture=base64.b64encode(picture.read_bytes()).decode(),
        caption=CAPTION,
        describe=describe,
        rating=rating,
        share=share,
        colour=colour,
    )
    write_whole(folder / "ratings.json", json.dumps(values, indent=2) + "\n")
    write_whole(folder / "cross_table.html", page)
    return [folder / "ratings.json", folder / "cross_table.html", picture]


def print_report(tournament: Tournament, console: Console) -> None:
    """Print the tables."""
    label = short_names(tournament.players)
    for table in tournament.tables:
        console.print(_standings(table, label))
        console.print(_scores(table, label))
    console.print(CAPTION, style="dim")
    for note in tournament.notes:
        console.print(f"note: {note}", soft_wrap=True, highlight=False)
    for row in tournament.cost:
        console.print(describe(row), soft_wrap=True, highlight=False)
    if tournament.played:
        console.print(f"{tournament.played} games in {tournament.seconds:.1f} s", highlight=False)


def _standings(table: CrossTable, label: dict[str, str]) -> Table:
    shown = _table(_title(table), ("rating", "won/drawn/lost", "own mistakes"))
    for place, standing in enumerate(table.standings):
        shown.add_row(
            str(place + 1),
            label[standing.player],
            rating(standing.rating),
            f"{standing.wins}/{standing.draws}/{standing.losses}",
            str(standing.mistakes),
        )
    return shown


def _scores(table: CrossTable, label: dict[str, str]) -> Table:
    places = [str(place + 1) for place in range(len(table.standings))]
    shown = _table("score against each, in %", places)
    for place, standing in zip(places, table.standings, strict=True):
        matches = (table.matches.get((standing.player, other.player)) for other in table.standings)
        shown.add_row(
            place, label[standing.player], *(f"{100 * match.score.mean:.0f}" if match else "-" for match in matches)
        )
    return shown


def _table(title: str, columns: Sequence[str]) -> Table:
    shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    shown.add_column("", justify="right", no_wrap=True)
    shown.add_column("player", overflow="fold", min_width=8)
    for name in columns:
        shown.add_column(name, justify="right", no_wrap=True)
    return shown


def draw(tournament: Tournament, path: Path) -> None:
    """Draw the ratings with their intervals, and the cross table beside them, as a PNG."""
    from matplotlib.figure import Figure

    label = short_names(tournament.players)
    table = tournament.tables[0]
    standings, count = table.standings, len(table.standings)
    figure = Figure(figsize=(6 + 0.9 * count, 1.8 + 0.6 * count), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(4, 0.9 * count))
    ratings = [standing.rating for standing in standings]
    ends = [[found.mean - found.low for found in ratings], [found.high - found.mean for found in ratings]]
    left.errorbar([found.mean for found in ratings], range(count), xerr=ends, fmt="o", capsize=3)
    left.set(xlabel="rating, 95% interval", ylim=(count - 0.5, -0.5))
    left.set_yticks(range(count), [f"{label[one.player]}  {place + 1}" for place, one in enumerate(standings)])
    left.tick_params(axis="y", length=0)
    left.grid(axis="x", alpha=0.3)
    left.spines[["top", "right", "left"]].set_visible(False)
    scores = np.full((count, count), np.nan)
    for row, one in enumerate(standings):
        for column, other in enumerate(standings):
            if match := table.matches.get((one.player, other.player)):
                scores[row, column] = match.score.mean
                dark = abs(match.score.mean - 0.5) > 0.3
                right.annotate(
                    share(match), (column, row), ha="center", va="center", color="white" if dark else "black"
                )
    right.imshow(scores, cmap=COLOURS, vmin=0, vmax=1, aspect="auto")
    right.set(xlabel="score against each in %")
    right.set_xticks(range(count), [str(place + 1) for place in range(count)])
    right.tick_params(length=0)
    right.spines[:].set_visible(False)
    figure.suptitle(_title(table), x=0.01, ha="left", fontsize="medium")
    # The version of matplotlib is left out, so that the bytes are the same on every machine.
    figure.savefig(path, dpi=130, metadata={"Software": None})


def rating(estimate: Estimate) -> str:
    """A rating with its interval, in whole points."""
    return f"{estimate.mean:.0f} [{estimate.low:.0f}, {estimate.high:.0f}]"


def share(match: Match) -> str:
    """The mean score of a match, in percent."""
    return f"{100 * match.score.mean:.1f}"


def colour(match: Match) -> str:
    """The CSS background of a match: the colour of the picture, paler, so that dark text is readable."""
    red, green, blue, _ = matplotlib.colormaps[COLOURS](match.score.mean)
    return f"rgb({' '.join(f'{255 * (0.4 + 0.6 * part):.0f}' for part in (red, green, blue))})"


def _title(table: CrossTable) -> str:
    games = sum(standing.games for standing in table.standings) // 2
    return f"{'all games' if table.case == ALL else table.case}, {games} played"
