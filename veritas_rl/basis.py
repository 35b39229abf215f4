"""What a kept result stands on: a digest of the resolved settings, and a digest of the tasks.

Neither is a digest of a file's text. Settings come from several files, and the same settings may give other tasks after
a change of an environment's code. Both digests are the same in any process and on any machine.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

DIGITS = 12
"""The hexadecimal digits of a digest."""

EARLIER_SETTINGS, OTHER_TASKS = "earlier settings", "other tasks"
"""The remarks on results that do not stand on the present settings and tasks."""


@dataclass(frozen=True)
class Basis:
    """What the figures of a run stand on.

    Attributes:
        settings: A digest of the settings, see `composition.settings_digest`.
        tasks: A digest of the tasks that the environments give under these settings: prompts, answers and split.
    """

    settings: str
    tasks: str

    def remark(self, now: "Basis") -> str:
        """What has changed since: "earlier settings", "other tasks", or both; "" for the present basis `now`."""
        changed = {EARLIER_SETTINGS: self.settings != now.settings, OTHER_TASKS: self.tasks != now.tasks}
        return " and ".join(name for name, differs in changed.items() if differs)


def digest_of(value: Any) -> str:
    """A digest of plain values."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
