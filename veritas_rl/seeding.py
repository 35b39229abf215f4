"""Random generators seeded by names, without global state.

The same words give the same generator in any process, on any machine, under any PYTHONHASHSEED.
"""

import hashlib
from random import Random


def digest(*words: object) -> int:
    """A 64-bit number made from the printed form of `words` alone, by SHA-256: near words give unrelated numbers."""
    text = "\x1f".join(map(str, words))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def generator(*words: object) -> Random:
    """A `random.Random` seeded with `digest(*words)`."""
    return Random(digest(*words))


def uniform(*words: object) -> float:
    """A number in [0, 1) made from `digest(*words)`, with 53 random bits: one draw without the cost of a generator."""
    return (digest(*words) >> 11) * 2.0**-53
