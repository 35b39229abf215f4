"""Questions to an expert and the answers, in blocks. A file keeps the questions of an interrupted command."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veritas_rl.envs.base import Message, Reason
from veritas_rl.envs.registry import task_of
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.kept import KeptLines

PARTIAL = "asked.jsonl"
"""The file of the answered questions. It is removed after the demonstrations are written."""


@dataclass(frozen=True)
class Demonstration:
    """An expert's answer to one question.

    Attributes:
        task: The task that was played.
        said: The earlier replies of the task's session, from which the question can be rebuilt; empty in mode "move".
        messages: The messages of the prompt.
        response: The answer.
        value: The score's value.
        group: The equivalence class of the question.
    """

    task: Task
    said: tuple[str, ...]
    messages: tuple[Message, ...]
    response: str
    value: float
    group: str


@dataclass(frozen=True)
class Block:
    """Consecutive tasks of a case, which one worker gets together.

    Attributes:
        case: The case.
        tasks: Its tasks.
    """

    case: str
    tasks: Sequence[Task]


@dataclass(frozen=True)
class Question:
    """A question that was drawn.

    Attributes:
        digest: The digest of the question's messages.
        held_out: Whether the question belongs to validation.
        answer: The expert's answer, and the reason of its score; None if the question is held out or was asked before.
    """

    digest: str
    held_out: bool
    answer: tuple[Demonstration, Reason] | None = None

    def to_json(self) -> list[Any]:
        """The question as plain values."""
        if self.answer is None:
            return [self.digest, self.held_out]
        said, reason = self.answer
        answer = [said.task.to_dict(), said.said, said.messages, said.response, said.value, said.group]
        return [self.digest, self.held_out, answer, reason]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> "Question":
        """The inverse of `to_json`."""
        digest, held_out, *rest = values
        if not rest:
            return cls(digest, held_out)
        (task, said, messages, *others), reason = rest
        return cls(
            digest, held_out, (Demonstration(task_of(task), tuple(said), tuple(messages), *others), Reason(reason))
        )


class KeptBlocks:
    """The blocks that are already answered, stored in the file `PARTIAL`. Its first line contains the settings.

    Args:
        folder: The folder of the file.
        settings: The command's settings as plain values. Blocks that were stored with other settings are dropped.

    Attributes:
        blocks: The case and the questions of each block.

    Raises:
        UserError: The file cannot be read or written, or has other contents.
    """

    def __init__(self, folder: Path, settings: Any) -> None:
        self._kept = KeptLines(folder / PARTIAL)
        header = json.dumps(settings)
        if self._kept.lines[:1] != [header]:
            self._kept.clear()
            self._kept.add(header)
        try:
            rows = [json.loads(line) for line in self._kept.lines[1:]]
            self.blocks = [(case, [Question.from_json(values) for values in questions]) for case, questions in rows]
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(f"{self._kept.path} cannot be read as demonstrations ({error}): remove it") from error

    def add(self, case: str, questions: Sequence[Question]) -> None:
        """Store a block."""
        self._kept.add(json.dumps([case, [question.to_json() for question in questions]]))

    def close(self) -> None:
        """Flush the file to the disk, and close it."""
        self._kept.close()
