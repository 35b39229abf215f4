"""The console reports once that replies are truncated."""

import re

from veritas_rl import announcements
from veritas_rl.verl_plugin.truncation import STEPS, TruncationWatch


def test_truncation_is_reported_once_after_ten_steps_in_a_row() -> None:
    watch = TruncationWatch(1024)
    assert [watch.message(0.5) for _ in range(STEPS - 1)] == [None] * (STEPS - 1)
    assert watch.message(0.2) is None
    said = [watch.message(0.21) for _ in range(3 * STEPS)]
    assert [place for place, line in enumerate(said) if line] == [STEPS - 1]
    line = said[STEPS - 1]
    assert line is not None
    assert "\n" not in line
    assert "21% end at the limit of 1024 tokens" in line
    # The launcher finds the message after Ray's prefix of a line.
    assert re.search(announcements.PATTERN, f"(TaskRunner pid=1) {line}")
