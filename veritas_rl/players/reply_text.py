"""The text of a model's reply, the same in training, evaluation and serving."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from veritas_rl.envs.answers.visible import is_mark


def reply_text(tokenizer: Any, token_ids: Sequence[int]) -> str:
    """The text of a reply, without special tokens other than marks of thinking, channels and answers.

    Some tokenizers mark thinking by special tokens. Without them nobody could separate the answer from the thinking.

    Args:
        tokenizer: A tokenizer of transformers.
        token_ids: The reply.
    """
    marks, others = _special_tokens(tokenizer)
    if marks.isdisjoint(token_ids):
        return tokenizer.decode(token_ids, skip_special_tokens=True)
    return tokenizer.decode([token for token in token_ids if token not in others], skip_special_tokens=False)


@lru_cache(maxsize=8)
def _special_tokens(tokenizer: Any) -> tuple[frozenset[int], frozenset[int]]:
    """The special tokens that are marks, and the others."""
    special = {number: str(token) for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    special |= {number: tokenizer.convert_ids_to_tokens(number) for number in tokenizer.all_special_ids}
    marks = frozenset(number for number, text in special.items() if is_mark(text))
    return marks, frozenset(special) - marks
