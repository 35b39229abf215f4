"""What one check found, and the table of all of them."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "warning", "fault", "skipped"]


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: What was looked at, such as "shared memory".
        state: "ok"; "warning", with which a run may work; "fault", with which it will not; "skipped".
        found: What is there, in one line.
        mend: What to type or to change; empty where nothing is wrong.
    """

    check: str
    state: State
    found: str
    mend: str = ""


def ok(check: str, found: str) -> Finding:
    """Nothing is wrong."""
    return Finding(check, "ok", found)


def refused(check: str, message: str) -> Finding:
    """The fault that a `UserError` names: what is wrong, a colon, and what to type instead."""
    found, _, mend = message.rpartition(": ")
    return Finding(check, "fault", found or message, mend if found else "")


def collect(checks: Iterable[tuple[str, Callable[[], Iterable[Finding]]]]) -> Iterator[Finding]:
    """Run checks one after another.

    Args:
        checks: The name of each, and what it finds. A `UserError` is a fault; another exception is a warning, because
            then the check failed, and says nothing about the machine.
    """
    from veritas_rl.errors import UserError

    for name, check in checks:
        try:
            yield from check()
        except UserError as error:
            yield refused(name, " ".join(str(error).split()))
        except Exception as error:
            yield Finding(name, "warning", f"this could not be checked ({type(error).__name__}: {error})")


def as_json(findings: Iterable[Finding]) -> str:
    """One JSON object: the findings, and how many faults and warnings are among them."""
    listed = list(findings)
    counts = {f"{state}s": sum(one.state == state for one in listed) for state in ("fault", "warning")}
    return json.dumps({**counts, "findings": [asdict(one) for one in listed]})


COLORS = {"ok": "green", "warning": "yellow", "fault": "bold red", "skipped": "dim"}


def print_table(findings: Iterable[Finding]) -> None:
    """Print one row for each finding, with its mend."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    table = Table("check", "state", "what is there", "what to do", show_lines=False)
    for one in findings:
        # As text: square brackets in a message are no markup.
        table.add_row(one.check, Text(one.state, COLORS[one.state]), Text(one.found), Text(one.mend))
    console.print(table)
