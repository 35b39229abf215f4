"""A language model as a player: the chat template formats a turn's messages, and the engine generates the reply."""

import dataclasses
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from veritas_rl.chat_template import check_template, prompt_ids, with_limit
from veritas_rl.checkpoints.adapter import check_size
from veritas_rl.envs.base import Message, Reply, Turn
from veritas_rl.errors import UserError
from veritas_rl.players.answer_probabilities import Candidates, log_probabilities
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.processor import join_head_input, one_thread
from veritas_rl.players.reply_text import reply_text
from veritas_rl.players.sampling import Completion, SamplingParams
from veritas_rl.seeding import digest


class LanguageModelPlayer:
    """A player that generates replies with an engine.

    Args:
        engine: The engine of the model.
        tokenizer: The model's tokenizer, with a chat template.
        params: The sampling parameters of every reply.
        seed: Seeds each reply together with the turn's dice, so that a reply is the same in any batch; None uses the
            engine's own generator.
        enable_thinking: Whether a model with a thinking mode thinks before it answers.
        say_limit: Whether each prompt states the token limit of the reply.
    """

    def __init__(
        self,
        engine: GenerationEngine,
        tokenizer: Any,
        params: SamplingParams,
        seed: int | str | None = None,
        *,
        enable_thinking: bool = False,
        say_limit: bool = False,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._params = params
        self._seed = seed
        self._enable_thinking = enable_thinking
        self._say_limit = say_limit

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        """One reply for each turn, in order.

        A reply is truncated if the token limit cut it, or if a conversation has no room for it. It is overlong if the
        prompt is too long.
        """
        asked = [self._question(turn) for turn in turns]
        # Requests with the same prompt and seed have the same reply, so they are sent once.
        alike = self._params.temperature == 0 or self._seed is not None
        requests = list(dict.fromkeys(asked)) if alike else asked
        completions = iter(self._engine.generate([(prompt, params) for prompt, params in requests if params]))
        replies = [
            self._reply(prompt, next(completions)) if params else Reply("", truncated=True, prompt_tokens=len(prompt))
            for prompt, params in requests
        ]
        if not alike:
            return replies
        said = dict(zip(requests, replies, strict=True))
        return [said[request] for request in asked]

    @property
    def gives_probabilities(self) -> bool:
        """Whether `answer_probabilities` match its sampling: a temperature above 0, without top-p and top-k."""
        return self._params.temperature > 0 and self._params.top_p == 1 and self._params.top_k == -1

    def answer_probabilities(self, turns: Sequence[Turn]) -> list[tuple[float, ...]]:
        """For each turn the probability of each of its answers, in order, at the player's temperature.

        This is the probability that the complete reply is the answer's text, tokenized as this text. An answer that
        exceeds the token limit has the probability 0. The remainder up to 1 belongs to all other replies: other
        spellings of the answers, answers after thinking, and mistakes.

        Raises:
            ValueError: The player does not sample from all tokens, see `gives_probabilities`.
        """
        if not self.gives_probabilities:
            raise ValueError("answer probabilities need a temperature above 0, top_p 1 and top_k -1")
        texts = sorted({answer for turn in turns for answer in turn.answers})
        tokens = {text: tuple(self._tokenizer.encode(text, add_special_tokens=False)) for text in texts}
        asked, kept = [], []
        for turn in turns:
            prompt = self._encode(self._shown(turn))
            limit = min(self._params.max_new_tokens, self._engine.max_model_len - len(prompt))
            fits = [len(tokens[answer]) < limit for answer in turn.answers]
            kept.append(fits)
            asked.append(Candidates(prompt, tuple(tokens[a] for a, fit in zip(turn.answers, fits, strict=True) if fit)))
        ends = self._engine.eos_token_ids | set(self._params.stop_token_ids)
        with self._engine.exclusive():
            found = log_probabilities(
                self._engine.model, [row for row in asked if row.replies], ends, self._params.temperature
            )
        values = iter(found)
        probabilities = []
        for row, fits in zip(asked, kept, strict=True):
            mine = iter(next(values)) if row.replies else iter(())
            probabilities.append(tuple(math.exp(next(mine)) if fit else 0.0 for fit in fits))
        return probabilities

    def _reply(self, prompt: Sequence[int], completion: Completion) -> Reply:
        return Reply(
            text=reply_text(self._tokenizer, completion.token_ids),
            truncated=completion.stop_reason == "length" and bool(completion.token_ids),
            overlong=completion.stop_reason == "length" and not completion.token_ids,
            prompt_tokens=len(prompt),
            tokens=len(completion.token_ids),
            token_ids=tuple(completion.token_ids),
        )

    def _question(self, turn: Turn) -> tuple[tuple[int, ...], SamplingParams | None]:
        """The prompt, and the sampling parameters; None if a conversation has no room for a reply."""
        messages, limit = self._shown(turn), self._params.max_new_tokens
        prompt = self._encode(messages)
        if turn.opening:
            # As in training, the limit covers all that follows the opening.
            limit -= len(prompt) - len(self._encode(messages[: turn.opening]))
        if limit < 1:
            return prompt, None
        seeded = self._seed is not None and self._params.temperature != 0
        seed = digest("reply", self._seed, *turn.dice) if seeded else self._params.seed
        return prompt, dataclasses.replace(self._params, max_new_tokens=limit, seed=seed)

    def _shown(self, turn: Turn) -> Sequence[Message]:
        return (
            with_limit(turn.messages, self._params.max_new_tokens, turn.opening) if self._say_limit else turn.messages
        )

    def _encode(self, messages: Sequence[Message]) -> tuple[int, ...]:
        return tuple(prompt_ids(self._tokenizer, messages, enable_thinking=self._enable_thinking))


def load_language_model(
    folder: Path, device: str | torch.device | None = None, dtype: torch.dtype | None = None
) -> tuple[Any, Any]:
    """Load a model and its tokenizer from a Hugging Face folder; nothing is downloaded.

    Args:
        folder: A folder with config.json, safetensors weights and a tokenizer with a chat template.
        device: The model's device; by default the CPU.
        dtype: The dtype of the weights; by default the saved one.

    Returns:
        A transformers model in eval mode, and its tokenizer.

    Raises:
        UserError: The folder does not exist, lacks files, or does not load.
    """
    _check_model_folder(folder)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    check_size(folder, memory, ", or serve it on another machine and name its address")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        with one_thread():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype or "auto", local_files_only=True, output_loading_info=True
            )
        model, loading = loaded
    except (
        Exception
    ) as error:  # a damaged file makes transformers, tokenizers and safetensors raise many types of errors
        raise UserError(f"transformers cannot load the model in {folder}: {type(error).__name__}: {error}") from error
    if loading["missing_keys"]:
        # transformers fills missing weights with random values and only warns.
        raise UserError(
            f"the weights in {folder} lack {min(loading['missing_keys'])}; merge a checkpoint and use the merged folder"
        )
    check_template(tokenizer, folder)
    join_head_input(model)
    return model.to(device or "cpu").eval(), tokenizer


def _check_model_folder(folder: Path) -> None:
    wanted = {
        "config.json": ("config.json",),
        "a tokenizer (tokenizer.json)": ("tokenizer.json", "tokenizer.model", "vocab.json"),
    }
    if not folder.is_dir():
        raise UserError(f"no model at {folder}: there is no such folder")
    missing = [what for what, patterns in wanted.items() if not any(any(folder.glob(p)) for p in patterns)]
    if missing:
        hint = "; checkpoints of a trainer must be merged first" if "config.json" not in missing else ""
        raise UserError(f"no model at {folder}: it lacks {', '.join(missing)}{hint}")
