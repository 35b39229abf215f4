"""Supervised warm-up: teach a model with random weights the answer format before reinforcement learning.

A model with random weights never writes a legal answer. Every reward would be 0, and reinforcement learning could not
start. One or two minutes of imitation in plain torch are enough. A lesson is a question with all its correct replies.
The model learns a uniform distribution over the correct replies, so that it prefers none.
"""

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from veritas_rl.chat_template import prompt_ids, reply_ids
from veritas_rl.checkpoints.folder import save_model_folder
from veritas_rl.envs.base import Message
from veritas_rl.errors import UserError
from veritas_rl.players.language_model import load_language_model

RISE = 10
"""Updates in which the learning rate rises to its full value."""

DECAY_SHARE = 0.2
"""Length of the final decay to a tenth of the learning rate, as a share of the updates before it. The rate is constant
in between. The model learns most at the full rate, and only the decay makes replies exact."""

EVERY = 40
"""Updates between two measurements, while the rate is constant."""

MASS_WEIGHT = 2.0
"""The weight of the joint likelihood of all correct tokens while the rate is constant. The cross-entropy has weight 1.
With the cross-entropy only, the probability of the many wrong tokens falls slowly: on 5x5 Clobber 13% of the sampled
replies are wrong after 400 updates. A constant weight of 16 leaves 1%, but then the correct replies are far from
equally likely: 0.23 nats per token on 6x6 Breakthrough after 700 updates."""

FALLING_MASS_WEIGHT = 32.0
"""The same weight during the decay, when the correct replies are already equally likely. On 5x5 Clobber the decay
raises legal replies from 92% to 98%, and they end 0.08 nats per token from equally likely."""

NEARLY = 0.05
"""The decay starts when the measure is this close to the goal. The decay raises the measure by more than this."""


@dataclass(frozen=True)
class Lesson:
    """A question, and the replies that the model learns with equal probability.

    Attributes:
        messages: The prompt's messages.
        replies: At least one correct reply.
    """

    messages: tuple[Message, ...]
    replies: tuple[str, ...]


@dataclass(frozen=True)
class Progress:
    """The progress of a warm-up.

    Attributes:
        step: The number of updates.
        share: The used share of the limits, in [0, 1].
        loss: The cross-entropy of the last update, in nats per token.
        measured: The last result of `measure`; nan before the first measurement.
    """

    step: int
    share: float
    loss: float
    measured: float


