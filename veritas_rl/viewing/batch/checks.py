"""The figures of a batch, and what is suspicious in it."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import fmean

from veritas_rl.viewing.batch.rows import Batch, Row

NAMED_ROWS = 8
"""How many rows a warning names."""


def figures(batch: Batch) -> list[tuple[str, str]]:
    """The figures of a batch, each with its name."""
    real, groups = batch.real, batch.groups
    saved = f"{len(batch.rows)} of {batch.total}, in whole groups" if len(batch.rows) < batch.total else batch.total
    compared = [{row.reward for row in rows} for rows in groups.values() if len(rows) > 1]
    equal = f"; {sum(len(rewards) == 1 for rewards in compared)} with equal rewards" if compared else " of one row each"
    learned, tokens = sum(len(row.places) for row in real), sum(len(row.response) for row in real)
    settings = ("algorithm", "loss_agg_mode", "temperature", "model")
    found = [
        ("settings", ", ".join(f"{name} {batch.settings.get(name)}" for name in settings)),
        ("rows", f"{saved}; {batch.padding} padding"),
        ("learned", f"{learned} of {tokens} reply tokens; {sum(not row.places for row in real)} rows without any"),
        ("groups", f"{len(groups)}{equal}"),
        ("prompts too long", str(sum("prompt too long" in row.marks for row in real))),
        ("cut at the limit", str(sum("cut at the limit" in row.marks for row in real))),
    ]
    same, expected = identical(batch)
    if expected is not None:
        found.append(("identical samples", f"{same} pairs; {expected:.1f} expected from their probabilities"))
    if differences := [abs(value) for row in real for value in row.of_learned("difference")]:
        said = f"mean {fmean(differences):.2g}, most {max(differences):.2g}"
        found.append(("log-prob difference", f"{said} between rollout and trainer"))
    elif batch.settings.get("bypass_mode"):
        found.append(
            (
                "log-prob difference",
                "unknown: with algorithm.rollout_correction.bypass_mode=true the trainer "
                "takes the rollout's log-probabilities",
            )
        )
    return found


def warnings(batch: Batch) -> list[str]:
    """What is suspicious, one line each; each names some rows."""
    real = batch.real
    found = [
        ("numbers are not finite", [row for row in batch.rows if not_finite(row)]),
        ("padding has a learned token", [row for row in batch.rows if row.padding and row.places]),
        (
            "the prompt is too long, so the model was not asked: raise data.max_prompt_length",
            [row for row in real if "prompt too long" in row.marks],
        ),
        ("no token is learned", [row for row in real if not row.places and "prompt too long" not in row.marks]),
        ("the end of a turn is doubled", [row for row in real if end_is_doubled(row, batch.ends)]),
        ("a reply that was not cut has no end token", [row for row in real if end_is_missing(row, batch)]),
        (
            "the reward is not at the last learned token",
            [row for row in real if row.rewarded and row.rewarded != row.places[-1:]],
        ),
        (
            "the prompt begins with two tokens for the start of a text",
            [row for row in real if batch.start is not None and list(row.prompt[:2]) == [batch.start] * 2],
        ),
    ]
    lines = [f"{text}: {named(rows)}" for text, rows in found if rows]
    same, expected = identical(batch)
    if expected is not None and same > 2 + expected + 4 * math.sqrt(expected):
        lines.append(
            f"{same} pairs of samples of a group are identical, and their probabilities make {expected:.1f} "
            "likely: the samples may share their random numbers"
        )
    groups = batch.groups
    alike = [rows for rows in groups.values() if are_oddly_alike(rows)]
    if alike:
        lines.append(
            f"all replies of a group are identical: group {', '.join(str(rows[0].group) for rows in alike[:8])}"
        )
    if groups and all(len({row.reward for row in rows}) == 1 for rows in groups.values()) and _compares(batch):
        lines.append("the rewards of every group are equal, so nothing is learned: choose easier or harder tasks")
    if unbalanced := [str(group) for group, rows in groups.items() if _compares(batch) and is_unbalanced(rows)]:
        lines.append(f"the advantages of a group do not sum to 0: group {', '.join(unbalanced[:NAMED_ROWS])}")
    both = [(row.of_learned("rollout_log_probs"), row.of_learned("old_log_probs")) for row in real]
    gaps = [abs(math.exp(one) - math.exp(two)) for ones, twos in both for one, two in zip(ones, twos, strict=False)]
    if gaps and fmean(gaps) > batch.bound:
        lines.append(
            f"rollout and trainer disagree: their probabilities differ by {fmean(gaps):.3f} in the mean, and "
            f"rounding explains {batch.bound}: see docs/troubleshooting.md"
        )
    return lines


def named(rows: Sequence[Row]) -> str:
    """The rows of a warning, as words."""
    shown = ", ".join(
        f"{row.number} (group {row.group})" if row.group else str(row.number) for row in rows[:NAMED_ROWS]
    )
    more = f" and {len(rows) - NAMED_ROWS} more" if len(rows) > NAMED_ROWS else ""
    return f"row{'s' if len(rows) > 1 else ''} {shown}{more}"


def identical(batch: Batch) -> tuple[int, float | None]:
    """How many pairs of samples of the same prompt are identical, and how many their probabilities make likely.

    A sample equals another one with its own probability, so the expected number is the sum of this over the pairs. It
    is None if the rollout reports no log-probabilities, or samples without a temperature.
    """
    if not batch.settings.get("temperature") or not all("rollout_log_probs" in row.columns for row in batch.real):
        return 0, None
    samples: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in batch.real:
        if row.places:
            samples[row.group, row.seat, row.turn, (*row.prompt,)].append(row)
    same, expected = 0, 0.0
    for rows in samples.values():
        same += sum(count * (count - 1) // 2 for count in Counter((*row.response,) for row in rows).values())
        chances = [math.exp(min(0.0, sum(row.of_learned("rollout_log_probs")))) for row in rows]
        expected += sum(chances) * (len(rows) - 1) / 2
    return same, expected


def are_oddly_alike(rows: Sequence[Row]) -> bool:
    """Whether all samples of a group are identical, although their probability is below a thousandth."""
    if len(rows) < 2 or len({(*row.prompt, None, *row.response) for row in rows}) > 1:
        return False
    return math.exp(min(0.0, sum(rows[0].of_learned("rollout_log_probs")) * (len(rows) - 1))) < 1e-3


def not_finite(row: Row) -> bool:
    """Whether a row has a number that is not finite."""
    return any(not math.isfinite(value) for values in row.columns.values() for value in values)


def end_is_doubled(row: Row, ends: frozenset[int]) -> bool:
    """Whether a reply's end token is followed by another one."""
    both = zip(pairwise(row.response), row.learned, strict=False)
    return any(learned and one in ends and two in ends for (one, two), learned in both)


