"""Random generators seeded by names, without global state.

Equal words give the same generator in any process, on any machine, and with any PYTHONHASHSEED.
"""

import hashlib
from random import Random


def digest(*words: object) -> int:
    """A 64-bit SHA-256 hash of the printed form of `words`."""
    text = "\x1f".join(map(str, words))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def generator(*words: object) -> Random:
    """A `random.Random` seeded with `digest(*words)`."""
    return Random(digest(*words))


def uniform(*words: object) -> float:
    """A number in [0, 1) with 53 bits of `digest(*words)`. Cheaper than a generator for one draw."""
    return (digest(*words) >> 11) * 2.0**-53
