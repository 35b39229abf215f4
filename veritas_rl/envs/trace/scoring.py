"""Reads a model's predicted output of a program, and compares it with the true output.

An answer is in a code block, in a box, in inline code that is announced as the output, or plain text. The rule of
`veritas_rl.envs.answers` decides which of several blocks and boxes counts.
"""

from veritas_rl.envs.answers import agreed, announced, parts, settled, visible_part, with_fences_alone
from veritas_rl.envs.answers.latex import plain_math
from veritas_rl.envs.answers.parts import Part
from veritas_rl.envs.base import Reason, Reply, Score
from veritas_rl.envs.trace.task import TracePay


def judge(reply: Reply, truth: str, pay: TracePay, question: str = "") -> Score:
    """Score a reply.

    Args:
        reply: Any reply.
        truth: The output of the program; not empty.
        pay: The reward, and how outputs are compared.
        question: What the prompt shows: the program and its input. A block that repeats lines of it is no answer beside
            others.

    Returns:
        Value 1 and success for the right output. A wrong output is no success. Its value is 0, or for the reward
        "partial" the share of right lines.
    """
    said = read_output(reply, question)
    if isinstance(said, Reason):
        return Score(0.0, False, said)
    answer, wanted = lines_of(said, pay.compare), lines_of(truth, pay.compare)
    if answer == wanted:
        return Score(1.0, True, Reason.CORRECT, {"value_source": "exact"})
    value = share_of_lines(answer, wanted) if pay.reward == "partial" else 0.0
    return Score(value, False, Reason.WRONG, {"value_source": "exact"})


def read_output(reply: Reply, question: str = "") -> str | Reason:
    """The output that a reply gives, or the reason why it gives none."""
    said = visible_part(reply)
    if isinstance(said, Reason):
        return said
    if isinstance(said, str):
        return _output_in(said, question)
    return agreed(said, lambda text: _output_in(text, question), _output)


def _output_in(text: str, question: str) -> str | Reason:
    """The output that a visible text gives."""
    text = with_fences_alone(text)
    blocks = parts.code_blocks(text)
    boxes = parts.balanced_boxes(parts.prose(text)) if "\\boxed" in text else []
    if isinstance(boxes, Reason):
        if not blocks:
            return boxes
        boxes = []
    if not blocks and not boxes:
        announced_code = [code for code in parts.introduced_code(text) if announced(code)] if "`" in text else []
        return (settled(announced_code, _output, question) if announced_code else text) or Reason.EMPTY
    return settled([*blocks, *(Part(box, marked=True) for box in boxes)], _output, question) or Reason.EMPTY


def _output(part: Part) -> str | None:
    """A part without white space at the ends of its lines and without empty last lines; None if nothing is left."""
    text = part.text
    if part.marked:
        text = plain_math(text) if "\\" in text else text
        text = text if "\n" in text.strip() else text.strip()
    return "\n".join(lines_of(text, "exact")) if text.strip() else None


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
