"""The report of an exact evaluation: a table for each case, exact.json, and a picture of each policy.

The picture of a small game shows, for each information state, the probability of each action, the share of illegal
answers, and the equilibrium. The picture of a larger game shows the shares of optimal, losing and illegal answers by
the number of earlier moves.
"""

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.exact.evaluation import REFERENCES, ExactEvaluation
from veritas_rl.exact.policies import ExactReport, StatePolicy
from veritas_rl.judging.report import draw_level

matplotlib.use("Agg")

SCREEN = 21
"""The maximum number of lines of a printed report; the rest of a screen is for the paths of its files."""

FEW_STATES = 48
"""The maximum number of information states for which the picture has one bar each."""

KUHN_EQUILIBRIA: Mapping[str, tuple[float, float]] = {
    "0J": (0, 1 / 3),
    "0Q": (0, 0),
    "0K": (0, 1),
    "0Jpb": (0, 0),
    "0Qpb": (1 / 3, 2 / 3),
    "0Kpb": (1, 1),
    "1Jp": (1 / 3, 1 / 3),
    "1Jb": (0, 0),
    "1Qp": (0, 0),
    "1Qb": (1 / 3, 1 / 3),
    "1Kp": (1, 1),
    "1Kb": (1, 1),
}
"""The lowest and highest probability of a bet in any equilibrium of Kuhn poker (Kuhn 1950). Player 0 bets J with some
probability x, K with 3x, and calls with Q with x + 1/3."""

OPTIMAL, LOSING, ILLEGAL = "tab:green", "tab:orange", "0.75"


def values_of(evaluation: ExactEvaluation) -> dict[str, Any]:
    """The whole report as plain values, without the states of references."""
    return {
        "settings": dataclasses.asdict(evaluation.settings),
        "players": evaluation.players,
        "notes": evaluation.notes,
        "cases": {
            case: {
                name: report.to_dict() if name not in REFERENCES else {"metrics": report.metrics}
                for name, report in found.items()
            }
            for case, found in evaluation.reports.items()
        },
        "times": {case: round(seconds, 3) for case, seconds in evaluation.seconds.items()},
    }


def write(evaluation: ExactEvaluation, folder: Path) -> list[Path]:
    """Write exact.json and a picture of each judged policy; for an experiment, the newest policy and a picture of all
    steps."""
    paths = [folder / "exact.json"]
    write_whole(paths[0], json.dumps(values_of(evaluation), indent=2) + "\n")
    label = _labels(evaluation)
    for case, found in evaluation.reports.items():
        plain = re.sub(r"[^\w.-]+", "-", case).strip("-")
        for number, name in enumerate(evaluation.last):
            paths.append(folder / (f"exact-{plain}.png" if number == 0 else f"exact-{plain}-compared.png"))
            draw(found[name], label[name], paths[-1])
        if evaluation.steps:
            paths.append(folder / f"exact-{plain}-steps.png")
            draw_steps({step: found[name] for name, step in evaluation.steps.items()}, found["random"], paths[-1])
    return paths


def print_report(evaluation: ExactEvaluation, console: Console) -> None:
    """Print the tables and the notes.

    If they do not fit a screen of `SCREEN` lines, the last notes are left out, then the earlier checkpoints of an
    experiment; exact.json contains all of them.
    """
    names = [*evaluation.players, *REFERENCES]
    last = [name for name in names if name in evaluation.last or name in REFERENCES]
    counts = range(len(evaluation.notes), -1, -1)
    parts, shortened = list[RenderableType](), False
    for number, (shown, count) in enumerate(product((names, last), counts)):
        parts, shortened = list(_parts_of(evaluation, shown, evaluation.notes[:count])), number > 0
        if sum(len(console.render_lines(part)) for part in parts) <= SCREEN:
            break
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str), highlight=False)
    if shortened:
        console.print("shortened to fit a screen: exact.json has every checkpoint and note", highlight=False)


