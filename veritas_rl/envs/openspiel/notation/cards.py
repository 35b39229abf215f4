"""Moves with playing cards: one card or several, bids at bridge, and moves between piles."""

import re
from collections.abc import Hashable, Mapping

from veritas_rl.envs.openspiel.notation.base import NO_WORDS, Notation, Words, folded
from veritas_rl.envs.openspiel.notation.cells import small

_RANK_WORDS = (
    *("ace", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "jack", "queen", "king"),
)
_RANKS = {
    **{rank: rank for rank in "a23456789tjqk"},
    **dict(zip(_RANK_WORDS, "a23456789tjqk", strict=True)),
    "10": "t",
}
_SYMBOLS = str.maketrans(dict(zip("♣♧♦♢♥♡♠♤", "ccddhhss", strict=True)) | {"\ufe0f": None})
_LATEX = re.compile(r"\\(club|diamond|heart|spade)suit(?![a-z])")
_SUIT = r"(?:clubs?|diamonds?|hearts?|spades?|[cdhs])(?![a-z])"
_RANK = rf"(?:{'|'.join(sorted(_RANKS, key=len, reverse=True))})"
_CARD = re.compile(rf"(?:the )?({_RANK})(?: of | )?({_SUIT}|[cdhs](?=[0-9atjqk]))|([cdhs])({_RANK})(?![a-z0-9])")
_BETWEEN = re.compile(r"(?: ?[,;&+] ?(?:and )?| and | )?")
_BID = re.compile(r"(?:bid:? )?([1-7]) ?(clubs?|diamonds?|hearts?|spades?|[cdhs]|n\.?t\.?|n|no[ -]?trumps?)")


def symbols_written(text: str) -> str | None:
    """A text in lowercase with a letter for each suit symbol; None if the result is not ASCII."""
    return small(_LATEX.sub(lambda match: match[1][0], text).translate(_SYMBOLS))


def cards_in(text: str) -> list[str]:
    """The cards of a text, such as "ts", in the order of the text; empty if the text contains anything else.

    Args:
        text: In lowercase, without suit symbols.
    """
    found: list[str] = []
    place = 0
    while match := _CARD.match(text, place):
        rank, suit = (match[1], match[2]) if match[1] else (match[4], match[3])
        found.append(_RANKS[rank] + suit[0])
        place = match.end()
        if place == len(text):
            return found
        between = _BETWEEN.match(text, place)
        place = between.end() if between else place
    return []


class Cards(Notation):
    """Moves that name one or several cards in any order, optionally after a verb, as in "discard 6s".

    Args:
        verbs: The verbs that may precede the cards, each mapped to the verb of the matching names.
        words: Synonyms for moves without a card, as in `Words`.
    """

    def __init__(self, verbs: Mapping[str, str] = NO_WORDS, words: Mapping[str, str] = NO_WORDS) -> None:
        self._words = Words(words)
        self._verbs = verbs
        spelled = "|".join(re.escape(verb) for verb in sorted(verbs, key=len, reverse=True))
        self._verb = re.compile(rf"({spelled}):? ") if verbs else None

    def key(self, text: str) -> tuple[str, Hashable] | None:
        """The verb ("" if there is none), and the cards in alphabetical order or the words."""
        plain = symbols_written(text)
        if plain is None:
            return None
        verb = self._verb.match(plain) if self._verb else None
        cards = cards_in(plain[verb.end() :] if verb else plain)
        if not cards:
            return "", self._words.key(plain)
        return self._verbs[verb[1]] if verb else "", tuple(sorted(cards))

    def agree(self, said: tuple[str, Hashable], known: tuple[str, Hashable]) -> bool:
        return said[1] == known[1] and said[0] in ("", known[0])


class Bids(Notation):
    """The calls of bridge, such as "1NT" and "double"."""

    _CALLS = Words({"x": "double", "dbl": "double", "xx": "redouble", "rdbl": "redouble"})

    def key(self, text: str) -> Hashable | None:
        plain = symbols_written(text)
        if plain is None:
            return None
        bid = _BID.fullmatch(plain)
        return (bid[1], bid[2][0]) if bid else self._CALLS.key(plain)

    def others(self, name: str) -> tuple[str, ...]:
        return (name[:-1],) if name.endswith("NT") else ()


class Piles(Notation):
    """The moves of solitaire: a card onto another one, to its foundation or to an empty column."""

    _MOVE = re.compile(r"(?:move )?(.{2,20}?)(?: ?-> ?| (?:onto|on|to) )(?:the |an |its |a )?(.{2,20})")
    _FOUNDATION = re.compile(rf"(?:({_SUIT}) )?foundation")
    _EMPTY = re.compile(r"empty(?: column| pile| space)?")

    def key(self, text: str) -> Hashable | None:
        """The moved card and its destination (a card, "foundation" or "empty"), or the words."""
        plain = symbols_written(text)
        move = plain and self._MOVE.fullmatch(plain)
        if not move:
            return folded(text)
        card, goal = cards_in(move[1]), cards_in(move[2])
        if len(card) != 1:
            return None
        if foundation := self._FOUNDATION.fullmatch(move[2]):
            return (card[0], "foundation") if (foundation[1] or card[0][1])[0] == card[0][1] else None
        if self._EMPTY.fullmatch(move[2]):
            return card[0], "empty"
        return (card[0], goal[0]) if len(goal) == 1 else None
