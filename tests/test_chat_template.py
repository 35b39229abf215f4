"""Training and evaluation give a hybrid model the same prompt, with and without thinking."""

import re

import pytest

from veritas_rl.chat_template import prompt_ids, with_limit
from veritas_rl.launch.tiny_model import byte_tokenizer
from veritas_rl.verl_plugin.chat import Chat

BOTH_KINDS = (
    "{% for message in messages %}{{ message.content }}{% endfor %}"
    "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}"
)
"""A template like those of hybrid models, which turn thinking off by an empty block in the prompt."""


@pytest.mark.parametrize("enable_thinking", [True, False])
def test_the_setting_reaches_the_template_on_both_sides(enable_thinking: bool) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = BOTH_KINDS
    messages = [{"role": "user", "content": "Your move."}]
    shown = prompt_ids(tokenizer, messages, enable_thinking=enable_thinking)
    assert tokenizer.decode(shown) == "Your move." + ("" if enable_thinking else "<think></think>")
    assert Chat(tokenizer, messages, {"enable_thinking": enable_thinking}).prompt_ids == shown


def test_the_limit_is_said_in_the_last_message_alone() -> None:
    messages = [{"role": "system", "content": "Play."}, {"role": "user", "content": "Your move."}]
    first, last = with_limit(messages, 2048)
    assert first == messages[0]
    assert last["content"].startswith("Your move.\n\n")
    assert re.findall(r"\d+", last["content"]) == ["2048", "1536"]
    assert messages[1]["content"] == "Your move."
    assert "conversation" in with_limit(messages, 2048, together=True)[-1]["content"]
