"""Moves on a board: a cell, two cells, a line between two dots, a ship or a wall."""

import re
from collections.abc import Collection, Hashable, Mapping

from veritas_rl.envs.openspiel.notation.base import NO_WORDS, Notation, Words, folded

CELL = r"\(?([a-z])(?: ?, ?| )?([1-9][0-9]?)\)?"
"""A regular expression for a cell in lowercase text, such as a1, a 1 and (a, 1)."""

_CELL = re.compile(CELL)
_STEP = re.compile(rf"(?:from )?{CELL}( ?-> ?| ?- ?| ?= ?> ?| ?[x*:] ?| ?, ?| (?:captures|takes) | to | )?{CELL}(\*?)")


def small(text: str) -> str | None:
    """A text in lowercase with every arrow as "->"; None if the result is not ASCII."""
    text = re.sub(r"\\(?:(?:long)?rightarrow|to)(?![a-z]) ?|[→⟶⇒➔➜]", "->", text)
    return text.lower() if text.isascii() else None


class Cells(Notation):
    """Moves that are one cell, optionally after a verb, as in "shoot f5".

    Args:
        verbs: The verbs that may precede the cell, each mapped to the first word of the matching names; "" for names
            that are the cell alone.
        words: Synonyms for moves that are not a cell, as in `Words`.
    """

    def __init__(self, verbs: Mapping[str, str] = NO_WORDS, words: Mapping[str, str] = NO_WORDS) -> None:
        self._words = Words(words)
        self._verbs = {"": "", "cell": "", "at": "", **verbs}
        spelled = "|".join(re.escape(verb) for verb in sorted(self._verbs, key=len, reverse=True))
        self._move = re.compile(rf"({spelled}):? ?(?:the )?(?:cell |square |point )?{CELL}")

    def key(self, text: str) -> tuple[str, str] | None:
        """The verb ("" if there is none), and the cell or the words."""
        plain = small(text)
        if move := plain and self._move.fullmatch(plain):
            return self._verbs[move[1]], move[2] + move[3]
        words = self._words.key(text)
        return ("", words) if words else None

    def agree(self, said: tuple[str, str], known: tuple[str, str]) -> bool:
        return said[1] == known[1] and said[0] in ("", known[0])


class Steps(Notation):
    """Moves from one cell to another, written as in "a5b5".

    Args:
        captures: The names of the capturing moves. Only these may be written with a capture mark, such as x or a star.
            None if a move captures exactly when it jumps over a cell.
    """

    def __init__(self, captures: Collection[str] | None = None) -> None:
        self._captures = captures

    def key(self, text: str) -> str | None:
        plain = small(text)
        match = plain and _STEP.fullmatch(plain)
        if not match:
            return None
        column, row, between, column_to, row_to, star = match.groups()
        said = f"{column}{row}{column_to}{row_to}"
        capture = abs(ord(column) - ord(column_to)) > 1 if self._captures is None else said in self._captures
        claimed = star or (between or "").strip() in ("x", "*", ":", "captures", "takes")
        return None if claimed and not capture else said


class Joined(Notation):
    """Lines between two dots in any order, as in "a1-b1"."""

    def key(self, text: str) -> Hashable | None:
        plain = small(text)
        match = plain and _STEP.fullmatch(plain)
        if not match or (match[3] or "").strip() in ("x", "*", ":", "captures", "takes") or match[6]:
            return None
        return frozenset((match[1] + match[2], match[4] + match[5]))


class Placed(Notation):
    """Placements at a cell with a direction, as in "c4 right" or "a1h", and moves that are one cell.

    Args:
        kinds: The words for a direction, which follow the cell, each mapped to its spelling in names.
        before: A regular expression for the allowed prefix of a placement.
        alone: A regular expression for the allowed prefix of a cell without a direction.
    """

    def __init__(self, kinds: Mapping[str, str], before: str, alone: str) -> None:
        self._kinds = kinds
        spelled = "|".join(sorted(kinds, key=len, reverse=True))
        self._thing = re.compile(rf"(?:(?:{before}):? )?(?:at )?{CELL}(?: ?[,:-])? ?\(?({spelled})\)?")
        self._cell = re.compile(rf"(?:(?:{alone}):? )?{CELL}")

    def key(self, text: str) -> Hashable | None:
        plain = small(text)
        if plain is None:
            return None
        if thing := self._thing.fullmatch(plain):
            return thing[1] + thing[2], self._kinds[thing[3]]
        cell = self._cell.fullmatch(plain)
        return (cell[1] + cell[2], "") if cell else folded(text)
