"""Cards that a player with some sense would choose in a game of tricks."""

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
    """A card for a player who wants tricks: the weakest unless it can win the trick from the other side.

    Args:
        cards: The legal cards.
        strength: Which of two cards takes the trick.
        best: The card that takes the trick so far; None for the lead.
        partner_wins: Whether the partner played it.
        last: Whether nobody plays after this player.
        random: Chooses between what is about as good.
    """
    ordered = sorted(cards, key=strength)
    if best is None:
        return ordered[-1] if random.random() < 0.5 else random.choice(ordered)
    winning = [card for card in ordered if strength(card) > strength(best)]
    if partner_wins or not winning:
        return ordered[0]
    return winning[0] if last or random.random() < 0.5 else winning[-1]