def end_is_missing(row: Row, batch: Batch) -> bool:
    """Whether a reply of the row ended without an end token although there was room for one."""
    limit = batch.settings.get("response_length") or math.inf
    cut = "cut at the limit" in row.marks or len(row.response) >= limit
    return any(
        row.response[place] not in batch.ends and not (cut and place == row.places[-1])
        for place in last_of_stretches(row.places)
    )


def last_of_stretches(places: Iterable[int]) -> Iterator[int]:
    """The last place of each stretch of consecutive places."""
    listed = {*places}
    yield from (place for place in sorted(listed) if place + 1 not in listed)


def is_unbalanced(rows: Sequence[Row]) -> bool:
    """Whether the advantages of a group's samples do not sum to 0, seat by seat and turn by turn.

    In whole games an advantage is divided by the number of the seat's replies in its game, which is undone here.
    """
    counts = Counter((row.copy, row.seat) for row in rows)
    sums: dict[tuple[int, int], list[float]] = defaultdict(list)
    for row in rows:
        if values := row.of_learned("advantages"):
            sums[row.seat, row.turn].append(values[0] * counts[row.copy, row.seat])
    return any(
        abs(sum(values)) > 1e-3 * max(map(abs, values)) + 1e-5
        for values in sums.values()
        if all(map(math.isfinite, values))
    )


def _compares(batch: Batch) -> bool:
    """Whether the algorithm compares the samples of a group."""
    return bool(batch.settings.get("compares"))
