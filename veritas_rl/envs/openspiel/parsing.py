"""Reading a reply. The one answer format: a single `\\boxed{...}` that holds the number or the name of a legal action.

- Outside of thinking stands exactly one box, see `veritas_rl.envs.answers`.
- A number is an action's OpenSpiel number, written as in the prompt: ASCII digits, no sign, no leading zero.
- A name is matched whole, first exactly, then in any ASCII case if just one action fits.

Nothing is searched for by substring, and every step is linear in the reply's length.
"""

import re
from collections.abc import Mapping

from veritas_rl.envs.answers import answer_text, boxed
from veritas_rl.envs.base import Reason, Reply


def parse(reply: Reply, names: Mapping[int, str]) -> int | Reason:
    """The legal action that a reply chooses, or why it chooses none.

    Args:
        reply: Anything.
        names: The name of each legal action, by number.
    """
    text = answer_text(reply)
    said = text if isinstance(text, Reason) else boxed(text)
    if isinstance(said, Reason):
        return said
    action = _lookup(said, names)
    if action is not None:
        return action
    parts = [part.strip() for part in re.split(r"[,;/|\s]", said)]
    return Reason.AMBIGUOUS if sum(_lookup(part, names) is not None for part in parts) > 1 else Reason.ILLEGAL


def _lookup(said: str, names: Mapping[int, str]) -> int | None:
    # Numbers are compared as text: int() would also take "+3", "0_3" and the digits of other scripts.
    for action, name in names.items():
        if said == name or said == str(action):
            return action
    if not said.isascii():  # str.lower() folds some other letters onto ASCII ones, such as the Kelvin sign onto k
        return None
    found = [action for action, name in names.items() if name.lower() == said.lower()]
    return found[0] if len(found) == 1 else None
