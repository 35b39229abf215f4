"""Moves of dice games: bids in liar's dice, and moves of two checkers in backgammon."""

import re
from collections.abc import Hashable, Mapping
from itertools import pairwise

from veritas_rl.envs.openspiel.notation.base import Notation, Words
from veritas_rl.envs.openspiel.notation.cells import small

_BID = re.compile(
    r"(?:i )?(?:bid:? )?"
    r"(?:([0-9]{1,2})(?: ?[x*] ?| times )([0-9]{1,2})|([0-9]{1,2}) (?:dice (?:of|showing) )?([0-9]{1,2})'?s)"
)
_ORDER = re.compile(r" ?\(([1-6]) first\)$")
_BETWEEN = re.compile(r" ?[,;] ?(?:then )?| (?:and|then) | ")
_POINT = re.compile(r"(bar|off|25|2[0-4]|1[0-9]|[1-9])(\*?)")
_TWICE = "(2)"

PointsKey = tuple[tuple[tuple[tuple[str, str], ...], str | None], frozenset[int]]
"""The start and the end of each move and the die played first; and the indices of the moves that hit."""


class DiceBids(Notation):
    """Bids of a quantity and a face, as in "3x4", and the call "liar"."""

    _WORDS = Words(dict.fromkeys(("call liar", "say liar", "i say liar", "i call liar", "you are a liar"), "liar"))

    def key(self, text: str) -> Hashable | None:
        plain = small(text)
        bid = plain and _BID.fullmatch(plain)
        if not bid:
            return self._WORDS.key(text)
        quantity, face = (bid[1], bid[2]) if bid[1] else (bid[3], bid[4])
        return int(quantity), int(face)


def _combined(key: PointsKey) -> PointsKey | None:
    """The key of two moves of one checker as one move; None for other moves."""
    (moves, order), hits = key
    if len(moves) != 2 or moves[0][1] != moves[1][0]:
        return None
    return (((moves[0][0], moves[1][1]),), order), frozenset({0} if 1 in hits else ())


class Points(Notation):
    """Moves of checkers in the order played, as in "24/20 13/11*". The star of a hit is optional.

    Two moves of one checker may be combined: "8/2*" is "8/4 4/2*". If the dice can be played in either order, both
    orders are meant, unless only one of them hits on the way.
    """

    def fitting(self, said: str, names: Mapping[int, str]) -> list[int]:
        found = super().fitting(said, names)
        keys = [key for number in found if (key := self.key(names[number]))]
        hit_on_the_way = any(0 in hits for _, hits in keys)
        return found[:1] if None not in map(_combined, keys) and not hit_on_the_way else found

    def agree(self, said: PointsKey, known: PointsKey) -> bool:
        together = _combined(known)
        return any(said[0] == other[0] and said[1] <= other[1] for other in (known, together) if other)

    def others(self, name: str) -> tuple[str, ...]:
        return (name.replace("*", ""),) if "*" in name else ()

    def key(self, text: str) -> PointsKey | None:
        """The points of each move with the die played first, or "pass"; and the indices of the moves marked as hits."""
        plain = small(text)
        if plain is None:
            return None
        order = _ORDER.search(plain)
        moves: list[tuple[str, str]] = []
        hits: set[int] = set()
        for part in _BETWEEN.split(plain[: order.start()] if order else plain):
            times = 2 if part.endswith(_TWICE) else 1
            points = [_POINT.fullmatch(point) for point in re.split(r"/|->?", part.removesuffix(_TWICE))]
            if len(points) < 2 or not all(points):
                return (((), None), frozenset()) if plain == "pass" else None
            places = [(match[1].replace("25", "bar"), match[2]) for match in points if match]
            starts, ends = [place for place, _ in places[:-1]], [place for place, _ in places[1:]]
            if places[0][1] or "off" in starts or "bar" in ends:
                return None
            for _ in range(times):
                for (start, _), (end, star) in pairwise(places):
                    if star:
                        hits.add(len(moves))
                    moves.append((start, end))
        return (tuple(moves), order and order[1]), frozenset(hits)
