"""A seeded permutation of a range that needs constant time and memory to open.

A balanced Feistel network over the next power of four, with cycle walking (Black and Rogaway, "Ciphers with arbitrary
finite domains", 2002). It gives a pseudo-random order without a list, and is not for cryptography.
"""

from veritas_rl.seeding import digest

ROUNDS = 4


class Permutation:
    """A bijection of range(length), chosen by `words`.

    Args:
        length: The length of the range.
        words: The seed: any values, such as a number and a purpose.
    """

    def __init__(self, length: int, *words: object) -> None:
        if length < 1:
            raise ValueError(f"the length of a permutation must be at least 1, not {length}")
        self.length = length
        self._half = max(1, ((length - 1).bit_length() + 1) // 2)
        self._keys = [digest("permutation", round_, *words) for round_ in range(ROUNDS)]

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self.length:
            raise IndexError(index)
        # The network's domain is at most four times the range, so a walk takes few steps on average.
        index = self._encrypt(index)
        while index >= self.length:
            index = self._encrypt(index)
        return index

    def _encrypt(self, index: int) -> int:
        mask = (1 << self._half) - 1
        left, right = index >> self._half, index & mask
        for key in self._keys:
            # The multiplier is odd and large (Knuth's multiplicative hashing); its high bits mix well.
            mixed = ((right ^ key) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
            left, right = right, left ^ (mixed >> 32 & mask)
        return left << self._half | right
