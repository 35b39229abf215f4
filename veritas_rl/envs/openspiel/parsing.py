"""Reading a reply. The one answer format: a single `\\boxed{...}` that holds the number or the name of a legal action.

- Thinking is set aside first: `<think>...</think>`, all that stands before a `</think>` that nothing opened, and all
  that follows a `<think>` that nothing closes.
- Outside of it stands exactly one box. What it holds ends at the first closing brace; white space around it is trimmed.
- A number is an action's OpenSpiel number, written as in the prompt: ASCII digits, no sign, no leading zero.
- A name is matched whole, first exactly, then in any ASCII case if just one action fits.

Nothing is searched for by substring, and every step is linear in the reply's length.
"""

import re
from collections.abc import Mapping

from veritas_rl.envs.base import Reason, Reply

MAX_CHARACTERS = 100_000
"""A longer reply is not read at all."""

_BOX = "\\boxed{"


def parse(reply: Reply, names: Mapping[int, str]) -> int | Reason:
    """The legal action that a reply chooses, or why it chooses none.

    Args:
        reply: Anything.
        names: The name of each legal action, by number.
    """
    if reply.overlong or len(reply.text) > MAX_CHARACTERS:
        return Reason.OVERLONG
    if reply.truncated:
        return Reason.TRUNCATED
    text = without_thinking(reply.text)
    if not text.strip():
        return Reason.EMPTY
    after = text.partition(_BOX)[2]
    if _BOX in after:
        return Reason.AMBIGUOUS
    inside, closed, _ = after.partition("}")
    said = inside.strip()
    if not closed or not said:
        return Reason.UNPARSEABLE
    action = _lookup(said, names)
    if action is not None:
        return action
    parts = [part.strip() for part in re.split(r"[,;/|\s]", said)]
    return Reason.AMBIGUOUS if sum(_lookup(part, names) is not None for part in parts) > 1 else Reason.ILLEGAL


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


def _lookup(said: str, names: Mapping[int, str]) -> int | None:
    # Numbers are compared as text: int() would also take "+3", "0_3" and the digits of other scripts.
    for action, name in names.items():
        if said == name or said == str(action):
            return action
    if not said.isascii():  # str.lower() folds some other letters onto ASCII ones, such as the Kelvin sign onto k
        return None
    found = [action for action, name in names.items() if name.lower() == said.lower()]
    return found[0] if len(found) == 1 else None
