"""The calls of a sensible bridge player: a few rules of natural bidding, no conventions.

High-card points count 4, 3, 2, 1 for ace to jack. The partner's points are estimated from the partner's first call. A
pair bids no higher than its total points allow, so most contracts can be made.
"""

from collections.abc import Sequence
from random import Random

PASS, DOUBLE, FIRST_BID = 52, 53, 55
NO_TRUMP = 4
MAJORS = (2, 3)
LEVELS = ((37, 7), (33, 6), (29, 5), (25, 4), (23, 3), (20, 2))
"""The points that a pair needs for each level, highest first; with fewer points it may bid level 1."""
OPENING, OVERCALL, STRONG = 12, 9, 15
"""The points required for an opening bid, for an overcall, and for a bid without a long suit or a bidding partner."""
UNKNOWN = 8
"""The estimated points of a partner who has not called."""


def sensible_call(hand: Sequence[int], calls: Sequence[tuple[int, int]], seat: int, random: Random) -> int:
    """A call that is legal now.

    Args:
        hand: The seat's 13 cards, by action.
        calls: The seat and the action of each call so far.
        seat: The seat that calls.
        random: Changes the points by up to one, because players judge hands differently.
    """
    points = sum(max(0, card // 4 - 8) for card in hand) + random.choice((-1, 0, 0, 1))
    lengths = [sum(card % 4 == suit for card in hand) for suit in range(4)]
    balanced = min(lengths) >= 2 and max(lengths) <= 5
    bids = [(who, call) for who, call in calls if call >= FIRST_BID]
    last = bids[-1] if bids else None
    ours = [(who, call) for who, call in bids if who % 2 == seat % 2]
    partners = [call for who, call in ours if who != seat]
    together = points + _shown(partners, [call for who, call in calls if who == (seat + 2) % 4], bids)
    highest = next((level for least, level in LEVELS if together >= least), 1)
    if last is None:
        return _opening(points, lengths, balanced=balanced)
    if not ours:
        highest = min(highest, 2)
        if points < OVERCALL or (max(lengths) < 5 and points < STRONG):
            return _no_bid(points, calls, last, seat, random)
    elif last[0] % 2 == seat % 2 and _is_enough(last[1], together, len(ours)):
        return PASS
    elif not partners and points < STRONG:  # the partner was silent
        return _no_bid(points, calls, last, seat, random)
    for denomination in _denominations(lengths, partners, balanced=balanced):
        bid = _cheapest(denomination, last[1])
        level = (bid - FIRST_BID) // 5 + 1
        most = min(highest, 3) if denomination == NO_TRUMP and highest < 6 else highest
        if level > most:
            continue
        game = 3 if denomination == NO_TRUMP else 4 if denomination in MAJORS else 5
        if partners and level < game <= most and random.random() < 0.5:
            return FIRST_BID + 5 * (game - 1) + denomination
        return bid
    return _no_bid(points, calls, last, seat, random)


def _opening(points: int, lengths: Sequence[int], *, balanced: bool) -> int:
    longest = max(range(4), key=lambda suit: (lengths[suit], suit))
    if points >= OPENING:
        if balanced and (STRONG <= points <= 17 or points >= 20):
            return _bid(1 if points <= 17 else 2, NO_TRUMP)
        return _bid(1, longest)
    if points >= 6 and lengths[longest] >= 6 and longest:
        return _bid(min(3, lengths[longest] - 4), longest)  # weak, with a long suit
    return PASS


def _shown(bids: Sequence[int], calls: Sequence[int], all_bids: Sequence[tuple[int, int]]) -> int:
    """The points that a partner's calls promise."""
    if not bids:
        return 5 if calls and calls[0] == PASS and not all_bids else 6 if calls else UNKNOWN
    level, denomination = divmod(bids[0] - FIRST_BID, 5)
    if all_bids[0][1] != bids[0]:
        return 8 + 2 * level  # a response or an overcall
    if denomination == NO_TRUMP:
        return (STRONG, 20)[min(level, 1)]
    return 13 if level == 0 else 7


def _is_enough(bid: int, together: int, bids: int) -> bool:
    """Whether a side's own bid may become the contract: it is a game, no game can be made, or the side has bid
    enough."""
    level, denomination = divmod(bid - FIRST_BID, 5)
    is_game = level >= (2 if denomination == NO_TRUMP else 3 if denomination in MAJORS else 4)
    return (is_game and together < 33) or (together < 25 and bids >= 2) or bids >= 6


def _denominations(lengths: Sequence[int], partners: Sequence[int], *, balanced: bool) -> list[int]:
    """The best denominations for a hand, best first."""
    shown = {(bid - FIRST_BID) % 5 for bid in partners}
    fits = [suit for suit in (3, 2, 1, 0) if suit in shown and lengths[suit] >= 3]
    own = sorted((suit for suit in range(4) if lengths[suit] >= 5), key=lambda suit: -lengths[suit])
    return list(dict.fromkeys([*fits, *own, *([NO_TRUMP] if balanced or partners else [])]))


def _no_bid(points: int, calls: Sequence[tuple[int, int]], last: tuple[int, int], seat: int, random: Random) -> int:
    """A pass; sometimes a strong hand doubles."""
    since = [call for _, call in calls[calls.index(last) + 1 :]]
    level = (last[1] - FIRST_BID) // 5 + 1
    theirs = last[0] % 2 != seat % 2 and all(call == PASS for call in since)
    if theirs and points >= max(STRONG, 3 * level) and random.random() < 0.5:
        return DOUBLE
    return PASS


def _bid(level: int, denomination: int) -> int:
    return FIRST_BID + 5 * (level - 1) + denomination


def _cheapest(denomination: int, last: int) -> int:
    """The lowest bid in a denomination over the last bid."""
    return last + 1 + (denomination - (last + 1 - FIRST_BID)) % 5
