"""Compares the figures of a run with the bands of its recipe."""

from collections.abc import Sequence
from dataclasses import dataclass

from veritas_rl.basis import EARLIER_SETTINGS, OTHER_TASKS
from veritas_rl.records.description import Description
from veritas_rl.records.figures import GAIN
from veritas_rl.records.result import Figure, Result, origin, same_kind

MOST_DEPARTURES = 8
"""The maximum number of changed settings that one line names."""


SINCE = {
    EARLIER_SETTINGS: "its settings were",
    OTHER_TASKS: "its tasks (prompts, answers or split) were",
    f"{EARLIER_SETTINGS} and {OTHER_TASKS}": "its settings and its tasks were",
}
"""What has changed, by the remark on a result."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on a run.

    Attributes:
        lines: A line for each band, one for each other gain, and a summary as the last line.
        confirmed: Whether the run used the recipe unchanged, every figure is in its band, and the bands come from runs
            of the unchanged recipe.
    """

    lines: tuple[str, ...]
    confirmed: bool


def judge(result: Result, description: Description, kept: Sequence[Result]) -> Verdict:
    """Compare a run with the bands of its recipe.

    Args:
        result: The result of the run.
        description: The description of its recipe.
        kept: The kept results of the recipe.
    """
    bands = description.expected_of(result.form)
    lines, outside, origins = [], 0, set[str]()
    for figure, (low, high) in bands.items():
        seeds = [run.seed for run in same_kind(kept, description, result.form) if figure in run.figures]
        among = f"{len(seeds)} seed{'s' if len(seeds) != 1 else ''}: {', '.join(map(str, seeds))}"
        if from_earlier := origin(figure, description, kept, result.form):
            among = f"from {from_earlier}"
            origins.add(from_earlier)
        found = result.figures.get(figure)
        if found is None:
            where, given = "MISSING, expected in", "-"
        else:
            given = shown(found)
            where = "below" if found["mean"] < low else "above" if found["mean"] > high else "in"
        outside += where != "in"
        lines.append(f"{figure}: {given}, {where} the band [{low:g}, {high:g}] ({among})")
    gains = {name: figure for name, figure in result.figures.items() if name.endswith(f"/{GAIN}") and name not in bands}
    lines += [f"{name}: {shown(figure)}" for name, figure in gains.items()]
    if result.departures:
        lines.append(f"no verdict on recipe {result.recipe}: {departures_in_words(result.departures)}")
    elif remark := result.remark(description):
        lines.append(f"no verdict on recipe {result.recipe}: {SINCE[remark]} changed since this run")
    elif not bands:
        lines.append(f"no verdict on recipe {result.recipe}: it has no expected ranges yet for its {result.form} form")
    elif origins:
        ranges = " and ".join(sorted(origins))
        lines.append(f"no verdict on recipe {result.recipe}: its expected ranges are from runs with {ranges}")
    elif outside:
        lines.append(f"recipe {result.recipe}, seed {result.seed}: {outside} of {len(bands)} figures NOT as expected")
    else:
        lines.append(f"recipe {result.recipe}, seed {result.seed}: all {len(bands)} figures as expected")
    followed = bool(bands) and not origins and result.follows(description)
    return Verdict(tuple(lines), followed and not outside)


def departures_in_words(departures: Sequence[str]) -> str:
    """The settings of a run that differ from its recipe, on one line."""
    named = "; ".join(departures[:MOST_DEPARTURES])
    more = f"; and {len(departures) - MOST_DEPARTURES} more" if len(departures) > MOST_DEPARTURES else ""
    return f"this run contradicts it ({named}{more})"


def shown(figure: Figure) -> str:
    """A figure with its interval, if it has one."""
    text = f"{figure['mean']:.4g}"
    return f"{text} [{figure['low']:.4g}, {figure['high']:.4g}]" if "low" in figure else text
