"""Turn messages into the tokens of a chat model's prompt. The whole package uses these functions."""

from collections.abc import Sequence
from typing import Any

WORDS_PER_TOKEN = 0.75
"""Words per token of English text with common tokenizers."""


def with_limit(messages: Sequence[dict[str, str]], tokens: int, *, together: bool = False) -> list[dict[str, str]]:
    """Append a sentence with the token limit of the reply to the messages.

    Args:
        messages: Chat messages. The last message is from the user.
        tokens: The limit in tokens.
        together: Whether the limit covers all replies of a conversation and the messages between them.
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
    """The tokens of the prompt for these messages.

    Args:
        tokenizer: A tokenizer of transformers with a chat template.
        messages: Chat messages, each {"role": ..., "content": ...}.
        enable_thinking: Whether a hybrid model thinks before it answers. Other templates ignore it.
    """
    return tokenizer.apply_chat_template(
        list(messages),
        tokenize=True,
        add_generation_prompt=True,
        return_dict=False,
        enable_thinking=enable_thinking,
    )
