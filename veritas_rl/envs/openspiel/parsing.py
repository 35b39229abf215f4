"""Parses replies. The answer format is a single `\\boxed{...}` with the number or the name of a legal action.

- Outside its thinking, a reply has one box, or several boxes with the same answer, see `veritas_rl.envs.answers`. An
  answer mark, such as `<answer>`, counts as a box.
- A number refers to the prompt's list. It consists of ASCII digits without a sign.
- A name is spelled as in the list, or in another common way that the game's notation allows, see
  `veritas_rl.envs.openspiel.notation`.
- Number and name may be given together, as in the prompt's list, if they agree.
- LaTeX, quotes, brackets, bold type and a full stop around the answer are ignored.

A reply with several actions is ambiguous, even if one of them is more likely. Actions are never found by searching for
a substring, and every step is linear in the reply's length.
"""

import re
from collections.abc import Callable, Mapping

from veritas_rl.envs.answers import marked, visible_part
from veritas_rl.envs.answers.latex import plain_math
from veritas_rl.envs.answers.parts import BOX
from veritas_rl.envs.base import Reason, Reply
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.notation import Notation

MOST_CHARACTERS = 200
"""The maximum number of characters in a box; a longer text is an action only if it is a listed name."""
MOST_BOXES = 8
"""The maximum number of different boxes that are parsed; more boxes are ambiguous."""

_PAIRS = ('""', "''", "``", "\u201c\u201d", "\u2018\u2019", "«»", "「」", "()", "[]", "{}", "<>", "**", "__")
_NUMBER = re.compile(r"#?0*([0-9]{1,9})")
_NUMBER_FIRST = re.compile(r"[(\[\"'`*]{0,2}#?([0-9]{1,9})(?:[)\]\"'`*]{1,2} ?[:.=,-]? ?| ?[:.=,] ?| [-—] | )(.+)")
_NUMBER_LAST = re.compile(r"(.+?)(?: ?[(\[]| ?[:=,] ?| [-—] )(?:(?:action|number|no\.)[ :]*)*#?([0-9]{1,9})[)\]]?")
_LABEL = re.compile(
    r"(?:(?:i |i'll |i will )?(?:play|choose|pick|select)|(?:(?:my|the|final|best) )*"
    r"(?:action|move|answer|choice|option)(?: number| is)?"
    r"|number|no\.)(?: ?[:=#] ?| )",
    re.IGNORECASE,
)
_SPACES = re.compile(r"\s+")
_PARTS = re.compile(r"[,;/|\s]")
_DIGITS = 10
_UNDRESSED = 6
"""The maximum number of removed layers of quotes, brackets and similar marks."""


def read_action(reply: Reply, game: Game, state: State, player: int, listed: Mapping[int, str]) -> int | Reason:
    """The legal action of a player's reply, or the reason why there is none.

    Args:
        reply: Any reply.
        game: The game with its notation.
        state: The state of the decision.
        player: The player to move.
        listed: The name of each legal action, by its number, see `Game.listed`.
    """
    number = parse(reply, listed, lambda: game.notation(state, player))
    return number if isinstance(number, Reason) else game.action(number)


def parse(reply: Reply, names: Mapping[int, str], notation: Callable[[], Notation] = Notation) -> int | Reason:
    """The number of the legal action of a reply, or the reason why there is none.

    Args:
        reply: Any reply.
        names: The name of each legal action, by its shown number.
        notation: Returns the notation; it is used if a box has no listed name or number.
    """
    text = reply.text
    if text.startswith(BOX) and len(text) <= MOST_CHARACTERS and not reply.truncated and not reply.overlong:
        # A reply that is nothing but the box of a listed action is by far the most common one.
        found = _exact(text[len(BOX) : -1].strip(), names) if text.endswith("}") else ()
        if len(found) == 1:
            return next(iter(found))
    shown = visible_part(reply)
    if isinstance(shown, Reason):
        return shown
    if isinstance(shown, str) and (number := _plain_box(shown, names)) is not None:
        return number
    boxes = marked(shown)
    if isinstance(boxes, Reason):
        return boxes
    said = {box.strip() for box in boxes}
    if not said or said == {""}:
        return Reason.UNPARSEABLE
    if len(said) > MOST_BOXES:
        return Reason.AMBIGUOUS
    found = {_choice(box, names, notation) for box in said}
    choice = found.pop()
    return Reason.AMBIGUOUS if found or (len(said) > 1 and isinstance(choice, Reason)) else choice


