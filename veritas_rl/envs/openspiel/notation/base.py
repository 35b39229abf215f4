"""The base of all notations, and the notations of words and numbered things."""

import re
from collections.abc import Hashable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

NO_WORDS: Mapping[str, str] = MappingProxyType({})

_SPACES = re.compile(r"[\s_-]+")


class Notation:
    """A notation that accepts only exact names.

    It serves games without their own description, whose action names may be case-sensitive.
    """

    def key(self, text: str) -> Hashable | None:
        """The key of a text: equal for two spellings of one move, None for a text that is no move in this notation.

        Args:
            text: A name or a reply, with single spaces and without LaTeX.
        """
        return text

    def fitting(self, said: str, names: Mapping[int, str]) -> list[int]:
        """The numbers of the legal actions that a text can mean; several if it is ambiguous.

        Args:
            said: The text, as in `key`.
            names: The name of each legal action, by number.
        """
        key = self.key(said)
        if key is None:
            return []
        known = ((number, _key_of(self, name)) for number, name in names.items())
        return [number for number, other in known if other is not None and self.agree(key, other)]

    def agree(self, said: Any, known: Any) -> bool:
        """Whether a text and a name mean the same move, by their keys."""
        return said == known

    def others(self, name: str) -> tuple[str, ...]:
        """Common spellings of a name that leave out a part of it."""
        return ()


@lru_cache(maxsize=20_000)
def _key_of(notation: Notation, name: str) -> Hashable | None:
    return notation.key(name)


class Words(Notation):
    """Moves that are words; case, hyphens and spaces do not matter.

    Args:
        same: Synonyms, each mapped to the name of a move, in lowercase.
    """

    def __init__(self, same: Mapping[str, str] = NO_WORDS) -> None:
        self.same = same

    def key(self, text: str) -> str | None:
        words = folded(text)
        return None if words is None else self.same.get(words, words)


class Houses(Notation):
    """Moves that are a single letter in which case matters, such as the houses of oware."""

    _move = re.compile(r"(?i:(?:sow )?(?:from )?(?:(?:the |my )?(?:house|pit):? ?)?)([A-Za-z])")

    def key(self, text: str) -> str | None:
        match = self._move.fullmatch(text)
        return match and match[1]


class Numbered(Notation):
    """Moves that are numbered things, such as "column 3" or "card 5".

    Args:
        thing: A regular expression for the word before the number.
    """

    def __init__(self, thing: str) -> None:
        self._move = re.compile(
            rf"(?:{thing}) ?(?:[:#=]|number|no\.)? ?0{{0,9}}([0-9]{{1,9}})", re.IGNORECASE | re.ASCII
        )

    def key(self, text: str) -> str | None:
        match = self._move.fullmatch(text)
        return match and match[1]


def folded(text: str) -> str | None:
    """A text in lowercase with single spaces between words; None if it is not ASCII.

    ASCII is checked first, because `str.lower` maps some other letters to ASCII letters, such as the Kelvin sign to k.
    """
    return _SPACES.sub(" ", text).strip().lower() if text.isascii() else None
