"""Turn messages into the tokens of a chat model's prompt and reply. The whole package uses these functions."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from veritas_rl.errors import UserError

WORDS_PER_TOKEN = 0.75
"""Words per token of English text with common tokenizers."""

DATE = datetime(2024, 7, 26)
"""The date that templates show. It is the one that Llama's template shows if there is no clock."""


def with_limit(messages: Sequence[dict[str, str]], tokens: int, opening: int = 0) -> list[dict[str, str]]:
    """Append a sentence with the token limit of the reply to the last message of the user, or of a conversation's
    opening.

    Args:
        messages: Chat messages. The last message is from the user.
        tokens: The limit in tokens.
        opening: In a conversation, the number of messages before the first reply. The limit covers all that follows
            them: the replies and the messages between them.
    """
    place = (opening or len(messages)) - 1
    before, last, after = messages[:place], messages[place], messages[place + 1 :]
    limit = f"{tokens} tokens, about {max(1, int(tokens * WORDS_PER_TOKEN))} words"
    said = (
        f"This conversation may have at most {limit}, from here on: what is longer is cut off and earns nothing."
        if opening
        else f"Your reply may have at most {limit}: a longer one is cut off and earns nothing."
    )
    return [*before, {**last, "content": f"{last['content']}\n\n{said}"}, *after]


def prompt_ids(tokenizer: Any, messages: Sequence[dict[str, str]], *, enable_thinking: bool = False) -> list[int]:
    """The tokens of the prompt for these messages.

    A template that reads the date gets a fixed one, so that the prompts of a training and of a later evaluation agree.

    Args:
        tokenizer: A tokenizer of transformers with a chat template.
        messages: Chat messages, each {"role": ..., "content": ...}.
        enable_thinking: Whether a hybrid model thinks before it answers. Other templates ignore it.

    Raises:
        UserError: The chat template does not accept the messages.
    """
    return _encode(tokenizer, render(tokenizer, messages, enable_thinking=enable_thinking))


def render(
    tokenizer: Any, messages: Sequence[Mapping[str, str]], *, enable_thinking: bool = False, asks: bool = True
) -> str:
    """The text of a chat as its template writes it; see `prompt_ids`.

    Args:
        tokenizer: As for `prompt_ids`.
        messages: As for `prompt_ids`.
        enable_thinking: As for `prompt_ids`.
        asks: Whether the text ends with the start of the next reply.
    """
    try:
        return tokenizer.apply_chat_template(
            [_without_channels(message) for message in messages],
            tokenize=False,
            add_generation_prompt=asks,
            enable_thinking=enable_thinking,
            strftime_now=DATE.strftime,
        )
    except Exception as error:  # a template may raise any error
        roles = ", ".join(message["role"] for message in messages)
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"the model's chat template does not accept messages of the roles {roles} ({reason})"
        ) from error


def _without_channels(message: Mapping[str, str]) -> Mapping[str, str]:
    """A reply of gpt-oss as its final channel alone, which is empty if the reply was cut before. Its template refuses
    channels, and drops earlier analysis."""
    content = message["content"]
    if message["role"] != "assistant" or not any(mark in content for mark in (_ANALYSIS, _FINAL)):
        return message
    final = content.rpartition(_FINAL)[2] if _FINAL in content else ""
    return {**message, "content": re.sub(r"<\|(?:return|end)\|>\s*$", "", final)}


def check_template(tokenizer: Any, model: str | Path, *, conversation: bool = False) -> None:
    """Check that a model's chat template shows a question, and a conversation if one is needed.

    Args:
        tokenizer: The model's tokenizer.
        model: The model's name for the message.
        conversation: Whether the run shows earlier replies of the model.

    Raises:
        UserError: The tokenizer has no chat template, or the template does not accept such messages.
    """
    if not tokenizer.chat_template:
        raise UserError(f"the tokenizer in {model} has no chat template; use a chat (instruct) model")
    chat = [*_EXCHANGE, _EXCHANGE[0]] if conversation else _EXCHANGE[:1]
    try:
        shown = render(tokenizer, chat)
    except UserError as error:
        raise UserError(f"{model} cannot be used: {error}") from error
    if _QUESTION not in shown:
        raise UserError(f"{model} cannot be used: its chat template does not show a user's message")


