"""A batch as one HTML page without a script. Text of a model is escaped."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from veritas_rl.viewing.batch.checks import figures, warnings
from veritas_rl.viewing.batch.rows import COLUMNS, Batch, Row, pieces, visible
from veritas_rl.viewing.batch.terminal import number
from veritas_rl.viewing.page import render_page


def render(batch: Batch, rows: Sequence[Row], *, tokens: bool) -> str:
    """The page as HTML.

    Args:
        batch: The batch.
        rows: The rows to show.
        tokens: Whether to add a table of the tokens of each reply.
    """
    groups = [
        {
            "name": f"group {number}: {visible(str(members[0].info.get('task_id', 'a task')))}"
            if number
            else "padding",
            "rows": [_row(batch, row, tokens=tokens) for row in members],
        }
        for number, members in ((number, [*rows]) for number, rows in groupby(rows, lambda row: row.group))
    ]
    return render_page(
        "batch/batch.html.jinja",
        scripts=(),
        styles=("page.css", "batch/batch.css"),
        title=visible(batch.title),
        figures=[(name, visible(said)) for name, said in figures(batch)],
        warnings=[visible(line) for line in warnings(batch)],
        groups=groups,
        shown=len(rows),
        saved=len(batch.rows),
    )


def _row(batch: Batch, row: Row, *, tokens: bool) -> dict[str, Any]:
    columns = [name for name in COLUMNS if name in row.columns]
    texts = [visible(text) for text in pieces(batch.decode, row.response)]
    cells = [[number(row.columns[name][place]) for name in columns] for place in range(len(texts))]
    names = [COLUMNS[name] for name in columns]
    reply = [
        {
            "place": place + 1,
            "id": row.response[place],
            "text": text,
            "learned": row.learned[place],
            "cells": cells[place],
            "hint": ", ".join(
                [
                    f"token {place + 1}",
                    f"id {row.response[place]}",
                    *(f"{name} {cell}" for name, cell in zip(names, cells[place], strict=True)),
                ]
            ),
        }
        for place, text in enumerate(texts)
    ]
    return {
        "where": row.where,
        "marks": row.marks,
        "numbers": [(name, visible(said)) for name, said in row.numbers],
        "prompt": visible(batch.decode(row.prompt)),
        "reply": reply,
        "columns": names,
        "table": tokens,
    }
