"""Supervised warm-up: teach a fresh model the form of the answers before reinforcement learning teaches it their worth.

A model of random weights never writes a legal answer, so every reward is 0 and nothing could be learned from them.
A minute or two of imitation, in plain torch, is enough to start from. A lesson is a question with all its right
replies: the model learns to write each of them equally often, so that it knows none to be better than another.
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

from veritas_rl.chat_template import prompt_ids
from veritas_rl.checkpoints.folder import save_model_folder
from veritas_rl.envs.base import Message
from veritas_rl.errors import UserError
from veritas_rl.launch.tiny_model import END
from veritas_rl.players.language_model import load_language_model

RISE = 10
"""In how many updates the learning rate rises to its full value."""

DECAY_SHARE = 0.2
"""How long it falls at the end, to a tenth, as a share of the updates before. In between it is constant: most is
learned at full speed, and only the fall makes replies exact."""

EVERY = 40
"""After how many updates the model is measured, while the rate is constant."""

MASS_WEIGHT = 2.0
"""The weight of the likelihood of all right tokens together, beside the cross-entropy's 1, while the rate is constant.
By cross-entropy alone the probability that is spread over the many wrong tokens falls slowly: on 5x5 Clobber 13% of the
sampled replies are wrong after 400 updates. A weight of 16 from the start leaves 1%, but the right replies are far from
equally likely then: 0.23 nats a token away on 6x6 Breakthrough after 700 updates."""

FALLING_MASS_WEIGHT = 32.0
"""The same while the rate falls, when the right replies are equally likely already. On 5x5 Clobber the fall takes
the legal replies from 92% to 98%, and they end 0.08 nats a token from equally likely."""

NEARLY = 0.05
"""So much below what is wanted, the learning rate begins to fall: the fall brings more than this."""


@dataclass(frozen=True)
class Lesson:
    """A question, and all replies to it that are to be written equally often.

    Attributes:
        messages: What is shown.
        replies: At least one.
    """

    messages: tuple[Message, ...]
    replies: tuple[str, ...]


@dataclass(frozen=True)
class Progress:
    """How far a warm-up has come.

    Attributes:
        step: Updates made.
        loss: The cross-entropy of the last one, in nats a token.
        measured: What `measure` found last; nan before it was asked.
    """

    step: int
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
    seconds: float,
    enough: float = 1.0,
    measure: Callable[[Any, Any], float] | None = None,
    on_step: Callable[[Progress], None],
) -> dict[str, float]:
    """Fine-tune a model on lessons, and save it as a new folder.

    The loss is the weighted mean of two terms, each averaged over the replies' tokens, the token that ends a reply
    among them. The first is the cross-entropy against the tokens that may stand there: after a reply's first tokens, in
    proportion to the replies that go on with each. The second, of weight `MASS_WEIGHT`, is the negative log-likelihood
    of all tokens that may stand there together. Where one token alone may, both are the same.

    Args:
        model_folder: A Hugging Face folder with Qwen's chat format.
        output: Where the model is written, whole or not at all. It must not exist yet, or be empty.
        lessons: Those that are longer than the model's context are left out.
        steps: The most updates.
        batch_size: Lessons in one update; drawn without repetition until all were seen.
        learning_rate: The highest of the schedule.
        seed: Fixes the order of the lessons and which reply of each is shown. The global random state is neither read
            nor moved.
        seconds: The longest that it takes; the schedule is over by then.
        enough: The measure with which it ends.
        measure: Takes model and tokenizer and says how good the model is, in [0, 1]; without it, all updates are made.
        on_step: Called after each update.

    Returns:
        "steps" made, "first_loss" and "loss" (the cross-entropy in nats a token; the latter the mean of the last tenth
        of the updates),
        "accuracy" (share of reply tokens whose likeliest token was right, over the same updates), "tokens" learned
        from, "measured" (nan without `measure`), "seconds".

    Raises:
        UserError: `model_folder` holds no model, `output` is not empty, or no lesson fits into the model's context.
        ValueError: There are no lessons.
    """
    if not lessons or steps < 1 or batch_size < 1:
        raise ValueError(f"need lessons, steps and a batch size: {len(lessons)}, {steps}, {batch_size} were given")
    started = time.monotonic()
    model, tokenizer = load_language_model(model_folder, dtype=torch.float32)
    draw = random.Random(seed)
    encode = _encoder(tokenizer)
    longest = model.config.max_position_embeddings
    fitting = _fitting(encode, lessons, _order(len(lessons), seed), draw, longest=longest)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    losses: list[float] = []
    accuracies: list[float] = []
    learned, measured, falls_from = 0, math.nan, 0
    last, in_time, measured_at = steps, True, 0
    model.train()
    for step in range(steps):
        spent = (time.monotonic() - started) / seconds
        if falls_from and step >= last and in_time and measure is not None:
            measured, measured_at = _measured(measure, model, tokenizer), step
            if measured < enough:
                falls_from, last = 0, steps  # the fall did not bring enough: learn on at full speed
        if not falls_from and (step >= steps / (1 + DECAY_SHARE) or spent >= 1 / (1 + DECAY_SHARE)):
            falls_from, in_time = max(step, 1), False
        if falls_from:
            last = min(steps, math.ceil(falls_from * (1 + DECAY_SHARE)))
        if step >= last or spent > 1:
            break
        ids, rows, allowed = _pad([next(fitting) for _ in range(batch_size)])
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * _schedule(step, falls_from, last)
        mass_weight = FALLING_MASS_WEIGHT if falls_from else MASS_WEIGHT
        loss, cross_entropy, right = _loss(model, ids, rows, allowed, mass_weight)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        learned += len(rows)
        losses.append(cross_entropy)
        accuracies.append(right)
        if measure is not None and not falls_from and (step + 1) % EVERY == 0:
            measured, measured_at = _measured(measure, model, tokenizer), step + 1
            if measured >= enough - NEARLY:
                falls_from = step + 1
        on_step(Progress(step + 1, losses[-1], measured))
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
    """Endless indices of lessons: one permutation after another."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(count, generator=generator).tolist()


