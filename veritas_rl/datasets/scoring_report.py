"""Report a scored file of answers as a table or as JSON."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from veritas_rl.datasets.jsonl import Bad
from veritas_rl.datasets.scoring import Part, Scored
from veritas_rl.judging.statistics import Estimate

FIGURE = 8
"""The width of a column of figures that holds the longest part of one, such as "[0.123,"."""

SHOWN = 20
"""How many bad lines are listed."""


def bad_lines(bad: Sequence[Bad]) -> Iterator[str]:
    """The bad lines, one line each, and the number of further bad lines."""
    yield from map(str, bad[:SHOWN])
    if len(bad) > SHOWN:
        yield f"and {len(bad) - SHOWN} more bad lines; --json lists all"


def print_scored(scored: Scored, console: Console) -> None:
    """Print a table: all tasks, each type, and each group."""
    several = scored.all.answers > scored.all.tasks - scored.all.missing
    partial = scored.all.value != scored.all.success
    # On a narrow screen, names are broken anywhere and figures between their parts.
    table = Table(Column("", overflow="fold"))
    for wanted, header in (
        (True, "tasks answered"),
        (several, "answers"),
        (True, scored.answers),
        (True, scored.solved),
        (partial, "mean value"),
        (several, "tasks solved at least once"),
    ):
        if wanted:
            table.add_column(header, min_width=FIGURE)
    for parts in ([scored.all], scored.types, scored.groups):
        for part in parts:
            counts = [f"{part.tasks - part.missing} of {part.tasks}", *([str(part.answers)] if several else [])]
            shown = ((True, part.legal), (True, part.success), (partial, part.value), (several, part.solved))
            estimates = ["" if made is None else str(made) for wanted, made in shown if wanted]
            table.add_row(part.name, *counts, *estimates)
        table.add_section()
    console.print(table)
    reasons = ", ".join(f"{count} {reason}" for reason, count in scored.all.reasons.items())
    console.print(f"{scored.all.answers} answers: {reasons}", highlight=False)
    if scored.missing:
        console.print(
            f"{len(scored.missing)} of {scored.all.tasks} tasks have no answer and do not count in the rates",
            highlight=False,
        )


def as_json(scored: Scored) -> dict[str, Any]:
    return {
        "all": _part(scored.all),
        "types": {part.name: _part(part) for part in scored.types},
        "groups": {part.name: _part(part) for part in scored.groups},
        "missing": list(scored.missing),
        "bad_lines": [{"line": bad.number, "why": bad.why} for bad in scored.bad],
    }


def _part(part: Part) -> dict[str, Any]:
    values = {field.name: getattr(part, field.name) for field in dataclasses.fields(part) if field.name != "name"}
    return {name: dataclasses.asdict(value) if isinstance(value, Estimate) else value for name, value in values.items()}
