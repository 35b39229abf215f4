"""The page of what the linter found in an environment, as Markdown."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from veritas_rl.envs.lint.findings import Row

MOST_CASES = 40
"""The most cases of a finding that are listed by name."""

FEWEST = 12
"""If fewer cases are without a finding, these are listed instead."""


def page_of(name: str, about: str, rows: Sequence[Row], refused: Mapping[str, str], command: str, date: str) -> str:
    """The findings of all rows, check by check, then the cases that cannot be used.

    Args:
        name: The environment's name.
        about: What the environment is, in a sentence.
        rows: The rows of the linter.
        refused: The cases that cannot be used, and why.
        command: The command that made the rows.
        date: The date of the command.
    """
    cases = sorted({row.case for row in rows} - {"all"})
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.findings:
            found[row.check].append(row)
    loose = {row.case for of_check in found.values() for row in of_check} - {"all"}
    lines = [
        f"# What the linter found in {name}",
        "",
        about,
        "",
        "```bash",
        command,
        "```",
        "",
        f"{len(loose)} of {len(cases)} cases have findings ({date}).",
        "",
    ]
    if found:
        lines += ["| check | cases with findings | an example |", "| --- | --- | --- |"]
        for check, of_check in sorted(found.items(), key=lambda item: -len(item[1])):
            first = of_check[0]
            example = f"{_code(first.findings[0].task or first.case)}: {_plain(first.findings[0].text)}"
            lines.append(f"| {check} | {_counted([row.case for row in of_check], cases)} | {example} |")
        lines.append("")
    if refused:
        lines += [f"{len(refused)} more are not checked:", "", "| case | why |", "| --- | --- |"]
        lines += [f"| {_code(case)} | {_plain(why)} |" for case, why in sorted(refused.items())]
        lines.append("")
    return "\n".join(lines)


def _counted(found: Sequence[str], cases: Sequence[str]) -> str:
    """The number of cases, and their names or those of the others."""
    others = [case for case in cases if case not in found]
    if not others:
        return f"all {len(cases)}"
    if len(others) < FEWEST and len(others) < len(found):
        return f"{len(found)}, all but {', '.join(map(_code, others))}"
    names = ", ".join(map(_code, found[:MOST_CASES]))
    return f"{len(found)}: {names}" + (f" and {len(found) - MOST_CASES} more" if len(found) > MOST_CASES else "")


def _code(text: str) -> str:
    """A name as code in the cell of a table."""
    return "`" + text.replace("|", "\\|") + "`"


def _plain(text: str) -> str:
    """A text as the cell of a table shows it literally."""
    return re.sub(r"([\\`*_|\[\]])", r"\\\1", text).replace("<", "&lt;")