def _schedule(step: int, falls_from: int, last: int) -> float:
    """The share of the learning rate in an update, counted from 0: it rises, stays, and falls from a step to the last.

    Args:
        step: The update.
        falls_from: Where the fall begins; 0 while that is not known.
        last: The update before which it ends.
    """
    if falls_from and step >= falls_from:
        return max(0.1, (last - step) / (last - falls_from + 1))
    return min(1.0, (step + 1) / RISE)


Encoded = tuple[list[int], list[int], list[dict[int, float]]]
"""The tokens of a prompt and one of its replies, the places whose next token is learned, and what may follow each."""


def _encoder(tokenizer: Any) -> Callable[[Lesson, random.Random], Encoded]:
    """What makes tokens of lessons. It remembers what it has seen: each lesson comes many times."""
    end = tokenizer.convert_tokens_to_ids(END)

    @lru_cache(maxsize=100_000)
    def reply_ids(reply: str) -> tuple[int, ...]:
        return (*tokenizer.encode(reply, add_special_tokens=False), end)

    @lru_cache(maxsize=100_000)
    def asked(messages: tuple[tuple[tuple[str, str], ...], ...]) -> tuple[int, ...]:
        return tuple(prompt_ids(tokenizer, [dict(message) for message in messages]))

    def encode(lesson: Lesson, draw: random.Random) -> Encoded:
        prompt = asked(tuple(tuple(message.items()) for message in lesson.messages))
        alike = [reply_ids(reply) for reply in lesson.replies]
        shown = draw.choice(alike)
        follows: list[dict[int, float]] = []
        for place, token in enumerate(shown):
            counts = Counter(reply[place] for reply in alike)
            follows.append({other: count / len(alike) for other, count in counts.items()})
            alike = [reply for reply in alike if reply[place] == token]
        # A token is said by the place before it.
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
    """The lessons in an endless order, encoded, without those that have more tokens than the model reads."""
    skipped = 0
    for index in order:
        encoded = encode(lessons[index], draw)
        if len(encoded[0]) <= longest:
            skipped = 0
            yield encoded
        elif (skipped := skipped + 1) == len(lessons):
            raise UserError(
                f"no example of the warm-up fits: the model's context holds {longest} tokens; set "
                "data.max_prompt_length to more, or choose shorter tasks"
            )


def _pad(batch: Sequence[Encoded]) -> tuple[torch.Tensor, list[tuple[int, int]], list[dict[int, float]]]:
    """Token ids [lessons, tokens], padded to the right; the places that are learned, and what may follow each."""
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
    """The loss of the learned places, their cross-entropy, and the share whose likeliest token may stand there."""
    # Padding is to the right, where causal attention never looks: no mask is needed, and its absence is faster.
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
