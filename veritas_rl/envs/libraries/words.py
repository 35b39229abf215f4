"""The words of questions whose texts another library writes."""

import re
from collections import Counter
from collections.abc import Sequence


def shared_words(texts: Sequence[str]) -> set[str]:
    """The words that most texts share: what a library says around the values of a question."""
    counts = Counter(word for text in texts for word in set(re.findall(r"[A-Za-z]{2,}", text)))
    return {word for word, count in counts.items() if count > len(texts) / 2}