def _choice(said: str, names: Mapping[int, str], notation: Callable[[], Notation]) -> int | Reason:
    """The number of a box's action, or the reason why there is none."""
    found = _exact(said, names)
    if not found and len(said) <= MOST_CHARACTERS and BOX not in said:
        found = _meant(_SPACES.sub(" ", plain_math(said)), names, notation())
    if not found and sum(bool(_exact(part, names)) for part in _PARTS.split(said)) > 1:
        return Reason.AMBIGUOUS
    if not found and BOX in said:
        return Reason.AMBIGUOUS
    return found.pop() if len(found) == 1 else Reason.AMBIGUOUS if found else Reason.ILLEGAL


def _plain_box(text: str, names: Mapping[int, str]) -> int | None:
    """The number of the listed action in the only box of a text, the most common case."""
    start = text.find("\\boxed")
    if start < 0 or not text.startswith(BOX, start) or text.find("\\boxed", start + 1) >= 0:
        return None
    inside, closed, _ = text[start + len(BOX) :].partition("}")
    found = _exact(inside.strip(), names) if closed else ()
    return next(iter(found)) if len(found) == 1 else None


def _exact(said: str, names: Mapping[int, str]) -> set[int]:
    """The actions whose number or name is exactly this text."""
    # int() accepts more than numbers here: "+3", "0_3" and digits of other scripts are no numbers.
    if said.isdigit() and said.isascii() and len(said) < _DIGITS and (said[0] != "0" or said == "0"):
        return {int(said)} & names.keys()
    return {number for number, name in names.items() if said == name}


def _meant(said: str, names: Mapping[int, str], notation: Notation) -> set[int]:
    """The actions that a text without LaTeX can mean, alone or after a word such as "action"."""
    for bare in dict.fromkeys((said.strip(), undressed(said))):
        if found := _numbered(bare, names, notation):
            return found
        label = _LABEL.match(bare)
        if label and (found := _numbered(undressed(bare[label.end() :]), names, notation)):
            return found
    return set()


def _numbered(said: str, names: Mapping[int, str], notation: Notation) -> set[int]:
    """The actions that a text can mean: a number, a move, or both, which must then agree."""
    for pattern, number_at, move_at in ((_NUMBER_FIRST, 1, 2), (_NUMBER_LAST, 2, 1)):
        if pair := pattern.fullmatch(said):
            listed = _one(pair[number_at], names, notation)
            found = _named(undressed(pair[move_at]), names, notation)
            if listed and found:
                return listed if listed <= found else listed | found
    return _one(said, names, notation)


def _one(said: str, names: Mapping[int, str], notation: Notation) -> set[int]:
    """The actions that a number or a move can mean."""
    if number := _NUMBER.fullmatch(said):
        return {number for number in (int(number[1]),) if number in names}
    return _named(said, names, notation)


def _named(said: str, names: Mapping[int, str], notation: Notation) -> set[int]:
    """The actions that a move can mean; none for a bare number."""
    if _NUMBER.fullmatch(said):
        return set()
    return _exact(said, names) or set(notation.fitting(said, names))


def undressed(said: str) -> str:
    """A text without surrounding white space, quotes, brackets and marks of bold type, and without a full stop."""
    for _ in range(_UNDRESSED):
        bare = said.strip().rstrip(".。;!").rstrip()
        if len(bare) > 1 and bare[0] + bare[-1] in _PAIRS:
            bare = bare[1:-1]
        if bare.endswith("}") and "{" not in bare:
            bare = bare.rstrip("}")
        if bare == said:
            break
        said = bare
    return said
