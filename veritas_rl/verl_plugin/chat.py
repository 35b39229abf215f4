"""One chat of one seat, stored as the token ids that were shown and sampled.

A reply is never tokenized again, so the loss is computed on the sampled tokens. The tokens between two replies come
from the chat template and have no loss.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from veritas_rl.envs.base import Message

_REPLY = "\N{BULLET}"
"""Placeholder for a reply, to render the text after it."""


class Chat:
    """A prompt and what followed it.

    Args:
        tokenizer: A tokenizer with a chat template.
        messages: The first messages; empty if the model is not asked.
        template_kwargs: Arguments for the template, such as enable_thinking.
    """

    def __init__(self, tokenizer: Any, messages: Sequence[Message], template_kwargs: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer
        self._template_kwargs = template_kwargs
        self.prompt_ids: list[int] = (
            tokenizer.apply_chat_template(
                list(messages), add_generation_prompt=True, tokenize=True, return_dict=False, **template_kwargs
            )
            if messages
            else [tokenizer.eos_token_id]
        )
        self.response_ids: list[int] = []
        self.response_mask: list[int] = []
        self.log_probs: list[float] | None = []

    @property
    def ids(self) -> list[int]:
        """The token ids that the model reads before its next reply."""
        return self.prompt_ids + self.response_ids

    def say(self, token_ids: Sequence[int], log_probs: Sequence[float] | None) -> None:
        """Add a reply as it was sampled. If log-probabilities are missing, the trajectory has none."""
        self.response_ids += token_ids
        self.response_mask += [1] * len(token_ids)
        self.log_probs = self.log_probs + list(log_probs) if self.log_probs is not None and log_probs else None

    def add_message(self, content: str) -> None:
        """Add a user message after a reply."""
        token_ids = self._tokenizer.encode(self._after_reply(content), add_special_tokens=False)
        end = self._tokenizer.eos_token_id
        if self.response_ids and token_ids and self.response_ids[-1] == token_ids[0] == end:
            token_ids = token_ids[1:]  # the model has already written the end token
        self.response_ids += token_ids
        self.response_mask += [0] * len(token_ids)
        if self.log_probs is not None:
            self.log_probs += [0.0] * len(token_ids)

    def _after_reply(self, content: str) -> str:
        messages = [
            {"role": "user", "content": ""},
            {"role": "assistant", "content": _REPLY},
            {"role": "user", "content": content},
        ]
        text = self._tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=False, **self._template_kwargs
        )
        return text.partition(_REPLY)[2]

    def output(self, seconds: float, extra_fields: dict[str, Any], *, log_probs: bool) -> AgentLoopOutput:
        """The trajectory in verl's format."""
        return AgentLoopOutput(
            prompt_ids=self.prompt_ids,
            response_ids=self.response_ids,
            response_mask=self.response_mask,
            response_logprobs=self.log_probs if log_probs else None,
            metrics=AgentLoopMetrics(generate_sequences=seconds, num_preempted=0),
            extra_fields=extra_fields,
        )
