"""The file with the rows of finished cases, with which an interrupted run of the linter resumes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from veritas_rl.envs.lint.findings import Finding, Row, Verdict
from veritas_rl.errors import UserError
from veritas_rl.kept import check_settings

Settings = Mapping[str, str | int]
"""What the rows depend on, by name."""


def text_of(rows: Mapping[str, Sequence[Row]], settings: Settings) -> str:
    """The rows by case as JSON with a line break at the end."""
    content = {"settings": dict(settings), "rows": [asdict(row) for of_case in rows.values() for row in of_case]}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read(path: Path, settings: Settings) -> dict[str, Sequence[Row]]:
    """The rows by case that `text_of` wrote; empty if there is no file.

    Raises:
        UserError: The file cannot be read, has another format, or has other settings.
    """
    if not path.exists():
        return {}
    rows: dict[str, list[Row]] = {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        before = {name: content["settings"][name] for name in settings}
        for found in content["rows"]:
            findings = tuple(Finding(**finding) for finding in found["findings"])
            row = Row(**{**found, "verdict": Verdict(found["verdict"]), "findings": findings})
            rows.setdefault(row.case, []).append(row)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} cannot be read as rows of the linter ({error}); name another file") from error
    check_settings(path, before, settings)
    return dict(rows)
