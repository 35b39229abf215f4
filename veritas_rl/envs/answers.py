"""Reading a reply: its thinking is set aside, and what it answers is found. Every environment reads replies with this.

- Thinking: `<think>...</think>`, all that stands before a `</think>` that nothing opened, and all that follows a
  `<think>` that nothing closes.
- A box: `\\boxed{...}`. What it holds ends at the first closing brace; white space around it is trimmed.
- A code block: lines between two fences of three backticks or more, whatever language the first one names.

Nothing is searched for by substring, and every step is linear in the reply's length.
"""

import re

from veritas_rl.envs.base import Reason, Reply

MAX_CHARACTERS = 100_000
"""A longer reply is not read at all."""

BOX = "\\boxed{"

_BRACE = re.compile(r"[{}]")
_FENCE = re.compile(r"^[ \t]*(`{3,})([^`\n]*)$", re.MULTILINE)


def answer_text(reply: Reply, most: int = MAX_CHARACTERS) -> str | Reason:
    """What a reply says outside of its thinking, or why it says nothing.

    Args:
        reply: Anything.
        most: Characters of the longest reply that is read.
    """
    if reply.overlong or len(reply.text) > most:
        return Reason.OVERLONG
    if reply.truncated:
        return Reason.TRUNCATED
    text = without_thinking(reply.text)
    return text if text.strip() else Reason.EMPTY


def boxed(text: str) -> str | Reason:
    """What the one box of a text holds."""
    after = text.partition(BOX)[2]
    if BOX in after:
        return Reason.AMBIGUOUS
    inside, closed, _ = after.partition("}")
    said = inside.strip()
    return said if closed and said else Reason.UNPARSEABLE


def balanced_boxes(text: str) -> list[str] | Reason:
    """What each box of a text holds, up to the brace that closes it: inside a box braces may stand in pairs."""
    found: list[str] = []
    place = 0
    while (start := text.find(BOX, place)) >= 0:
        depth, inside = 1, start + len(BOX)
        for brace in _BRACE.finditer(text, inside):
            depth += 1 if brace[0] == "{" else -1
            if not depth:
                found.append(text[inside : brace.start()])
                place = brace.end()
                break
        else:
            return Reason.UNPARSEABLE
    return found


def code_blocks(text: str) -> list[str]:
    """What the code blocks of a text hold, in their order. A block that is not closed ends with the text."""
    found: list[str] = []
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif not fence[2].strip() and len(fence[1]) >= len(opened[1]):
            found.append(text[opened.end() + 1 : fence.start()])
            opened = None
    if opened is not None:
        found.append(text[opened.end() + 1 :])
    return found


def without_thinking(text: str) -> str:
    """A reply without its thinking blocks."""
    if "think>" not in text:
        return text
    kept: list[str] = []
    inside = False
    for piece in re.split(r"(</?think>)", text):
        if piece == "<think>":
            inside = True
        elif piece == "</think>":
            if not inside:
                kept.clear()  # the opening tag stood in the prompt: all of this was thinking
            inside = False
        elif not inside:
            kept.append(piece)
    return "\n".join(kept)
