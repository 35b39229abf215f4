"""Moves of dice games: bids of liar's dice, and the moves of two checkers of backgammon."""

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


class DiceBids(Notation):
    """Quantity and face, as in "3x4", and saying liar."""

    _WORDS = Words(dict.fromkeys(("call liar", "say liar", "i say liar", "i call liar", "you are a liar"), "liar"))

    def key(self, text: str) -> Hashable | None:
        plain = small(text)
        bid = plain and _BID.fullmatch(plain)
        if not bid:
            return self._WORDS.key(text)
        quantity, face = (bid[1], bid[2]) if bid[1] else (bid[3], bid[4])
        return int(quantity), int(face)


class Points(Notation):
    """Checkers' moves in the order played, as in "24/20 13/11*". The star of a hit may be left out."""

    def key(self, text: str) -> Hashable | None:
        """The two points of each move with the die that comes first, or the word."""
        return self._parts(text)[0]

    def fitting(self, said: str, names: Mapping[int, str]) -> list[int]:
        key, hits = self._parts(said)
        if key is None:
            return []
        known = ((number, *self._parts(name)) for number, name in names.items())
        return [number for number, known_key, known_hits in known if known_key == key and hits <= known_hits]

    def others(self, name: str) -> tuple[str, ...]:
        return (name.replace("*", ""),) if "*" in name else ()

    @staticmethod
    def _parts(text: str) -> tuple[Hashable | None, set[int]]:
        """What a text says without its stars, and which of the moves have one."""
        plain = small(text)
        if plain is None or len(plain) > 60:
            return None, set()
        order = _ORDER.search(plain)
        moves: list[tuple[str, str]] = []
        hits: set[int] = set()
        for part in _BETWEEN.split(plain[: order.start()] if order else plain):
            times = 2 if part.endswith(_TWICE) else 1
            points = [_POINT.fullmatch(point) for point in re.split(r"/|->?", part.removesuffix(_TWICE))]
            if len(points) < 2 or not all(points):
                return (plain if plain == "pass" else None), set()
            places = [(match[1].replace("25", "bar"), match[2]) for match in points if match]
            starts, ends = [place for place, _ in places[:-1]], [place for place, _ in places[1:]]
            if places[0][1] or "off" in starts or "bar" in ends:
                return None, set()
            for _ in range(times):
                for (start, _), (end, star) in pairwise(places):
                    if star:
                        hits.add(len(moves))
                    moves.append((start, end))
        return (tuple(moves), order and order[1]), hits
