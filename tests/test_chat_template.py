"""Every part of the package turns the same messages into the same tokens, for each published chat template."""

import copy
import itertools
import re
from typing import Any

import pytest
from published_templates import PUBLISHED, generation_config_of, tokenizer_of

from veritas_rl.chat_template import (
    Learned,
    check_template,
    end_of_turn,
    end_tokens,
    end_warning,
    learned,
    prompt_ids,
    reply_ids,
    with_limit,
)
from veritas_rl.errors import UserError
from veritas_rl.launch.tiny_model import byte_tokenizer

ALL = pytest.mark.parametrize("name", PUBLISHED)

ASKED = [
    {"role": "user", "content": "Your move."},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nb2"},
    {"role": "user", "content": "And now?"},
]

SHOWN = {
    "chatml": "<|im_start|>user\nYour move.<|im_end|>\n<|im_start|>assistant\n<think>\nhm\n</think>\n\nb2<|im_end|>\n"
    "<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n",
    "qwen3": "<|im_start|>user\nYour move.<|im_end|>\n<|im_start|>assistant\nb2<|im_end|>\n"
    "<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "qwen3_instruct_2507": "<|im_start|>user\nYour move.<|im_end|>\n"
    "<|im_start|>assistant\n<think>\nhm\n</think>\n\nb2<|im_end|>\n"
    "<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n",
    "llama3": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
    "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nYour move.<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n<think>\nhm\n</think>\n\nb2<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nAnd now?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    **dict.fromkeys(
        ("gemma2", "gemma3"),
        "<bos><start_of_turn>user\nYour move.<end_of_turn>\n"
        "<start_of_turn>model\n<think>\nhm\n</think>\n\nb2<end_of_turn>\n"
        "<start_of_turn>user\nAnd now?<end_of_turn>\n<start_of_turn>model\n",
    ),
    "phi3_5": "<|user|>\nYour move.<|end|>\n<|assistant|>\n<think>\nhm\n</think>\n\nb2<|end|>\n"
    "<|user|>\nAnd now?<|end|>\n<|assistant|>\n",
    "phi4_mini": "<|user|>Your move.<|end|><|assistant|><think>\nhm\n</think>\n\nb2<|end|>"
    "<|user|>And now?<|end|><|assistant|>",
    "mistral_v0_3": "<s>[INST] Your move.[/INST] <think>\nhm\n</think>\n\nb2</s>[INST] And now?[/INST]",
    "deepseek_r1": "<｜begin▁of▁sentence｜><｜User｜>Your move.<｜Assistant｜>\n\nb2<｜end▁of▁sentence｜>"
    "<｜User｜>And now?<｜Assistant｜><think>\n",
    "gpt_oss": "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
    "Knowledge cutoff: 2024-06\nCurrent date: 2024-07-26\n\nReasoning: medium\n\n"
    "# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>"
    "<|start|>user<|message|>Your move.<|end|>"
    "<|start|>assistant<|channel|>final<|message|><think>\nhm\n</think>\n\nb2<|end|>"
    "<|start|>user<|message|>And now?<|end|><|start|>assistant",
    "smollm2": "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\nYour move.<|im_end|>\n<|im_start|>assistant\n<think>\nhm\n</think>\n\nb2<|im_end|>\n"
    "<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n",
}
"""The published format of `ASKED`, without thinking. The date is fixed."""


@ALL
def test_a_prompt_is_the_published_one_on_every_day(name: str) -> None:
    tokenizer = tokenizer_of(name)
    assert tokenizer.decode(prompt_ids(tokenizer, ASKED)) == SHOWN[name]


@ALL
def test_a_system_message_and_roles_in_a_row_are_shown_or_refused_by_name(name: str) -> None:
    tokenizer = tokenizer_of(name)
    given = [{"role": "system", "content": "Play well."}, *ASKED]
    if PUBLISHED[name].system:
        assert "Play well." in tokenizer.decode(prompt_ids(tokenizer, given))
    else:
        with pytest.raises(UserError, match=r"does not accept messages of the roles system, user.*not supported"):
            prompt_ids(tokenizer, given)
    if PUBLISHED[name].alternating:
        with pytest.raises(UserError, match=r"does not accept messages of the roles user, user.*must alternate"):
            prompt_ids(tokenizer, [ASKED[0], ASKED[2]])
    else:
        assert "move." in tokenizer.decode(prompt_ids(tokenizer, [ASKED[0], ASKED[2]]))


@ALL
def test_the_tokens_that_end_a_reply_are_those_of_tokenizer_model_and_template(name: str) -> None:
    tokenizer, published = tokenizer_of(name), PUBLISHED[name]
    assert tokenizer.decode(end_of_turn(tokenizer)) == published.end_of_turn
    ends = end_tokens(tokenizer, generation_config_of(name))
    assert {tokenizer.decode([end]) for end in ends} == {published.eos, published.end_of_turn, *published.ends}
    assert end_tokens(tokenizer, None) >= {tokenizer.eos_token_id, *end_of_turn(tokenizer)}


