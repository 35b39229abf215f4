"""Print, write and read the measurements: a table for the terminal, JSON, and the rows of a page."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.engines import plays
from veritas_rl.envs.openspiel.engines.spec import parse_all
from veritas_rl.envs.openspiel.learning_signal.measure import EXACT_SOURCES
from veritas_rl.envs.openspiel.learning_signal.summary import CaseSignal, Measures, Settings
from veritas_rl.errors import UserError
from veritas_rl.kept import check_settings

COLUMNS: Mapping[str, str] = {
    "forced": "share of tasks with one legal move",
    "differ": "share of tasks whose moves really differ in value, with its standard error",
    "false": "expected share of false positives: tasks that differ only by chance, of all tasks",
    "thirds": "tasks that differ / tasks, in the first, second and last third of the game",
    "spread": "standard deviation of the values of a task's moves, mean over the unforced tasks",
    "halves": "correlation of two independent halves of the playouts, within tasks",
    "known": "number of unforced tasks whose true values are known",
    "mistakes": "share of these tasks whose best-paid move is a mistake",
    "regret": "mean loss of the best-paid move in these tasks, in units of return",
    "fixed": "share of tasks in which no move changes success",
    "source": "sources of the moves' values, most frequent first",
    "ms": "CPU milliseconds of a task, mean and maximum",
}
"""The columns after the case, and what each shows."""
FIRST_TABLE = 6
"""The number of columns in the first of two tables on a terminal."""
THIRDS_COLUMNS = ("forced", "differ", "false", "spread", "halves", "known", "mistakes", "fixed")
"""The columns of the table by thirds."""
PRINTED_WIDTH = 130
"""The minimum width of the tables if the output is not a terminal."""


def cells_of(row: CaseSignal) -> tuple[str, ...]:
    """The cells of a case, one for each of `COLUMNS`."""
    cells = measured_cells(row.whole)
    cells["thirds"] = " ".join("0/0" if part is None else f"{part.differ}/{part.tasks}" for part in row.thirds)
    return tuple(cells[name] for name in COLUMNS)


def measured_cells(part: Measures) -> dict[str, str]:
    """The cells of some tasks: all of `COLUMNS` except the thirds."""
    sources = sorted(part.sources.items(), key=lambda pair: (-pair[1], pair[0]))
    return {
        "forced": _percent(part.forced / part.tasks),
        "differ": f"{_percent(part.share)} ± {100 * part.error:.0f}",
        "false": _percent(part.false / part.tasks),
        "spread": _number(part.spread, 3),
        "halves": _number(part.halves, 2),
        "known": str(part.known),
        "mistakes": "-" if part.mistakes is None else _percent(part.mistakes),
        "regret": _number(part.regret, 3),
        "fixed": "-" if part.fixed is None else _percent(part.fixed / part.tasks),
        "source": ", ".join(name for name, _ in sources),
        "ms": f"{1000 * part.seconds:.1f} {1000 * part.worst:.0f}",
    }


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def overall(rows: Sequence[CaseSignal]) -> str:
    """One line on all cases together, in which each task counts once."""
    tasks, differ = sum(row.whole.tasks for row in rows), sum(row.whole.differ for row in rows)
    forced = sum(row.whole.forced for row in rows)
    least = min(rows, key=lambda row: row.whole.share)
    seconds = sum(row.whole.seconds * row.whole.tasks for row in rows) / tasks
    return (
        f"all {tasks} tasks of {len(rows)} cases: moves differ in {_percent(differ / tasks)}, in the least case"
        f" {_percent(least.whole.share)} ({least.case}); forced {_percent(forced / tasks)}; {1000 * seconds:.1f} ms a"
        " task"
    )


def show(rows: Sequence[CaseSignal], settings: Settings, console: Console) -> None:
    """Print the table, what its columns mean, and all cases together."""
    if not console.is_terminal:
        console.width = max(console.width, PRINTED_WIDTH)  # a file or a pipe has no width of its own
    names, cells = list(COLUMNS), {row.case: cells_of(row) for row in rows}
    few = f", at most {settings.moves} moves a task" if settings.moves else ""
    titles = (
        f"learning signal: {settings.tasks} tasks a case, {settings.playouts} fresh playouts a move{few}",
        f"what is paid: reward {settings.reward}",
    )
    # Two tables, because one is wider than a terminal.
    for title, columns in zip(titles, (slice(0, FIRST_TABLE), slice(FIRST_TABLE, None)), strict=True):
        table = _table(title, ("case", *names[columns]))
        for case, words in cells.items():
            table.add_row(escape(case), *map(escape, words[columns]))
        console.print(table)
    table = _table("by thirds of the game", ("case", "third", "tasks", *THIRDS_COLUMNS))
    for row in rows:
        for third, part in enumerate(row.thirds, 1):
            words = measured_cells(part) if part else dict.fromkeys(THIRDS_COLUMNS, "-")
            about = (str(third), str(part.tasks if part else 0), *(words[name] for name in THIRDS_COLUMNS))
            table.add_row(escape(row.case) if third == 1 else "", *map(escape, about))
    console.print(table)
    for warning in engine_warnings(rows, settings):
        console.print(f"warning: {warning}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    for name, meaning in COLUMNS.items():
        console.print(f"{name}: {meaning}", style="dim", highlight=False, soft_wrap=True)
    console.print(overall(rows), highlight=False, soft_wrap=True)


def engine_warnings(rows: Sequence[CaseSignal], settings: Settings) -> Iterator[str]:
    """A line for each case with tasks that the configured engine should have valued, but other sources did."""
    engines = parse_all(str(settings.config.get("engine", ""))) if settings.mode == "move" else ()
    for row in rows:
        sources = {source: count for source, count in row.whole.sources.items() if source not in EXACT_SOURCES}
        others = [source for source in sources if source != "engine"]
        engine = next((engine for engine in engines if plays(engine, load(row.case))), None)
        if engine and others:
            missed, asked = sum(sources[source] for source in others), sum(sources.values())
            yield (
                f"{row.case}: the engine {engine} failed (see the log), so {missed} of {asked} tasks are valued by "
                f"{' and '.join(others)}"
            )


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for name in columns:
        left = name in ("case", "source")
        table.add_column(name, justify="left" if left else "right", no_wrap=name != "case", overflow="fold")
    return table


def text_of(rows: Sequence[CaseSignal], settings: Settings) -> str:
    """The results as JSON with a line break at the end."""
    content = {"settings": asdict(settings), "cases": [row.to_dict() for row in rows]}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read(path: Path) -> tuple[Settings, tuple[CaseSignal, ...]]:
    """Read the settings and the results that `text_of` wrote.

    Raises:
        UserError: The file cannot be read, or has another format.
    """
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        settings, rows = Settings(**content["settings"]), tuple(map(CaseSignal.from_dict, content["cases"]))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} cannot be read as a learning signal ({error}); name another file") from error
    return settings, rows


def measured_before(path: Path, settings: Settings) -> dict[str, CaseSignal]:
    """The cases in a file, measured with the same settings; empty if there is no file.

    Raises:
        UserError: The file has another format, or was written with other settings; the message names the cause.
    """
    if not path.exists():
        return {}
    before, rows = read(path)
    check_settings(path, asdict(before), asdict(settings))
    return {row.case: row for row in rows}
