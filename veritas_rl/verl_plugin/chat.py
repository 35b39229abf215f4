"""The tokens of one trajectory: a prompt, the replies as they were sampled, and the template's text between them.

The model always reads what the chat template writes for the messages so far, as evaluation, serving and play do. A
reply that was sampled is never tokenized again, so the loss is computed on the sampled tokens. Many templates only
append to a chat: then a conversation is one trajectory. Others write earlier replies differently later, such as without
their thinking: then the reply after that begins a new trajectory.
"""

from collections.abc import Sequence
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput


class Chat:
    """A prompt and what followed it.

    Args:
        tokenizer: A tokenizer with a chat template.
        prompt: The tokens of the prompt.
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self.prompt_ids = list(prompt)
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

    def goes_on(self, prompt: Sequence[int], most: int) -> bool:
        """Add what a later prompt of the same conversation has after this chat, without loss.

        Args:
            prompt: The tokens of the later prompt, as the template writes it.
            most: The maximum number of tokens of this chat afterwards.

        Returns:
            Whether the later prompt begins with the text of this chat, and there is room. If not, nothing is added.
        """
        length = self._length_in(prompt)
        if length is None:
            return False
        between = list(prompt[length:])
        if len(self.ids) + len(between) > most:
            return False
        self.response_ids += between
        self.response_mask += [0] * len(between)
        if self.log_probs is not None:
            self.log_probs += [0.0] * len(between)
        return True

    def _length_in(self, prompt: Sequence[int]) -> int | None:
        """How many tokens at the start of a prompt have the text of this chat; None if none have."""
        own = self.ids
        if list(prompt[: len(own)]) == own:
            return len(own)
        # The model may have written a text in other tokens than the tokenizer. Its last token, mostly the end of the
        # turn, also ends this text in the prompt.
        first = len(self.prompt_ids)
        if list(prompt[:first]) != self.prompt_ids:
            return None
        text = self._tokenizer.decode(self.response_ids)
        for place in range(len(prompt), first, -1):
            if prompt[place - 1] == own[-1] and self._tokenizer.decode(list(prompt[first:place])) == text:
                return place
        return None

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
