"""dyck_language_reasoning_errors by rewriting: the open brackets remain after the removal of all pairs."""

import re

_SEQUENCE = re.compile(r"^Sequence: (\S+)$", re.MULTILINE)
_STEP = re.compile(r"^([0-9]+)\. (\S) → (.+)$", re.MULTILINE)
_PAIR = re.compile(r"\(\)|\[\]|\{\}|<>|⟨⟩|⟦⟧|⟪⟫|⦃⦄")


def check(question: str, answer: str) -> str:
    """The error in an answer to a question, or ""; see `second`."""
    (sequence,) = _SEQUENCE.findall(question)
    steps = _STEP.findall(question)
    if [(int(place), bracket) for place, bracket, _ in steps] != list(enumerate(sequence, start=1)):
        return f"the steps do not read {sequence} bracket by bracket"
    if left := _reduced(sequence):
        return f"the sequence leaves {left}"
    wrong: list[str] = []
    for place, _, stated in steps:
        left = _reduced(sequence[: int(place)])
        if (" ".join(left) or "∅") != stated:
            wrong.append(place)
    if not wrong:
        return "no step is wrong"
    return "" if answer == ",".join(wrong) else f"the answer is {answer}, wrong are the steps {','.join(wrong)}"


def _reduced(sequence: str) -> str:
    """A sequence after repeated removal of all adjacent pairs."""
    while (shorter := _PAIR.sub("", sequence)) != sequence:
        sequence = shorter
    return sequence
