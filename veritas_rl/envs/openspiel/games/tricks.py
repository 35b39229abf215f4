"""The cards of a sensible player in trick-taking games."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any


def choose_card(
    cards: Sequence[int],
    strength: Callable[[int], Any],
    best: int | None,
    *,
    partner_wins: bool,
    last: bool,
    random: Random,
) -> int:
    """The card of a player who tries to win tricks: the weakest, unless a card can win the trick from the other side.

    Args:
        cards: The legal cards.
        strength: The rank of a card in the trick; the highest takes it.
        best: The winning card so far; None for the lead.
        partner_wins: Whether the partner played `best`.
        last: Whether this player plays last in the trick.
        random: Chooses among nearly equal cards.
    """
    ordered = sorted(cards, key=strength)
    if best is None:
        return ordered[-1] if random.random() < 0.5 else random.choice(ordered)
    winning = [card for card in ordered if strength(card) > strength(best)]
    if partner_wins or not winning:
        return ordered[0]
    return winning[0] if last or random.random() < 0.5 else winning[-1]
