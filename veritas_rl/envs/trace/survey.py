"""Runs the programs of a user's file before tasks are made of them, and says which are not asked, and why."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from veritas_rl.envs.trace.asking import SILENT, TOO_DEEP, Candidate, identity_of, users_sources
from veritas_rl.envs.trace.programs import Program
from veritas_rl.envs.trace.questions import FILE, form_of, split_of
from veritas_rl.envs.trace.truths import Truths
from veritas_rl.envs.trace.user_programs import UserPrograms
from veritas_rl.errors import UserError

MOST_RUN = 2000
"""The most programs of a file that are run, the first of the file. A program without an end takes 10 s."""

REPEATED = "it repeats an earlier program"

_AHEAD = 64
_PLACED = 8
"""How often prints are placed at random in a program that prints nothing itself, to find out if it can be asked."""
_MOST_REASONS = 6
_MOST_LINES = 3
_NAMES = {"train": "training", "val": "validation"}


def survey(
    case: str, debug_prints: int, splits: Collection[str], truths: Truths, progress: Callable[[str, int, int], None]
) -> str:
    """Run the programs of a file.

    Args:
        case: The case that names the file.
        debug_prints: The most debug prints of a program.
        splits: The splits that need programs.
        truths: Runs the programs.
        progress: Called with "program", the number of programs that were run, and their total.

    Returns:
        A line that says which programs are not asked; "" if all are.

    Raises:
        UserError: The file cannot be read, or no program of a split can be asked.
    """
    path = case.removeprefix(FILE)
    programs = UserPrograms(Path(path))
    count = min(len(programs), MOST_RUN)
    refused: dict[str, list[int]] = {}
    for row in programs.bad:
        refused.setdefault(row.why, []).append(row.line)
    asked = dict.fromkeys(_NAMES, 0)
    for index, (reason, form) in enumerate(_looked_at(programs, count, debug_prints, truths)):
        if reason:
            refused.setdefault(reason, []).append(programs.line(index))
        else:
            asked[split_of(form)] += 1
        progress("program", index + 1, count)
    total, usable = len(programs) + len(programs.bad), sum(asked.values())
    cut = count < len(programs)
    first = f" (only the first {count} were run)" if cut else ""
    said = _said(refused, programs.word)
    if not usable:
        raise UserError(
            f"{path}: none of its {total} programs can be asked{first}: {said}; give programs that end without an "
            "error and print the same in every run"
        )
    for split in splits:
        if not asked[split]:
            raise UserError(
                f"{path}: none of the {usable} programs that can be asked belongs to {_NAMES[split]}, because a hash "
                "sends a quarter of all programs to validation; add programs"
            )
    if said:
        left_out = sum(map(len, refused.values()))
        verb = "is" if left_out == 1 else "are"
        return f"{path}: {left_out} of {total} programs {verb} not asked{first}: {said}; the others are used instead"
    return f"{path}: {total} programs, and the first {count}, which were run, can be asked" if cut else ""


def _looked_at(programs: Sequence[Program], count: int, debug_prints: int, truths: Truths) -> Iterator[tuple[str, str]]:
    """For each of the first `count` programs, why it is not asked, or "" and its form. Some run ahead."""
    seen: set[int] = set()
    running: deque[Program] = deque()
    for index in range(count + _AHEAD):
        if index < count:
            running.append(programs[index])
            truths.prefetch([(running[-1].source, running[-1].stdin)])
        if index < _AHEAD:
            continue
        program = running.popleft()
        if (same := identity_of(program)) in seen:
            yield REPEATED, ""
            continue
        seen.add(same)
        try:
            form = form_of(program.source)
        except TOO_DEEP:
            yield "it nests too deeply", ""
            continue
        found = Candidate(program, form, (program.source,)).find(truths)
        if found == SILENT:
            shown = (users_sources(program, debug_prints, "survey", number) for number in range(_PLACED))
            if any(not isinstance(Candidate(program, form, sources).find(truths), str) for sources in shown):
                found = ""
        yield (found if isinstance(found, str) else ""), form


def _said(refused: Mapping[str, Sequence[int]], word: str) -> str:
    """The reasons with their counts and first lines, the most frequent first."""
    frequent = sorted(refused.items(), key=lambda pair: (-len(pair[1]), pair[1]))
    said = []
    for reason, lines in frequent[:_MOST_REASONS]:
        first = ", ".join(map(str, lines[:_MOST_LINES]))
        if len(lines) > _MOST_LINES:
            said.append(f"{len(lines)} programs ({word}s {first}, ...): {reason}")
        else:
            said.append(f"{word}{'s' * (len(lines) > 1)} {first}: {reason}")
    others = sum(len(lines) for _, lines in frequent[_MOST_REASONS:])
    return "; ".join([*said, *([f"{others} for other reasons"] if others else [])])