def warm_up(
    model_folder: Path,
    output: Path,
    lessons: Sequence[Lesson],
    *,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    tokens: int | None = None,
    enough: float = 1.0,
    measure: Callable[[Any, Any], float] | None = None,
    on_step: Callable[[Progress], None],
) -> dict[str, float]:
    """Fine-tune a model on lessons, and save it as a new folder.

    The loss is the weighted mean of two terms, each averaged over the replies' tokens, including the end token. The
    first is the cross-entropy with the distribution of the next token over the correct replies that share the prefix.
    The second, with weight `MASS_WEIGHT`, is the negative log of the total probability of these next tokens. Both are
    equal if only one next token is correct.

    Args:
        model_folder: A Hugging Face folder with Qwen's chat format.
        output: The model's new folder. It must be missing or empty, and is written atomically.
        lessons: The lessons. Lessons longer than the model's context are skipped.
        steps: The maximum number of updates.
        batch_size: Lessons in one update, drawn without repetition until all were used.
        learning_rate: The peak learning rate.
        seed: Fixes the order of the lessons and the reply that is drawn from each. The global random state is not used.
        tokens: The maximum number of prompt and reply tokens in all updates. The schedule ends within it. It limits the
            time like a number of seconds, but the result does not depend on the machine.
        enough: The measure at which the warm-up ends.
        measure: Takes model and tokenizer and returns a quality in [0, 1]. Without it, all updates are made.
        on_step: Called after each update.

    Returns:
        "steps"; "first_loss" and "loss" (cross-entropy in nats per token; "loss" is the mean of the last tenth of the
        updates); "accuracy" (share of reply tokens whose likeliest token was correct, over the same updates); "tokens"
        (prompt and reply tokens in all updates); "measured" (nan without `measure`); "seconds".

    Raises:
        UserError: `model_folder` contains no model, `output` is not empty, or no lesson fits into the model's context.
        ValueError: `lessons` is empty, or `steps` or `batch_size` is less than 1.
    """
    if not lessons or steps < 1 or batch_size < 1:
        raise ValueError(f"lessons, steps and batch_size must be at least 1, not {len(lessons)}, {steps}, {batch_size}")
    started = time.monotonic()
    model, tokenizer = load_language_model(model_folder, dtype=torch.float32)
    draw = random.Random(seed)
    encode = _encoder(tokenizer)
    longest = model.config.max_position_embeddings
    fitting = _fitting(encode, lessons, _order(len(lessons), seed), draw, longest=longest)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    losses: list[float] = []
    accuracies: list[float] = []
    learned, used, measured, falls_from = 0, 0.0, math.nan, 0
    last, in_limits, measured_at = steps, True, 0
    model.train()
    for step in range(steps):
        if falls_from and step >= last and in_limits and measure is not None:
            measured, measured_at = _measured(measure, model, tokenizer), step
            if measured < enough:
                falls_from, last = 0, steps  # the decay was not enough: continue at the full rate
        if not falls_from and used >= 1 / (1 + DECAY_SHARE):
            falls_from, in_limits = step, False
        if falls_from == step > 0:
            last = min(math.ceil(step * (1 + DECAY_SHARE)), math.ceil(step / used))
        if step >= last or used >= 1:
            break
        batch = [next(fitting) for _ in range(batch_size)]
        ids, rows, allowed = _pad(batch)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * _schedule(step, falls_from, last)
        mass_weight = FALLING_MASS_WEIGHT if falls_from else MASS_WEIGHT
        loss, cross_entropy, right = _loss(model, ids, rows, allowed, mass_weight)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        learned += sum(len(encoded) for encoded, _, _ in batch)
        used = min(1.0, max((step + 1) / steps, learned / tokens if tokens else 0.0))
        losses.append(cross_entropy)
        accuracies.append(right)
        if measure is not None and not falls_from and (step + 1) % EVERY == 0:
            measured, measured_at = _measured(measure, model, tokenizer), step + 1
            if measured >= enough - NEARLY:
                falls_from = step + 1
        on_step(Progress(step + 1, used, losses[-1], measured))
    if measure is not None and measured_at < len(losses):
        measured = _measured(measure, model, tokenizer)
    save_model_folder(model.eval(), tokenizer, output)
    tail = max(len(losses) // 10, 1)
    return {
        "steps": len(losses),
        "first_loss": losses[0] if losses else math.nan,
        "loss": sum(losses[-tail:]) / tail if losses else math.nan,
        "accuracy": sum(accuracies[-tail:]) / tail if losses else math.nan,
        "tokens": learned,
        "measured": measured,
        "seconds": time.monotonic() - started,
    }


def _measured(measure: Callable[[Any, Any], float], model: Any, tokenizer: Any) -> float:
    model.eval()
    found = measure(model, tokenizer)
    model.train()
    return found


def _order(count: int, seed: int) -> Iterator[int]:
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(count, generator=generator).tolist()


def _schedule(step: int, falls_from: int, last: int) -> float:
    """The learning rate of an update as a share of the peak: it rises, stays constant, and decays.

    Args:
        step: The update, from 0.
        falls_from: The first update of the decay; 0 while it is unknown.
        last: The number of updates: the decay ends before this update.
    """
    if falls_from and step >= falls_from:
        return max(0.1, (last - step) / (last - falls_from + 1))
    return min(1.0, (step + 1) / RISE)


Encoded = tuple[list[int], list[int], list[dict[int, float]]]
"""The token ids of a prompt and one reply, the positions whose next token is learned, and for each position the
distribution of the next token."""


def _encoder(tokenizer: Any) -> Callable[[Lesson, random.Random], Encoded]:
    """Make a function that tokenizes a lesson and draws one of its replies. It caches, because lessons are repeated."""

    @lru_cache(maxsize=100_000)
    def said(reply: str) -> tuple[int, ...]:
        return tuple(reply_ids(tokenizer, reply))

    @lru_cache(maxsize=100_000)
    def asked(messages: tuple[tuple[tuple[str, str], ...], ...]) -> tuple[int, ...]:
        return tuple(prompt_ids(tokenizer, [dict(message) for message in messages]))

    def encode(lesson: Lesson, draw: random.Random) -> Encoded:
        prompt = asked(tuple(tuple(message.items()) for message in lesson.messages))
        alike = [said(reply) for reply in lesson.replies]
        shown = draw.choice(alike)
        follows: list[dict[int, float]] = []
        for place, token in enumerate(shown):
            counts = Counter(reply[place] for reply in alike)
            follows.append({other: count / len(alike) for other, count in counts.items()})
            alike = [reply for reply in alike if reply[place] == token]
        # The position before a token predicts the token.
        places = list(range(len(prompt) - 1, len(prompt) - 1 + len(shown)))
        return [*prompt, *shown], places, follows

    return encode


def _fitting(
    encode: Callable[[Lesson, random.Random], Encoded],
    lessons: Sequence[Lesson],
    order: Iterator[int],
    draw: random.Random,
    *,
    longest: int,
) -> Iterator[Encoded]:
    skipped = 0
    for index in order:
        encoded = encode(lessons[index], draw)
        if len(encoded[0]) <= longest:
            skipped = 0
            yield encoded
        elif (skipped := skipped + 1) == len(lessons):
            raise UserError(
                f"no example of the warm-up fits into the model's context of {longest} tokens: set "
                "data.max_prompt_length to more, or choose shorter tasks"
            )


def _pad(batch: Sequence[Encoded]) -> tuple[torch.Tensor, list[tuple[int, int]], list[dict[int, float]]]:
    """Token ids (lessons, tokens), padded on the right; the (row, position) pairs that are learned; and for each pair
    the distribution of the next token."""
    width = max(len(ids) for ids, _, _ in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    rows: list[tuple[int, int]] = []
    allowed: list[dict[int, float]] = []
    for row, (tokens, places, follows) in enumerate(batch):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        rows += [(row, place) for place in places]
        allowed += follows
    return ids, rows, allowed


def _loss(
    model: Any, ids: torch.Tensor, rows: list[tuple[int, int]], allowed: list[dict[int, float]], mass_weight: float
) -> tuple[torch.Tensor, float, float]:
    """The loss over the learned positions, their cross-entropy, and the share whose likeliest token is correct."""
    # Padding is on the right, which causal attention never sees. Without a mask the pass is faster.
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    lines, places = torch.tensor(rows).T
    logits = model.get_output_embeddings()(hidden[lines, places]).log_softmax(dim=-1)
    entries = [(row, token, share) for row, shares in enumerate(allowed) for token, share in shares.items()]
    where, tokens, shares = zip(*entries, strict=True)
    weights = torch.zeros_like(logits)
    weights[torch.tensor(where), torch.tensor(tokens)] = torch.tensor(shares)
    likeliest = logits.detach().argmax(dim=-1, keepdim=True)
    right = (weights.gather(1, likeliest) > 0).float().mean().item()
    cross_entropy = -(weights * logits).sum() / len(rows)
    of_right_tokens = -logits.masked_fill(weights == 0, -math.inf).logsumexp(dim=-1).mean()
    loss = (cross_entropy + mass_weight * of_right_tokens) / (1 + mass_weight)
    return loss, cross_entropy.item(), right
