"""Reads a model's predicted output of a program, and compares it with the true output.

An answer is in a code block, in a box, or plain text. Several blocks, or several boxes, are one answer if they have
equal contents, and ambiguous otherwise.
"""

from veritas_rl.envs.answers import answer_text, balanced_boxes, code_blocks
from veritas_rl.envs.base import Reason, Reply, Score
from veritas_rl.envs.trace.task import TracePay


def judge(reply: Reply, truth: str, pay: TracePay) -> Score:
    """Score a reply.

    Args:
        reply: Any reply.
        truth: The output of the program; not empty.
        pay: The reward, and how outputs are compared.

    Returns:
        Value 1 and success for the right output. A wrong output is no success. Its value is 0, or for the reward
        "partial" the share of right lines.
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
    """The output that a reply gives, or the reason why it gives none."""
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
    """The lines of an output, normalized for the comparison; see `TracePay.compare`."""
    if compare == "lenient":
        return [" ".join(words) for line in text.split("\n") if (words := line.split())]
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def share_of_lines(answer: list[str], wanted: list[str]) -> float:
    """The number of lines that equal the line at the same position, divided by the line count of the longer text.

    The share of two different texts is below 1.
    """
    right = sum(said == line for said, line in zip(answer, wanted, strict=False))
    return right / max(len(answer), len(wanted), 1)
