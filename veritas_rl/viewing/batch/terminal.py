"""A batch in a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from veritas_rl.viewing.batch.checks import figures, warnings
from veritas_rl.viewing.batch.rows import COLUMNS, Batch, Row, pieces, visible

PROMPT, LEARNED, UNLEARNED = "dim", "green", "magenta"
"""The styles of tokens."""

WIDEST = 300
"""The most columns of a terminal that a token table takes."""


def print_batch(batch: Batch, rows: Sequence[Row], console: Console, *, tokens: bool) -> None:
    """Print the figures of a batch, its warnings, and some of its rows.

    Args:
        batch: The batch.
        rows: The rows to print.
        console: The console.
        tokens: Whether to print a table of the tokens of each reply.
    """
    console.print(Text(visible(batch.title), style="bold"))
    wide = max(len(name) for name, _ in figures(batch))
    for name, said in figures(batch):
        console.print(Text(f"{name:>{wide}}  {visible(said)}"))
    for line in warnings(batch):
        console.print(Text(f"warning: {visible(line)}", style="yellow"))
    console.print(
        Text("tokens: ").append("prompt", PROMPT).append(" learned", LEARNED).append(" not learned", UNLEARNED)
    )
    before: Row | None = None
    for row in rows:
        if before is None or row.group != before.group:
            task = f"group {row.group}: {row.info.get('task_id', 'a task')}" if row.group else "padding"
            console.print(Text(f"\n{visible(task)}", style="bold"))
        _print_row(batch, row, before, console)
        if tokens:
            _print_whole(table(batch, row), console)
        before = row
    if len(rows) < len(batch.rows):
        console.print(
            f"\n{len(rows)} of {len(batch.rows)} rows: --rows {len(batch.rows)} shows all, --group N one group"
        )


def table(batch: Batch, row: Row) -> Table:
    """The tokens of a reply."""
    made = Table(box=None, pad_edge=False)
    columns = [name for name in COLUMNS if name in row.columns]
    for name in ("token", "id", "text", "learned", *(COLUMNS[name] for name in columns)):
        text = name == "text"
        made.add_column(
            name, justify="left" if text else "right", overflow="fold", no_wrap=not text, min_width=12 * text
        )
    for place, text in enumerate(pieces(batch.decode, row.response)):
        style = LEARNED if row.learned[place] else UNLEARNED
        cells = (number(row.columns[name][place]) for name in columns)
        mask = "1" if row.learned[place] else "0"
        made.add_row(str(place + 1), str(row.response[place]), Text(visible(text), style=style), mask, *cells)
    return made


def number(value: float) -> str:
    """A number of a token table."""
    return f"{value:.3g}"


def _print_whole(made: Table, console: Console) -> None:
    """Print a table. A narrow terminal wraps its lines, while a narrow table would lose digits and columns."""
    width = console.width
    console.width = max(width, console.measure(made, options=console.options.update(max_width=WIDEST)).maximum)
    console.print(made, crop=False)
    console.width = width


def _print_row(batch: Batch, row: Row, before: Row | None, console: Console) -> None:
    head = Text(row.where, style="bold")
    for mark in row.marks:
        head.append(f"  [{mark}]", style="yellow")
    console.print(head)
    console.print(Text(visible("  " + "; ".join(f"{name} {said}" for name, said in row.numbers))))
    if before is None or (*before.prompt,) != (*row.prompt,):
        console.print(Text(visible(batch.decode(row.prompt)), style=PROMPT))
    reply = Text()
    for text, learned in zip(pieces(batch.decode, row.response), row.learned, strict=True):
        reply.append(visible(text), style=LEARNED if learned else UNLEARNED)
    console.print(reply)
