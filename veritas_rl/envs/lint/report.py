"""The printed report: a table of all rows, and each finding with its task and a short quotation."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from veritas_rl.envs.lint.findings import Row, Verdict

MOST_SHOWN = 3
"""The most findings of one row that are printed."""

_STYLES = {Verdict.OK: "green", Verdict.FINDING: "bold red", Verdict.NOT_APPLICABLE: "dim"}


def table_of(rows: Sequence[Row]) -> Table:
    """A table with a row for each case and check."""
    table = Table(title="reward linter", title_justify="left")
    table.add_column("case", overflow="fold")
    table.add_column("check", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("checked, or why not", overflow="fold")
    previous = None
    for row in rows:
        if previous not in (None, row.case):
            table.add_section()
        remark = f"{len(row.findings)} findings in {row.remark}" if row.findings else row.remark
        verdict = f"[{_STYLES[row.verdict]}]{row.verdict}[/]"
        table.add_row("" if row.case == previous else escape(row.case), row.check, verdict, escape(remark))
        previous = row.case
    return table


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the table, the findings and their number."""
    console.print(table_of(rows))
    for row in rows:
        for finding in row.findings[:MOST_SHOWN]:
            where = finding.task or row.case
            console.print(f"{row.check}: {where}: {finding.text}", style="red", markup=False, soft_wrap=True)
        if len(row.findings) > MOST_SHOWN:
            more = f"{row.check}: {row.case}: and {len(row.findings) - MOST_SHOWN} more"
            console.print(more, style="red", markup=False, soft_wrap=True)
    found = sum(len(row.findings) for row in rows)
    cases = len({row.case for row in rows} - {"all"})
    console.print(f"{found} findings in {cases} cases" if found else f"no findings in {cases} cases", highlight=False)