@ALL
def test_a_warning_names_ends_that_the_generation_config_lacks(name: str) -> None:
    """Of the published formats only the base model lacks one: its template was written for its chat model."""
    said = end_warning(tokenizer_of(name), generation_config_of(name), "here")
    if name == "chatml":
        assert said is not None
        assert "\n" not in said
        assert "tokenizer of here ends a turn with <|im_end|>, but its generation config with <|endoftext|>:" in said
    else:
        assert said is None


def test_a_tokenizer_that_ends_texts_with_the_start_of_a_turn_is_warned_of() -> None:
    tokenizer = copy.copy(tokenizer_of("smollm2"))
    tokenizer.eos_token = "<|im_start|>"
    said = end_warning(tokenizer, generation_config_of("smollm2"), "here")
    assert said is not None
    assert "ends a turn with <|im_start|>, but its generation config with <|im_end|>:" in said
    assert end_warning(tokenizer, None, "here") is None


def test_a_model_that_names_no_end_is_refused() -> None:
    tokenizer: Any = byte_tokenizer()
    tokenizer.chat_template = tokenizer.eos_token = None
    with pytest.raises(UserError, match="names a token that ends a reply: set eos_token in tokenizer_config"):
        end_tokens(tokenizer)
    assert end_tokens(tokenizer, generation_config_of("chatml"))


def test_a_template_for_one_question_alone_names_no_end() -> None:
    tokenizer = copy.copy(tokenizer_of("chatml"))
    tokenizer.chat_template = "{{ raise_exception('one question') if messages | length > 1 }}{{ messages[0].content }}"
    check_template(tokenizer, "here")
    assert end_tokens(tokenizer) == {tokenizer.eos_token_id}


def test_without_a_template_the_tokenizer_and_the_model_end_a_reply() -> None:
    tokenizer: Any = byte_tokenizer()
    tokenizer.chat_template = None
    assert end_tokens(tokenizer) == {tokenizer.eos_token_id}
    # A template without an end of turn leaves it to the tokenizer.
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    assert end_of_turn(tokenizer) == (tokenizer.eos_token_id,)


REPLIES = ("b2", "\nb2", "I play \\boxed{4}.", "é")


def learned_text(tokenizer: Any, row: Learned) -> list[str]:
    """The learned stretches of a row as text."""
    pairs = zip(row.ids, row.mask, strict=True)
    return [
        tokenizer.decode([token for token, _ in group])
        for is_learned, group in itertools.groupby(pairs, key=lambda pair: pair[1])
        if is_learned
    ]


@ALL
@pytest.mark.parametrize("enable_thinking", [True, False])
@pytest.mark.parametrize("reply", REPLIES)
def test_a_reply_is_learned_whole_after_the_very_prompt_that_asks_for_it(
    name: str, enable_thinking: bool, reply: str
) -> None:
    tokenizer, published = tokenizer_of(name), PUBLISHED[name]
    asked = prompt_ids(tokenizer, ASKED, enable_thinking=enable_thinking)
    *_, row = learned(tokenizer, [*ASKED, {"role": "assistant", "content": reply}], enable_thinking=enable_thinking)
    said = [*tokenizer.encode(published.opening[enable_thinking] + reply, add_special_tokens=False)]
    said += tokenizer.convert_tokens_to_ids([published.end_of_turn])
    assert row.ids == asked + said
    assert row.mask[len(asked) :] == [1] * len(said)
    assert learned_text(tokenizer, row)[-1].endswith(reply + published.end_of_turn)
    assert reply_ids(tokenizer, reply, enable_thinking=enable_thinking) == said


@ALL
@pytest.mark.parametrize("enable_thinking", [True, False])
def test_each_reply_of_a_conversation_is_learned_in_the_prompt_of_its_turn(name: str, enable_thinking: bool) -> None:
    tokenizer, published = tokenizer_of(name), PUBLISHED[name]
    chat = [
        {"role": role, "content": text}
        for role, text in zip(("user", "assistant") * 3, ("q1", "a1", "q2", "a2", "q3", "a3"), strict=True)
    ]
    rows = learned(tokenizer, [*chat, chat[0]], enable_thinking=enable_thinking)
    assert len(rows) == (1 if published.appends else 3)
    opening = published.opening[enable_thinking]
    found = [text for row in rows for text in learned_text(tokenizer, row)]
    assert found == [opening + said + published.end_of_turn for said in ("a1", "a2", "a3")]
    for place in (1, 3, 5):
        asked = prompt_ids(tokenizer, chat[:place], enable_thinking=enable_thinking)
        assert any(row.ids[: len(asked)] == asked and row.mask[len(asked)] == 1 for row in rows)


