"""Rows of similar lengths, which need little padding when they are computed together."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

PART = 512
"""The cost of computing one more part, in tokens, as measured in updates of the small model on a CPU: about 30 ms."""


def parts_of_similar_length(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Divide rows into parts, each padded to its longest row, so that tokens and parts together cost least.

    Args:
        lengths: The length of each row in tokens.
        most: The maximum number of tokens of a part, padding included; at least the longest row.

    Returns:
        The rows of each part, ascending within a part.
    """
    counts = Counter(lengths)
    sizes = sorted(counts)
    rows = [0, *accumulate(counts[size] for size in sizes)]
    # costs[i] is the least cost of all rows up to the i-th size, and starts[i] the first size of their last part.
    costs, starts = [0], [0]
    for end, size in enumerate(sizes, 1):
        cost, start = min((costs[start] + PART + (rows[end] - rows[start]) * size, start) for start in range(end))
        costs.append(cost)
        starts.append(start)
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    parts: list[list[int]] = []
    end = len(sizes)
    while end:
        start = starts[end]
        count = most // sizes[end - 1]
        for first in range(rows[start], rows[end], count):
            parts.append(sorted(order[first : min(first + count, rows[end])]))
        end = start
    return parts
