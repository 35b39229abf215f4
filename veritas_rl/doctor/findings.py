"""The findings of checks, and their table."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "warning", "fault", "skipped"]


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    Attributes:
        check: The check's name, such as "shared memory".
        state: "ok", "warning" if a run may still work, "fault" if a run cannot work, or "skipped".
        found: A description in one line.
        mend: What to type or to change; empty if nothing is wrong.
    """

    check: str
    state: State
    found: str
    mend: str = ""


def ok(check: str, found: str) -> Finding:
    """A finding without a fault."""
    return Finding(check, "ok", found)


def refused(check: str, message: str) -> Finding:
    """Turn a `UserError` into a fault: the text before the last colon, and what to type after it."""
    found, _, mend = message.rpartition(": ")
    return Finding(check, "fault", found or message, mend if found else "")


def collect(checks: Iterable[tuple[str, Callable[[], Iterable[Finding]]]]) -> Iterator[Finding]:
    """Run checks one after another.

    Args:
        checks: Names and checks. A `UserError` becomes a fault. Any other exception becomes a warning, because it is an
            error of the check.
    """
    from veritas_rl.errors import UserError

    for name, check in checks:
        try:
            yield from check()
        except UserError as error:
            yield refused(name, " ".join(str(error).split()))
        except Exception as error:
            yield Finding(name, "warning", f"the check failed ({type(error).__name__}: {error})")


def as_json(findings: Iterable[Finding]) -> str:
    """One JSON object with the findings and the numbers of faults and warnings."""
    listed = list(findings)
    counts = {f"{state}s": sum(one.state == state for one in listed) for state in ("fault", "warning")}
    return json.dumps({**counts, "findings": [asdict(one) for one in listed]})


COLORS = {"ok": "green", "warning": "yellow", "fault": "bold red", "skipped": "dim"}


def print_table(findings: Iterable[Finding]) -> None:
    """Print a table with one row per finding."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    table = Table("check", "state", "found", "what to do", show_lines=False)
    for one in findings:
        # As `Text`, because square brackets in a message are not markup.
        table.add_row(one.check, Text(one.state, COLORS[one.state]), Text(one.found), Text(one.mend))
    console.print(table)