def test_a_template_that_moves_or_trims_earlier_turns_begins_a_new_sequence() -> None:
    tokenizer = tokenizer_of("mistral_v0_3")
    chat = [{"role": "system", "content": "Play."}, *ASKED, {"role": "assistant", "content": "c3"}]
    first, second = learned(tokenizer, chat)
    assert "Play.\n\nYour move." in tokenizer.decode(first.ids)
    assert "Play.\n\nAnd now?" in tokenizer.decode(second.ids)
    tokenizer = tokenizer_of("llama3")
    spaced = [ASKED[0], {"role": "assistant", "content": "b2 "}, ASKED[2], {"role": "assistant", "content": "c3"}]
    first, second = learned(tokenizer, spaced)
    assert learned_text(tokenizer, first) == ["b2 <|eot_id|>"]
    assert "b2<|eot_id|>" in tokenizer.decode(second.ids)


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("qwen3", "<think>\nhm\n</think>\n\nb2"),
        ("gpt_oss", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>b2"),
        ("mistral_v0_3", " b2"),
    ],
)
def test_a_reply_with_its_own_opening_gets_no_second_one(name: str, reply: str) -> None:
    tokenizer = tokenizer_of(name)
    said = tokenizer.decode(reply_ids(tokenizer, reply, enable_thinking=True))
    assert said == reply + PUBLISHED[name].end_of_turn


def test_a_reply_in_channels_that_was_cut_before_its_answer_is_shown_without_one() -> None:
    tokenizer = tokenizer_of("gpt_oss")
    for reply in (
        "<|channel|>analysis<|message|>hm, b2 or",
        "<|channel|>analysis<|message|>b2<|end|><|start|>assistant",
    ):
        shown = tokenizer.decode(prompt_ids(tokenizer, [ASKED[0], {"role": "assistant", "content": reply}, ASKED[2]]))
        assert "<|start|>assistant<|channel|>final<|message|><|end|><|start|>user<|message|>And now?" in shown


def test_a_chat_without_a_reply_is_refused() -> None:
    tokenizer = tokenizer_of("qwen3")
    for chat in (ASKED[:1], ASKED[1:2]):
        with pytest.raises(UserError, match="no reply to learn"):
            learned(tokenizer, chat)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (None, "the tokenizer in here has no chat template"),
        ("{{ raise_exception('a system message is needed') }}", r"here cannot be used.*roles user \(a system message"),
        ("{{ messages[0].tools | length }}{{ nothing.here }}", "here cannot be used.*undefined"),
        ("{{ 'Hello.' }}", "does not show a user's message"),
    ],
)
def test_a_template_that_shows_no_question_is_refused(template: str | None, said: str) -> None:
    tokenizer: Any = byte_tokenizer()
    tokenizer.chat_template = template
    with pytest.raises(UserError, match=said) as raised:
        check_template(tokenizer, "here")
    assert "\n" not in str(raised.value)


@ALL
def test_published_templates_pass_the_check(name: str) -> None:
    check_template(tokenizer_of(name), PUBLISHED[name].model, conversation=True)


def test_text_that_is_no_text_is_a_mistake_of_the_sender() -> None:
    with pytest.raises(UserError, match="half a surrogate pair"):
        prompt_ids(tokenizer_of("chatml"), [{"role": "user", "content": "\ud800"}])


def test_a_template_that_accepts_no_earlier_reply_is_refused_for_conversations() -> None:
    tokenizer = copy.copy(tokenizer_of("chatml"))
    tokenizer.chat_template = "{{ raise_exception('one question') if messages | length > 1 }}{{ messages[0].content }}"
    check_template(tokenizer, "here")
    with pytest.raises(UserError, match=r"roles user, assistant, user \(one question\)"):
        check_template(tokenizer, "here", conversation=True)


@pytest.mark.parametrize("enable_thinking", [True, False])
def test_the_setting_reaches_the_template_on_both_sides(enable_thinking: bool) -> None:
    tokenizer = tokenizer_of("qwen3")
    shown = prompt_ids(tokenizer, ASKED[:1], enable_thinking=enable_thinking)
    assert tokenizer.decode(shown).endswith("assistant\n" + ("" if enable_thinking else "<think>\n\n</think>\n\n"))


def test_the_limit_is_said_in_the_last_message_alone() -> None:
    messages = [{"role": "system", "content": "Play."}, {"role": "user", "content": "Your move."}]
    first, last = with_limit(messages, 2048)
    assert first == messages[0]
    assert last["content"].startswith("Your move.\n\n")
    assert re.findall(r"\d+", last["content"]) == ["2048", "1536"]
    assert messages[1]["content"] == "Your move."
    chat = [*messages, {"role": "assistant", "content": "b2"}, {"role": "user", "content": "Again."}]
    said = with_limit(chat, 2048, 2)
    assert "This conversation may have at most 2048 tokens" in said[1]["content"]
    assert [said[0], *said[2:]] == [chat[0], *chat[2:]]
