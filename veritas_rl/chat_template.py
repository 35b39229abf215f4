"""The prompt of a chat model: the one way in which this package turns messages into tokens."""

from collections.abc import Sequence
from typing import Any

WORDS_PER_TOKEN = 0.75
"""Of English text, as tokenizers of language models cut it."""


def with_limit(messages: Sequence[dict[str, str]], tokens: int, *, together: bool = False) -> list[dict[str, str]]:
    """The messages with a sentence at their end that says how long the reply may be.

    Args:
        messages: Chat messages; the last one is the user's.
        tokens: The most tokens of the reply.
        together: Whether the limit is that of all replies of a conversation, and of what is said between them.
    """
    *before, last = messages
    limit = f"{tokens} tokens, about {max(1, int(tokens * WORDS_PER_TOKEN))} words"
    said = (
        f"This conversation may have at most {limit}, from here on: what is longer is cut off and earns nothing."
        if together
        else f"Your reply may have at most {limit}: a longer one is cut off and earns nothing."
    )
    return [*before, {**last, "content": f"{last['content']}\n\n{said}"}]


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