def end_tokens(tokenizer: Any, generation_config: Any = None) -> frozenset[int]:
    """The tokens that end a reply: the tokenizer's end of sequence, the generation config's, and the template's.

    Args:
        tokenizer: A tokenizer of transformers.
        generation_config: The model's generation config; None if it has none.

    Raises:
        UserError: None of them names a token.
    """
    ends = _ends_of(tokenizer) | _eos_of(generation_config)
    if not ends:
        raise UserError(
            "neither the tokenizer nor its chat template nor the generation config names a token that ends a reply: "
            "set eos_token in tokenizer_config.json"
        )
    return frozenset(ends)


def _ends_of(tokenizer: Any) -> set[int]:
    ends = {tokenizer.eos_token_id}
    if tokenizer.chat_template:
        with suppress(UserError):  # A template for one question alone, which shows no reply.
            ends.update(end_of_turn(tokenizer)[-1:])
    return ends - {None}


def end_warning(tokenizer: Any, generation_config: Any, model: str | Path) -> str | None:
    """A warning, in one line, if a model's generation config does not name the token with which its chat template ends
    a turn, or the tokenizer's end of sequence; otherwise None.

    Replies here end at each of these tokens (`end_tokens`). Other programs know the generation config alone.

    Args:
        tokenizer: As for `end_tokens`.
        generation_config: As for `end_tokens`.
        model: The model's name.
    """
    named = _eos_of(generation_config)
    others = _ends_of(tokenizer) - named
    if not named or not others:
        return None
    shown = [" and ".join(tokenizer.convert_ids_to_tokens(sorted(tokens))) for tokens in (others, named)]
    return (
        f"warning: the tokenizer of {model} ends a turn with {shown[0]}, but its generation config with {shown[1]}: "
        f"replies end at all of them here; for other programs, name the right ones in generation_config.json and "
        "tokenizer_config.json"
    )


def _eos_of(generation_config: Any) -> set[int]:
    named = getattr(generation_config, "eos_token_id", None)
    ids: list[Any] = [*named] if isinstance(named, list | tuple) else [named]
    return {number for number in ids if number is not None}


def end_of_turn(tokenizer: Any) -> tuple[int, ...]:
    """The tokens that end a reply in the chat template, almost always one. A template without any has the tokenizer's
    end of sequence.

    Raises:
        UserError: The chat template does not accept a question and a reply.
    """
    return _form(tokenizer, False).end


def reply_ids(tokenizer: Any, reply: str, *, enable_thinking: bool = False) -> list[int]:
    """The tokens that a model learns as its reply: the reply's text and the end of turn.

    What the template writes between the prompt and a reply, such as an empty block of thinking or a channel's header,
    is part of the reply, unless the reply brings its own.

    Args:
        tokenizer: As for `prompt_ids`.
        reply: The text.
        enable_thinking: As for `prompt_ids`.
    """
    form = _form(tokenizer, enable_thinking)
    text = form.opening_of(reply) + reply
    # The text before it decides how a tokenizer splits the first characters.
    ids = _encode(tokenizer, form.before + text)
    start = len(form.before_ids)
    ids = ids[start:] if tuple(ids[:start]) == form.before_ids else _encode(tokenizer, text)
    return [*ids, *form.end]


@dataclass(frozen=True)
class Learned:
    """A sequence of fine-tuning.

    Attributes:
        ids: Its tokens.
        mask: For each token 1 if it is learned, otherwise 0.
    """

    ids: list[int]
    mask: list[int]


Asked = list[tuple[str, str]]
"""The replies of a sequence, each with the text before it since the end of the reply before."""


def learned(tokenizer: Any, messages: Sequence[Mapping[str, str]], *, enable_thinking: bool = False) -> list[Learned]:
    """The sequences in which a model learns the replies of a chat, each in the prompt that asks for it.

    Replies share a sequence as long as the template only appends. Where it shows earlier turns in another way, such as
    without their thinking, a new sequence begins.

    Args:
        tokenizer: As for `prompt_ids`.
        messages: As for `prompt_ids`. What follows the last reply is not used.
        enable_thinking: As for `prompt_ids`.

    Raises:
        UserError: The chat template does not accept the messages, or no reply follows a question.
    """
    asked = asked_of(tokenizer, messages, enable_thinking=enable_thinking)
    return [encoded(tokenizer, sequence, enable_thinking=enable_thinking) for sequence in asked]


