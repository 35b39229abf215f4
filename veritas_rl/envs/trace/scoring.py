"""Reads a model's predicted output of a program, and compares it with the true output.

An answer stands in a code block, in a box, or plain. Several blocks, or several boxes, are one answer if they hold the
same, and ambiguous otherwise.
"""

from veritas_rl.envs.answers import answer_text, balanced_boxes, code_blocks
from veritas_rl.envs.base import Reason, Reply, Score
from veritas_rl.envs.trace.task import TracePay


def judge(reply: Reply, truth: str, pay: TracePay) -> Score:
    """Score a reply.

    Args:
        reply: Anything.
        truth: What the program prints; not empty.
        pay: What is paid.

    Returns:
        Value 1 and success for the right output. A wrong one has no success and is worth 0, or in the reward "partial"
        the share of right lines.
    """
    said = read_output(reply)
    if isinstance(said, Reason):
        return Score(0.0, False, said)
    answer, wanted = lines_of(said, pay.compare), lines_of(truth, pay.compare)
    if answer == wanted:
        return Score(1.0, True, Reason.CORRECT, {"value_source": "exact"})
    value = share_of_lines(answer, wanted) if pay.reward == "partial" else 0.0
    return Score(value, False, Reason.WRONG, {"value_source": "exact"})


def read_output(reply: Reply) -> str | Reason:
    """The output that a reply names, or why it names none."""
    text = answer_text(reply)
    if isinstance(text, Reason):
        return text
    found = code_blocks(text) or balanced_boxes(text)
    if isinstance(found, Reason):
        return found
    if len({tuple(lines_of(part, "exact")) for part in found}) > 1:
        return Reason.AMBIGUOUS
    said = found[0] if found else text
    return said if said.strip() else Reason.EMPTY


def lines_of(text: str, compare: str) -> list[str]:
    """The lines of an output in the form in which they are compared; see `TracePay.compare`."""
    if compare == "lenient":
        return [" ".join(words) for line in text.split("\n") if (words := line.split())]
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def share_of_lines(answer: list[str], wanted: list[str]) -> float:
    """The share of lines that stand where they should, of as many lines as the longer of the two has; below 1."""
    right = sum(said == line for said, line in zip(answer, wanted, strict=False))
    return right / max(len(answer), len(wanted), 1)
