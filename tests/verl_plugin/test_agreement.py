"""A disagreement of rollout and trainer is reported once, after several steps."""

import re

from veritas_rl import announcements
from veritas_rl.verl_plugin.agreement import BOUND, BOUND_4_BIT, STEPS, AgreementWatch


def test_disagreement_is_reported_once_after_several_steps_in_a_row() -> None:
    watch = AgreementWatch(four_bit=False)
    more = BOUND + 0.01
    said = [watch.message(value) for value in [more] * (STEPS - 1) + [BOUND, None] + [more] * (STEPS + 5)]
    (place,) = [index for index, line in enumerate(said) if line]
    assert place == STEPS + 1 + STEPS - 1
    line = said[place]
    assert line is not None
    assert f"is {more:.3f} and exceeded {BOUND}" in line
    found = re.search(announcements.PATTERN, f"(TaskRunner pid=1) {line}")
    assert found is not None
    assert found.group() == line


def test_a_base_of_4_bits_may_differ_more() -> None:
    sixteen, four = AgreementWatch(four_bit=False), AgreementWatch(four_bit=True)
    between = (BOUND + BOUND_4_BIT) / 2
    assert any(sixteen.message(between) for _ in range(STEPS))
    assert not any(four.message(between) for _ in range(10 * STEPS))
