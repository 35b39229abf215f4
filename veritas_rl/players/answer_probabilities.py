"""Computes the probability that a language model gives each of several complete replies, without sampling.

All replies to one prompt share one row. A tree mask lets the tokens of a reply attend to the prompt and to their own
reply only, so the prompt is computed once. A common prefix of all prompts, such as the rules of a game, is computed
once for all rows.
"""

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

BATCH_TOKENS = 16_384
"""The maximum number of tokens of one forward pass, including padding and the shared prefix."""

BATCH_LOGITS = 2**26
"""The maximum number of logits of one forward pass: 256 MiB in float32."""


@dataclass(frozen=True)
class Candidates:
    """A prompt and its candidate replies.

    Attributes:
        prompt: The tokens of the prompt, at least one.
        replies: The tokens of each reply without the end token, at least one each.
    """

    prompt: tuple[int, ...]
    replies: tuple[tuple[int, ...], ...]

    @property
    def width(self) -> int:
        """The total number of tokens of all replies."""
        return sum(map(len, self.replies))


@torch.inference_mode()
def log_probabilities(
    model: Any, asked: Sequence[Candidates], ends: Collection[int], temperature: float = 1.0
) -> list[list[float]]:
    """The log-probability of each reply as the model's whole output: its tokens, then an end token.

    Args:
        model: A transformers causal language model with full attention in every layer, in eval mode.
        asked: The prompts and their replies.
        ends: The tokens that end a reply.
        temperature: The divisor of the logits, above 0.

    Returns:
        For each prompt, the log-probability of each reply, in nats, computed in float32.
    """
    if not asked:
        return []
    # At least one token of each prompt stays in its row, because it predicts the first token of each reply.
    shared = _common([row.prompt for row in asked])[: min(len(row.prompt) for row in asked) - 1]
    beginning = None
    if shared:
        beginning = DynamicCache(config=model.config)
        ids = torch.tensor([shared], device=model.device)
        model.base_model(input_ids=ids, past_key_values=beginning, use_cache=True)
    order = sorted(range(len(asked)), key=lambda index: len(asked[index].prompt) + asked[index].width)
    found: list[list[float]] = [[]] * len(asked)
    while order:
        largest = asked[order[-1]]
        logits = (max(asked[index].width for index in order) + 1) * model.config.get_text_config().vocab_size
        count = max(1, min(BATCH_TOKENS // (len(largest.prompt) + largest.width), BATCH_LOGITS // logits))
        batch, order = order[-count:], order[:-count]
        made = _batch(model, [asked[index] for index in batch], beginning, len(shared), sorted(ends), temperature)
        for index, values in zip(batch, made, strict=True):
            found[index] = values
    return found


def _common(prompts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    # The common prefix of all prompts is that of the first and the last in lexicographic order.
    first, last = min(prompts), max(prompts)
    length = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:length]


def _batch(
    model: Any,
    rows: Sequence[Candidates],
    beginning: DynamicCache | None,
    skipped: int,
    ends: Sequence[int],
    temperature: float,
) -> list[list[float]]:
    """Run one forward pass. Prompts are padded on the left, so that replies start in one column; replies on the right.

    `beginning` contains the first `skipped` tokens of every prompt.
    """
    first = max(len(row.prompt) for row in rows) - skipped
    width = first + max(row.width for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    places = torch.zeros(len(rows), width, dtype=torch.long)
    parts = torch.full((len(rows), width), -1)  # -1: padding, 0: the prompt, above 0: the number of the reply
    targets: list[tuple[int, int, int, int]] = []  # row, predicting column, token or -1 for an end token, reply
    count = 0
    for index, row in enumerate(rows):
        rest = row.prompt[skipped:]
        at = first - len(rest)
        ids[index, at:first] = torch.tensor(rest)
        places[index, at:first] = torch.arange(skipped, len(row.prompt))
        parts[index, at:first] = 0
        at = first
        for number, reply in enumerate(row.replies, 1):
            end = at + len(reply)
            ids[index, at:end] = torch.tensor(reply)
            places[index, at:end] = torch.arange(len(row.prompt), len(row.prompt) + len(reply))
            parts[index, at:end] = number
            columns = (first - 1, *range(at, end))
            targets += [
                (index, column - first + 1, token, count) for column, token in zip(columns, (*reply, -1), strict=True)
            ]
            at, count = end, count + 1
    cache = None
    if beginning is not None:
        cache = copy.deepcopy(beginning)
        cache.batch_repeat_interleave(len(rows))
    logits = model(
        input_ids=ids.to(model.device),
        position_ids=places.to(model.device),
        attention_mask=_tree_mask(parts.to(model.device), skipped, model.dtype),
        past_key_values=cache,
        use_cache=cache is not None,
        logits_to_keep=width - first + 1,
    ).logits
    logprobs = torch.log_softmax(logits.float() / temperature, dim=-1)
    at_row, column, token, reply = torch.tensor(targets, device=model.device).unbind(1)
    ending = torch.logsumexp(logprobs[..., list(ends)], dim=-1)
    each = torch.where(token >= 0, logprobs[at_row, column, token.clamp(min=0)], ending[at_row, column])
    sums = torch.zeros(count, device=model.device).index_add_(0, reply, each).tolist()
    values = iter(sums)
    return [[next(values) for _ in row.replies] for row in rows]


def _tree_mask(parts: torch.Tensor, skipped: int, dtype: torch.dtype) -> torch.Tensor:
    """The attention bias, [rows, 1, columns, skipped + columns]: 0 for visible tokens, else the lowest float."""
    rows, width = parts.shape
    column = torch.arange(width, device=parts.device)
    looked, looking = parts[:, None, :], parts[:, :, None]
    # Padding attends to itself, because softmax over no token is NaN.
    allowed = (column[None, :] <= column[:, None]) & ((looked == 0) | (looked == looking))
    before = torch.ones(rows, width, skipped, dtype=torch.bool, device=parts.device)
    allowed = torch.cat([before, allowed], dim=-1)[:, None]
    return torch.zeros(allowed.shape, dtype=dtype, device=parts.device).masked_fill(~allowed, torch.finfo(dtype).min)
