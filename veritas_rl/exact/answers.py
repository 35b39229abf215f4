"""The answers of players to batches of states, kept so that an interrupted judgement goes on where it was."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from veritas_rl.errors import UserError
from veritas_rl.kept import KeptLines

ANSWERS = "states.jsonl"

Answers = tuple[list[tuple[float, ...]], Mapping[str, int]]
"""For each state how often each action was answered, as a share of all answers; and the mistakes, by reason."""


class AnswerLedger:
    """What was answered so far, in an output folder.

    Args:
        folder: The folder.

    Raises:
        UserError: The file cannot be read or written, or is of something else.
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
        """What is kept under a key; what is not is asked, and kept."""
        if key not in self._found:
            rows, mistakes = self._found[key] = asked()
            self._kept.add(json.dumps([key, rows, mistakes]))
        return self._found[key]

    def close(self) -> None:
        """Put everything on the disk."""
        self._kept.close()
