"""Supervised warm-up: teach a fresh model the form of the answers before reinforcement learning teaches it their worth.

A model of random weights never writes a legal answer, so every reward is 0 and nothing could be learned from them.
A minute of imitation on (messages, reply) pairs, in plain torch, is enough to start from.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from veritas_rl.checkpoints.folder import save_model_folder
from veritas_rl.envs.base import Message
from veritas_rl.errors import UserError
from veritas_rl.launch.tiny_model import END
from veritas_rl.players.language_model import load_language_model, prompt_ids

WARM_UP_SHARE = 0.05
"""The share of the warm-up in which the learning rate rises to its full value."""

DECAY_SHARE = 0.15
"""The share at the end in which it falls, to a tenth. In between it is constant: most is learned at full speed."""

IGNORED = -100
"""The label of a token that is not learned: the prompt's, and padding."""


def warm_up(
    model_folder: Path,
    output: Path,
    examples: Sequence[tuple[list[Message], str]],
    *,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    seconds: float,
    on_step: Callable[[int, int, float], None],
) -> dict[str, float]:
    """Fine-tune a model on replies, and save it as a new folder.

    The loss is the mean cross-entropy of the replies' tokens, the token that ends a reply among them.

    Args:
        model_folder: A Hugging Face folder with Qwen's chat format.
        output: Where the model is written, whole or not at all. It must not exist yet, or be empty.
        examples: Pairs of the messages shown and the reply to learn. Those that are longer than the model's context
            are left out.
        steps: How many updates.
        batch_size: Examples in one update; drawn without repetition until all were seen.
        learning_rate: The highest of the schedule.
        seed: Fixes the order of the examples. The global random state is neither read nor moved.
        seconds: After this long no further update begins; the schedule is over by then.
        on_step: Called after each update with its number from 1, `steps`, and the loss.

    Returns:
        "steps" made, "first_loss" and "loss" (nats a token; the latter the mean of the last tenth of the updates),
        "accuracy" (share of reply tokens that were the likeliest, over the same updates), "tokens" learned from,
        "seconds".

    Raises:
        UserError: `model_folder` holds no model, `output` is not empty, or no example fits into the model's context.
        ValueError: There are no examples.
    """
    if not examples or steps < 1 or batch_size < 1:
        raise ValueError(f"need examples, steps and a batch size: {len(examples)}, {steps}, {batch_size} were given")
    started = time.monotonic()
    model, tokenizer = load_language_model(model_folder, dtype=torch.float32)
    end = tokenizer.convert_tokens_to_ids(END)
    longest = model.config.max_position_embeddings
    fitting = _fitting(tokenizer, examples, _order(len(examples), seed), end=end, longest=longest)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    losses: list[float] = []
    accuracies: list[float] = []
    learned = 0
    model.train()
    for step in range(steps):
        if time.monotonic() - started > seconds:
            break
        ids, labels = _pad(list(itertools.islice(fitting, batch_size)))
        for group in optimizer.param_groups:
            # Where the time will run out first, the schedule ends with it; else the clock changes nothing.
            late = (time.monotonic() - started) / seconds
            group["lr"] = learning_rate * _schedule(max(step / steps, late if late > 0.5 else 0.0))
        # Padding is to the right, where causal attention never looks: no mask is needed, and its absence is faster.
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1].flatten(0, 1)
        targets = labels[:, 1:].flatten()
        loss = cross_entropy(logits, targets, ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        replies = targets != IGNORED
        learned += int(replies.sum())
        losses.append(loss.item())
        accuracies.append((logits.argmax(dim=-1) == targets)[replies].float().mean().item())
        on_step(step + 1, steps, losses[-1])
    save_model_folder(model.eval(), tokenizer, output)
    last = max(len(losses) // 10, 1)
    return {
        "steps": len(losses),
        "first_loss": losses[0] if losses else math.nan,
        "loss": sum(losses[-last:]) / last if losses else math.nan,
        "accuracy": sum(accuracies[-last:]) / last if losses else math.nan,
        "tokens": learned,
        "seconds": time.monotonic() - started,
    }


def _order(count: int, seed: int) -> Any:
    """Endless indices of examples: one permutation after another."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(count, generator=generator).tolist()


def _schedule(progress: float) -> float:
    """The share of the learning rate when `progress`, in [0, 1], of the warm-up is over."""
    if progress < WARM_UP_SHARE:
        return (progress + 0.01) / (WARM_UP_SHARE + 0.01)
    return 1.0 if progress < 1 - DECAY_SHARE else max(0.1, (1 - progress) / DECAY_SHARE)


def _encode(tokenizer: Any, messages: list[Message], reply: str, *, end: int) -> tuple[list[int], list[int]]:
    """The tokens of prompt and reply, and their labels."""
    prompt = prompt_ids(tokenizer, messages)
    answer = [*tokenizer.encode(reply, add_special_tokens=False), end]
    return prompt + answer, [IGNORED] * len(prompt) + answer


def _fitting(
    tokenizer: Any, examples: Sequence[tuple[list[Message], str]], order: Iterator[int], *, end: int, longest: int
) -> Iterator[tuple[list[int], list[int]]]:
    """The examples in an endless order, encoded, without those that have more tokens than the model reads."""
    skipped = 0
    for index in order:
        ids, labels = _encode(tokenizer, *examples[index], end=end)
        if len(ids) <= longest:
            skipped = 0
            yield ids, labels
        elif (skipped := skipped + 1) == len(examples):
            raise UserError(
                f"no example of the warm-up fits: the model's context holds {longest} tokens; set "
                "data.max_prompt_length to more, or choose shorter tasks"
            )


def _pad(batch: Sequence[tuple[list[int], list[int]]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels, both [examples, tokens], padded to the right."""
    width = max(len(ids) for ids, _ in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    labels = torch.full((len(batch), width), IGNORED)
    for row, (tokens, marks) in enumerate(batch):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        labels[row, : len(marks)] = torch.tensor(marks)
    return ids, labels
