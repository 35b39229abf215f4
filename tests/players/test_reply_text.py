"""Marks of thinking survive in the text of a reply."""

from typing import Any

import pytest
from transformers import AddedToken

from veritas_rl.envs.answers import boxed
from veritas_rl.envs.base import Reply
from veritas_rl.launch.tiny_model import byte_tokenizer
from veritas_rl.players.reply_text import reply_text


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("<think>", "</think>"),
        ("[THINK]", "[/THINK]"),
        ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
        ("<|channel>", "<channel|>"),
    ],
)
@pytest.mark.parametrize("special", [True, False])
def test_marks_of_thinking_survive_where_they_are_special_tokens(opening: str, closing: str, special: bool) -> None:
    tokenizer: Any = byte_tokenizer()
    marks = [AddedToken(mark, special=special) for mark in (opening, closing)]
    tokenizer.add_tokens(marks, special_tokens=special)
    said = f"{opening}I try \\boxed{{3}} {closing}It is \\boxed{{7}}."
    ids = tokenizer.encode(said, add_special_tokens=False)
    text = reply_text(tokenizer, [*ids, tokenizer.eos_token_id])
    assert text == said
    assert boxed(Reply(text)) == "7"
    assert (boxed(Reply(tokenizer.decode(ids, skip_special_tokens=True))) == "7") is not special


def test_the_channels_of_gpt_oss_survive() -> None:
    tokenizer: Any = byte_tokenizer()
    tokenizer.add_tokens(
        [AddedToken(f"<|{name}|>", special=True) for name in ("start", "channel", "message", "end", "return")],
        special_tokens=True,
    )
    thought = "<|channel|>analysis<|message|>\\boxed{3}<|end|>"
    said = f"{thought}<|start|>assistant<|channel|>final<|message|>\\boxed{{7}}<|return|>"
    text = reply_text(tokenizer, tokenizer.encode(said, add_special_tokens=False))
    assert text == said.removesuffix("<|return|>")
    assert boxed(Reply(text)) == "7"


def test_a_reply_without_marks_is_decoded_without_special_tokens() -> None:
    tokenizer: Any = byte_tokenizer()
    ids = tokenizer.encode("b2, é", add_special_tokens=False)
    assert reply_text(tokenizer, [*ids, tokenizer.eos_token_id]) == "b2, é"
