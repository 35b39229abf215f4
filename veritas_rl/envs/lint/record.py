"""The file with the rows of finished cases, with which an interrupted run of the linter resumes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.envs.lint.findings import Finding, Row, Verdict
from veritas_rl.errors import UserError


@dataclass(frozen=True)
class Record:
    """The rows of a JSON file.

    Attributes:
        path: The file, which may not exist yet.
        settings: What the rows depend on, by name.
    """

    path: Path
    settings: Mapping[str, str | int]

    def read(self) -> dict[str, list[Row]]:
        """The rows by case; empty if there is no file.

        Raises:
            UserError: The file cannot be read, has another format, or has other settings.
        """
        if not self.path.exists():
            return {}
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            settings = {name: content["settings"][name] for name in self.settings}
            rows: dict[str, list[Row]] = {}
            for found in content["rows"]:
                findings = tuple(Finding(**finding) for finding in found["findings"])
                row = Row(**{**found, "verdict": Verdict(found["verdict"]), "findings": findings})
                rows.setdefault(row.case, []).append(row)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UserError(f"{self.path} cannot be read as rows of the linter ({error}); name another file") from error
        for name, value in self.settings.items():
            if settings[name] != value:
                raise UserError(
                    f"{self.path} was linted with {name}={settings[name]}, not {value}; name another file or remove "
                    "this one"
                )
        return rows

    def write(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """Write the rows of all finished cases."""
        written = [asdict(row) for of_case in rows.values() for row in of_case]
        content = {"settings": dict(self.settings), "rows": written}
        write_whole(self.path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
