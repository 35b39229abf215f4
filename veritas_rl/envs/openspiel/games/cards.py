"""Helpers for card games: names of cards, renaming of suits, and resampling of unseen cards."""

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
    """All renamings of the suits, as tables for `str.translate`."""
    return tuple(str.maketrans(suits, "".join(renamed)) for renamed in permutations(suits))


def deal(
    cards: Sequence[int],
    room: Mapping[str, int],
    may_hold: Callable[[str, int], bool],
    uniform: Callable[[], float],
) -> dict[str, list[int]]:
    """Deal cards to holders, uniformly among all allowed deals.

    Cards that may go to the same holders form a lot. For each lot, first the number of cards per holder is drawn,
    weighted by the number of deals that remain possible, and then the cards.

    Args:
        cards: The cards; as many as `room` in total.
        room: How many cards each holder takes.
        may_hold: Whether a holder may have a card.
        uniform: Returns numbers in [0, 1), the only source of randomness.

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
    """The number of ways to deal lots of cards, each with its allowed holders, into the remaining room."""
    if not lots:
        return int(not any(left))
    (allowed, size), *others = lots
    rest = tuple(others)
    return sum(_ways(split) * _deals(rest, _less(left, split)) for split in _splits(allowed, size, left))


@lru_cache(maxsize=50_000)
def _splits(allowed: tuple[bool, ...], size: int, left: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The possible numbers of cards of a lot per holder."""
    ranges = [range(min(size, room) + 1) if may else range(1) for may, room in zip(allowed, left, strict=True)]
    return [split for split in product(*ranges) if sum(split) == size]


@lru_cache(maxsize=50_000)
def _ways(split: tuple[int, ...]) -> int:
    """The number of ways to split a lot into these numbers."""
    ways, cards = 1, sum(split)
    for number in split:
        ways *= comb(cards, number)
        cards -= number
    return ways


def _less(left: tuple[int, ...], split: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(room - number for room, number in zip(left, split, strict=True))
