"""The report of a suite: tables on the terminal, suite.json, and one HTML page.

The same games give the same bytes, with or without interruptions. The page loads nothing from a network.
"""

import json
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.judging.evaluation_report import render
from veritas_rl.judging.report import percent
from veritas_rl.rating.suite import SuiteResult

FILE = "suite.json"
PAGE = "suite.html"
CAPTION = "Scores in %: a win is 100, a draw 50, in poker the share of the stakes. 95% intervals, resampled by deal."


def print_result(result: SuiteResult, console: Console) -> None:
    """Print the tables."""
    opponents = list(result.games[0].against)
    table = Table(
        "game",
        "score",
        *(f"against {name}" for name in opponents),
        "legal %",
        title=f"{result.suite}: {result.player}",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    for case in result.games:
        against = (percent(case.against[name]) for name in opponents)
        table.add_row(case.name, percent(case.score), *against, f"{100 * case.legal.mean:.0f}")
    console.print(table)
    if result.answers:
        table = Table("single answers", "right", "mean value", "readable %", box=SIMPLE_HEAD)
        for case in result.answers:
            assert case.success is not None
            table.add_row(case.name, percent(case.success), percent(case.score), f"{100 * case.legal.mean:.0f}")
        console.print(table)
    everything = (*result.games, *result.answers)
    if read := sum(case.prompt_tokens for case in everything):
        written = sum(case.tokens for case in everything)
        console.print(f"tokens: {read:,} of prompts, {written:,} generated", highlight=False)
    console.print(CAPTION, style="dim")
    number = result.number
    console.print(f"{result.suite}: {percent(number)}, over {number.count} games", highlight=False, style="bold")


def write(result: SuiteResult, folder: Path) -> list[Path]:
    """Write both files, and return their paths."""
    values = result.values()
    page = render(
        "suite.html.jinja",
        package="veritas_rl.rating",
        result=result,
        opponents=list(result.games[0].against),
        caption=CAPTION,
        read=sum(case.prompt_tokens for case in (*result.games, *result.answers)),
        written=sum(case.tokens for case in (*result.games, *result.answers)),
        asked=sum(case.answers for case in (*result.games, *result.answers)),
    )
    write_whole(folder / FILE, json.dumps(values, indent=1) + "\n")
    write_whole(folder / PAGE, page)
    return [folder / FILE, folder / PAGE]
