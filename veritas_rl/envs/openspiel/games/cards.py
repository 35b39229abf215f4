"""What card games share: names of cards, renaming of suits, and resampling the unseen cards."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import permutations, product
from math import comb

import pyspiel

SUIT_SYMBOLS = "cdhs"


def sorted_cards(cards: Sequence[str], ranks: str, suits: str = SUIT_SYMBOLS) -> list[str]:
    """Cards such as "Ts" by suit, then by rank, in the given orders."""
    return sorted(cards, key=lambda card: (suits.index(card[1]), ranks.index(card[0])))


def suit_renamings(suits: str = SUIT_SYMBOLS) -> tuple[dict[int, int], ...]:
    """Every renaming of the suits, as tables for `str.translate`."""
    return tuple(str.maketrans(suits, "".join(renamed)) for renamed in permutations(suits))


def deal(
    cards: Sequence[int],
    room: Mapping[str, int],
    may_hold: Callable[[str, int], bool],
    uniform: Callable[[], float],
) -> dict[str, list[int]]:
    """Cards dealt to holders, uniformly among all deals that are allowed.

    Cards that may go to the same holders are dealt in one lot: how many of it each holder gets is drawn with the number
    of deals that it leaves as weight, and then which.

    Args:
        cards: The cards; as many as there is room.
        room: How many cards each holder takes.
        may_hold: Whether a holder may have a card.
        uniform: Numbers in [0, 1), the only source of chance.

    Raises:
        pyspiel.SpielError: No deal is allowed.
    """
    holders = tuple(room)
    lots: dict[tuple[bool, ...], list[int]] = {}
    for card in sorted(cards):
        lots.setdefault(tuple(may_hold(holder, card) for holder in holders), []).append(card)
    sizes = tuple((allowed, len(lot)) for allowed, lot in sorted(lots.items()))
    left = tuple(room.values())
    if sum(left) != len(cards) or not _deals(sizes, left):
        raise pyspiel.SpielError("no deal fits what is known")
    hands: dict[str, list[int]] = {holder: [] for holder in holders}
    for index, (allowed, lot) in enumerate(sorted(lots.items())):
        splits = _splits(allowed, len(lot), left)
        weights = [_ways(split) * _deals(sizes[index + 1 :], _less(left, split)) for split in splits]
        pick = uniform() * sum(weights)
        chosen = splits[-1]
        for split, weight in zip(splits, weights, strict=True):
            if pick < weight:
                chosen = split
                break
            pick -= weight
        shuffled = shuffle(lot, uniform)
        for holder, number in zip(holders, chosen, strict=True):
            hands[holder] += [shuffled.pop() for _ in range(number)]
        left = _less(left, chosen)
    return hands


def shuffle(cards: Sequence[int], uniform: Callable[[], float]) -> list[int]:
    """The cards in random order (Fisher and Yates)."""
    order = list(cards)
    for last in range(len(order) - 1, 0, -1):
        other = int(uniform() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


@lru_cache(maxsize=200_000)
def _deals(lots: tuple[tuple[tuple[bool, ...], int], ...], left: tuple[int, ...]) -> int:
    """In how many ways lots of cards, each with who may hold it, fill what room is left."""
    if not lots:
        return int(not any(left))
    (allowed, size), *others = lots
    rest = tuple(others)
    return sum(_ways(split) * _deals(rest, _less(left, split)) for split in _splits(allowed, size, left))


@lru_cache(maxsize=50_000)
def _splits(allowed: tuple[bool, ...], size: int, left: tuple[int, ...]) -> list[tuple[int, ...]]:
    """How many cards of a lot each holder may get."""
    ranges = [range(min(size, room) + 1) if may else range(1) for may, room in zip(allowed, left, strict=True)]
    return [split for split in product(*ranges) if sum(split) == size]


@lru_cache(maxsize=50_000)
def _ways(split: tuple[int, ...]) -> int:
    """In how many ways a lot is split into these numbers."""
    ways, cards = 1, sum(split)
    for number in split:
        ways *= comb(cards, number)
        cards -= number
    return ways


def _less(left: tuple[int, ...], split: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(room - number for room, number in zip(left, split, strict=True))