def _parts_of(evaluation: ExactEvaluation, names: Sequence[str], notes: Sequence[str]) -> Iterator[RenderableType]:
    label = _labels(evaluation)
    for case, found in evaluation.reports.items():
        first = next(iter(found.values()))
        table = Table(
            title=f"{case}: {len(first.states)} states, game value {_pair(first.worth.game)} for seats 0 and 1",
            title_justify="left",
            box=SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        table.add_column("player", overflow="fold")
        rest = "illegal/\nother %" if any(report.way == "probabilities" for report in found.values()) else "illegal %"
        for column in ("NashConv", "worst case", "against the\noptimum", "optimal\n%", "losing\n%", rest):
            table.add_column(column, justify="right", no_wrap=True)
        for name, report in ((name, found[name]) for name in dict.fromkeys(names) if name in found):
            metrics = report.metrics
            table.add_row(
                label[name],
                f"{report.nash_conv:.4f}",
                _pair(report.worth.worst),
                _pair(report.worth.against_optimum),
                *(f"{100 * metrics[rate]:.1f}" for rate in ("optimal_rate", "value_losing_rate", "illegal_mean")),
                style="dim" if name in REFERENCES else "",
            )
        yield table
    yield from (f"note: {note}" for note in notes)
    yield "time: " + ", ".join(f"{case} {seconds:.1f} s" for case, seconds in evaluation.seconds.items())


def draw(report: ExactReport, name: str, path: Path) -> None:
    """Draw one policy, as a PNG."""
    from matplotlib.figure import Figure

    few = len(report.states) <= FEW_STATES
    figure = Figure(figsize=(9, 1.6 + 0.34 * len(report.states)) if few else (9, 4.5), layout="constrained")
    axes = figure.subplots()
    (_draw_states if few else _draw_depths)(axes, report)
    way = "by probabilities" if report.way == "probabilities" else f"{report.samples} answers in each state"
    axes.set_title(f"{name} in {report.case}: NashConv {report.nash_conv:.3f} ({way})", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower left", ncols=5, frameon=False, fontsize=9)
    # The version of matplotlib is left out, so that the bytes are the same on every machine.
    figure.savefig(path, dpi=130, metadata={"Software": None})


def draw_steps(reports: Mapping[int, ExactReport], uniform: ExactReport, path: Path) -> None:
    """Draw the NashConv of an experiment's checkpoints against their steps, as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(list(reports), [report.nash_conv for report in reports.values()], marker="o", markersize=4)
    draw_level(axes, "uniform play", uniform.nash_conv)
    axes.set(xlabel="training step", ylabel="NashConv, in units of return", ylim=(0, None))
    axes.set_title(f"{uniform.case}: NashConv of each checkpoint; an equilibrium has 0", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130, metadata={"Software": None})


def _draw_states(axes: Any, report: ExactReport) -> None:
    """A bar for each information state, divided into its actions; a mark or a range shows the equilibrium."""
    actions = list(dict.fromkeys(name for state in report.states for name in state.actions))
    colors = [f"C{number}" for number in range(len(actions))]
    states = sorted(report.states, key=lambda state: (state.seat, state.depth))
    shares = [_by_name(state, state.probabilities) for state in states]
    left = [0.0] * len(states)
    # The last action, in poker a bet or a raise, starts at 0, so that its share can be read from the axis.
    for action, color in reversed(list(zip(actions, colors, strict=True))):
        widths = [share.get(action, 0.0) for share in shares]
        axes.barh(range(len(states)), widths, left=left, height=0.62, color=color, alpha=0.75, label=action)
        left = [at + width for at, width in zip(left, widths, strict=True)]
    rest = [state.illegal for state in states]
    other = "illegal or other" if report.way == "probabilities" else "illegal"
    axes.barh(range(len(states)), rest, left=left, height=0.62, color=ILLEGAL, hatch="....", edgecolor="w", label=other)
    for place, state in enumerate(states):
        low, high = _equilibria(report.case, state, actions[-1])
        name = None if place else f"{actions[-1]}: equilibrium" + (" range" if report.case == "kuhn_poker" else "")
        axes.plot([low, high], [place, place], color="k", linewidth=2.5, marker="|", markersize=14, label=name)
    axes.set(xlim=(-0.01, 1.01), ylim=(len(states) - 0.5, -0.5), xlabel="share of all answers")
    axes.set_yticks(range(len(states)), [f"{state.label} " for state in states], family="monospace", fontsize=9)


def _equilibria(case: str, state: StatePolicy, action: str) -> tuple[float, float]:
    """The lowest and highest probability of an action in all equilibria, or its probability in the one known
    equilibrium."""
    if case == "kuhn_poker":
        return KUHN_EQUILIBRIA[state.label]
    known = _by_name(state, state.optimum).get(action, 0.0)
    return known, known


def _by_name(state: StatePolicy, values: Sequence[float]) -> dict[str, float]:
    return dict(zip(state.actions, values, strict=True))


def _draw_depths(axes: Any, report: ExactReport) -> None:
    """A bar for each number of earlier moves: the mean shares of optimal, losing and illegal answers."""
    depths = sorted({state.depth for state in report.states})
    rows = [[state for state in report.states if state.depth == depth] for depth in depths]
    good = [_mean([state.optimal for state in row]) for row in rows]
    bad = [_mean([state.losing for state in row]) for row in rows]
    rest = [_mean([state.illegal for state in row]) for row in rows]
    uniform = [_mean([sum(state.best) / len(state.best) for state in row]) for row in rows]
    best = "near the best reply to an equilibrium" if report.hidden else "optimal"
    other = "illegal or other" if report.way == "probabilities" else "illegal"
    axes.bar(depths, good, color=OPTIMAL, alpha=0.75, label=best)
    axes.bar(depths, bad, bottom=good, color=LOSING, alpha=0.75, label="loses value")
    both = [a + b for a, b in zip(good, bad, strict=True)]
    axes.bar(depths, rest, bottom=both, color=ILLEGAL, hatch="....", edgecolor="w", label=other)
    axes.plot(depths, uniform, "k_", markersize=22, markeredgewidth=2, label="optimal at random")
    axes.set(ylim=(0, 1.01), xlabel="moves made before (states)", ylabel="share of all answers")
    axes.set_xticks(depths, [f"{depth}\n({len(row)})" for depth, row in zip(depths, rows, strict=True)])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _pair(values: tuple[float, float]) -> str:
    # Rounding comes first, because -0.0 would look like a loss.
    return " ".join(f"{round(value, 3) + 0.0:+.3f}" for value in values)


def _labels(evaluation: ExactEvaluation) -> dict[str, str]:
    """A short name for each player: the last part of a path if it is unique, else the whole name."""
    names = [*evaluation.players, *(name for name in REFERENCES if name not in evaluation.players)]
    parts = {name: name if "://" in name else name.rstrip("/").rpartition("/")[2] for name in names}
    parts |= {name: f"step {step}" for name, step in evaluation.steps.items()}
    taken = list(parts.values())
    return {name: part if taken.count(part) == 1 else name for name, part in parts.items()}
