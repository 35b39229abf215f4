"""The stored answers of players to batches of states, with which an interrupted judgement resumes."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from veritas_rl.errors import UserError
from veritas_rl.kept import KeptLines

ANSWERS = "states.jsonl"

Answers = tuple[list[tuple[float, ...]], Mapping[str, int]]
"""For each state the share of each action among all answers; and the number of mistakes, by reason."""


class AnswerLedger:
    """The answers so far, stored in an output folder.

    Args:
        folder: The folder.

    Raises:
        UserError: The file cannot be read or written, or has another format.
    """

    def __init__(self, folder: Path) -> None:
        self._kept = KeptLines(folder / ANSWERS)
        self._found: dict[str, Answers] = {}
        try:
            for line in self._kept.lines:
                key, rows, mistakes = json.loads(line)
                self._found[key] = [tuple(row) for row in rows], mistakes
        except (ValueError, TypeError) as error:
            raise UserError(f"{self._kept.path} cannot be read as answers ({error}): remove it") from error

    def ask(self, key: str, asked: Callable[[], Answers]) -> Answers:
        """The stored answers of a key; if there are none, call `asked` and store its result."""
        if key not in self._found:
            rows, mistakes = self._found[key] = asked()
            self._kept.add(json.dumps([key, rows, mistakes]))
        return self._found[key]

    def close(self) -> None:
        """Write everything to the disk, and close the file."""
        self._kept.close()