def encoded(tokenizer: Any, asked: Asked, *, enable_thinking: bool = False) -> Learned:
    """A sequence of `asked_of` as tokens."""
    form = _form(tokenizer, enable_thinking)
    ids: list[int] = []
    mask: list[int] = []
    for between, reply in asked:
        # The end of turn decides how a tokenizer splits what follows it.
        shown = _encode(tokenizer, form.end_text + between)[len(form.end) :] if ids else _encode(tokenizer, between)
        said = reply_ids(tokenizer, reply, enable_thinking=enable_thinking)
        ids += shown + said
        mask += [0] * len(shown) + [1] * len(said)
    return Learned(ids, mask)


def asked_of(tokenizer: Any, messages: Sequence[Mapping[str, str]], *, enable_thinking: bool = False) -> list[Asked]:
    """The texts of `learned`, one item for each sequence; see there."""
    form = _form(tokenizer, enable_thinking)
    sequences: list[Asked] = []
    said = ""
    for place, message in enumerate(messages):
        if message["role"] != "assistant" or place == 0:
            continue
        text = render(tokenizer, messages[:place], enable_thinking=enable_thinking)
        if said and form.end_text and text.startswith(said):
            sequences[-1].append((text[len(said) :], message["content"]))
        else:
            sequences.append([(text, message["content"])])
        said = text + form.opening_of(message["content"]) + message["content"] + form.end_text
    if not sequences:
        raise UserError(
            f"a chat of the roles {', '.join(message['role'] for message in messages)} has no reply to learn: a "
            "message of the assistant must follow a question"
        )
    return sequences


@dataclass(frozen=True)
class _Form:
    """What a chat template writes around a reply.

    Attributes:
        before: The text before a reply, from the last added token on.
        before_ids: Its tokens.
        opening: The text between the prompt and a reply.
        end: The tokens that end the turn.
        end_text: Their text; empty if the template writes none.
    """

    before: str
    before_ids: tuple[int, ...]
    opening: str
    end: tuple[int, ...]
    end_text: str

    def opening_of(self, reply: str) -> str:
        """The opening of a reply, which is empty if the reply brings its own."""
        marks = re.findall(r"<[^<>]+>", self.opening)
        own = any(mark in reply for mark in marks) or reply.startswith(self.opening)
        return "" if own else self.opening


_ANALYSIS, _FINAL = "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"
_QUESTION, _REPLY = "\N{BULLET}", "\N{TRIANGULAR BULLET}"
_EXCHANGE = [{"role": "user", "content": _QUESTION}, {"role": "assistant", "content": _REPLY}]


def _form(tokenizer: Any, enable_thinking: bool) -> _Form:
    # A tokenizer's template can be replaced.
    return _form_of(tokenizer, str(tokenizer.chat_template), enable_thinking)


@lru_cache(maxsize=32)
def _form_of(tokenizer: Any, template: str, enable_thinking: bool) -> _Form:
    asked = render(tokenizer, _EXCHANGE[:1], enable_thinking=enable_thinking)
    shown, _, rest = render(tokenizer, _EXCHANGE, enable_thinking=enable_thinking, asks=False).partition(_REPLY)
    opening = shown.removeprefix(asked) if shown.startswith(asked) else ""
    added = {number: str(token) for number, token in tokenizer.added_tokens_decoder.items()}
    added = {number: text for number, text in added.items() if text.strip()}
    before = asked[max((asked.rfind(text) for text in added.values() if text in asked), default=0) :]
    ids = _encode(tokenizer, rest)
    last = next((place for place, number in enumerate(ids) if number in added), None)
    if last is None:
        end = () if tokenizer.eos_token_id is None else (tokenizer.eos_token_id,)
        end_text = ""
    else:
        end, mark = tuple(ids[: last + 1]), added[ids[last]]
        end_text = rest[: rest.index(mark) + len(mark)]
    return _Form(before, tuple(_encode(tokenizer, before)), opening, end, end_text)


def _encode(tokenizer: Any, text: str) -> list[int]:
    try:
        return tokenizer.encode(text, add_special_tokens=False)
    except (TypeError, UnicodeError) as error:  # tokenizers raises TypeError
        raise UserError("a message has half a surrogate pair, which is no character: leave it out") from error
