"""The prompt of a chat model: the one way in which this package turns messages into tokens."""

from collections.abc import Sequence
from typing import Any


def prompt_ids(tokenizer: Any, messages: Sequence[dict[str, str]], *, enable_thinking: bool = False) -> list[int]:
    """The tokens that a model is shown before it answers these messages.

    Args:
        tokenizer: A tokenizer of transformers with a chat template.
        messages: Chat messages, each {"role": ..., "content": ...}.
        enable_thinking: Whether a model of both kinds thinks before it answers; other templates do not read it.
    """
    return tokenizer.apply_chat_template(
        list(messages),
        tokenize=True,
        add_generation_prompt=True,
        return_dict=False,
        enable_thinking=enable_thinking,
    )
