"""The prompt of a program, and a reply that solves it."""

import re

from veritas_rl.envs.answers import FORMS
from veritas_rl.envs.base import Message, Reason, Reply
from veritas_rl.envs.trace.questions import Question
from veritas_rl.envs.trace.scoring import lines_of, read_output

_TASK = (
    "What does this Python program print? Follow it step by step, then write exactly what it prints to standard "
    "output, line by line, in one code block. Lines with __DBG_0__, __DBG_1__ and so on are printed like all others. "
    + FORMS["block"].rule["en"]
)


def messages(asked: Question, prompt: str) -> tuple[Message, ...]:
    """The messages for a question.

    Args:
        asked: The question.
        prompt: "full" for instructions, the program and its input; "brief" for only the program and its input.
    """
    if prompt == "brief":
        content = asked.source.rstrip("\n") + (f"\n\n{asked.stdin}" if asked.stdin else "")
    else:
        content = f"{_TASK}\n\n{fenced(asked.source, 'python')}"
        if asked.stdin:
            content += f"\n\nIt reads this from standard input:\n\n{fenced(asked.stdin)}"
    return ({"role": "user", "content": content},)


def solution(truth: str, prompt: str) -> str:
    """A reply with an output: plain text for a brief prompt if possible, otherwise a code block."""
    return truth.rstrip() if prompt == "brief" and plain(truth) else fenced(truth)


def plain(truth: str) -> bool:
    """Whether an output without a code block is parsed as exactly this output."""
    if "`" in truth or "\\boxed{" in truth or "think>" in truth:
        return False
    said = read_output(Reply(truth.rstrip()))
    return not isinstance(said, Reason) and lines_of(said, "exact") == lines_of(truth, "exact")


def fenced(text: str, language: str = "") -> str:
    """A text in a code block whose fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"
