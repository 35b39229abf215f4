"""Compares a merged model with its base and unmerged adapter on recorded prompts and replies of games.

The merge itself compares both on a few questions (`compare.py`). This module compares the next-token predictions at
every place of recorded prompts and replies.
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from veritas_rl.chat_template import prompt_ids, reply_ids
from veritas_rl.checkpoints.adapter import base_name, check_adapter
from veritas_rl.checkpoints.compare import AGREEMENT, LOGIT_TOLERANCE, logits_of
from veritas_rl.checkpoints.layout import ADAPTER
from veritas_rl.checkpoints.models import Base, dtype_name, load_adapter, load_model, saved_dtype
from veritas_rl.errors import UserError

Asked = tuple[tuple[tuple[str, str], ...], str]
"""The role and content of each message, and the reply."""


@dataclass(frozen=True)
class Disagreement:
    """A prompt and reply for which the most likely token differs.

    Attributes:
        messages: The prompt's messages.
        reply: The recorded reply.
        places: The number of places where the most likely token differs.
    """

    messages: tuple[dict[str, str], ...]
    reply: str
    places: int


@dataclass(frozen=True)
class Agreement:
    """The comparison of a merged model with its base and adapter.

    Attributes:
        merged: The merged model's folder.
        dtype: The dtype of its weights. Logits are computed in float32.
        prompts: The number of different prompts with replies.
        places: Their total number of tokens.
        agreeing: The number of places with the same most likely token.
        largest: The largest absolute difference of two logits.
        tolerance: The tolerance for rounding to `dtype`: `compare.LOGIT_TOLERANCE` times the largest logit.
        disagreeing: The prompts for which the most likely token differs.
    """

    merged: str
    dtype: str
    prompts: int
    places: int
    agreeing: int
    largest: float
    tolerance: float
    disagreeing: tuple[Disagreement, ...]

    @property
    def holds(self) -> bool:
        """Whether the logits are within the tolerance, and the same token is likeliest at `AGREEMENT` of the places."""
        return self.largest <= self.tolerance and self.agreeing >= AGREEMENT * self.places

    def in_words(self) -> str:
        """Whether the merged model is the same, in a sentence."""
        return (
            f"merged against base + adapter: {'the same' if self.holds else 'NOT the same'}: logits differ by "
            f"{self.largest:.2g} at most, tolerance {self.tolerance:.2g} in {self.dtype}; both find the same token "
            f"most likely at {self.agreeing} of {self.places} positions ({self.agreeing / self.places:.3%}, at least "
            f"{AGREEMENT:.1%} required) of {self.prompts} prompts; prompts that differ: {len(self.disagreeing)}"
        )

    def to_json(self) -> str:
        """The comparison as JSON."""
        return json.dumps({**dataclasses.asdict(self), "wanted": AGREEMENT, "holds": self.holds}, indent=2) + "\n"


@torch.no_grad()
def compare_on(merged: Path, asked: Sequence[Asked]) -> Agreement:
    """Compare the logits of a merged model and of its base with the adapter on prompts and replies.

    Both models are in memory at once in float32, on the GPU if there is one.

    Args:
        merged: A merged model's folder that contains `lora_adapter`.
        asked: The prompts with replies.

    Raises:
        UserError: The adapter or its base is missing, or `asked` is empty.
    """
    adapter = merged / ADAPTER
    if not adapter.is_dir():
        raise UserError(f"{merged} has no {ADAPTER}: choose a model that was merged from an adapter")
    if not asked:
        raise UserError(
            "the recorded games have no prompt of a model: run evaluate.py with --games_to_show to record some"
        )
    base = Base.find(base_name(adapter)).folder
    check_adapter(adapter, base)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    whole = load_model(merged, merged, torch.float32).to(device)
    adapted = load_adapter(load_model(base, merged, torch.float32), adapter).to(device)
    tokenizer: Any = AutoTokenizer.from_pretrained(merged, local_files_only=True)
    places = agreeing = 0
    largest = highest = 0.0
    disagreeing: list[Disagreement] = []
    for messages, reply in asked:
        shown = tuple({"role": role, "content": content} for role, content in messages)
        ids = [*prompt_ids(tokenizer, shown), *reply_ids(tokenizer, reply)]
        (one,), (other,) = logits_of(whole, [ids]), logits_of(adapted, [ids])
        largest = max(largest, (one - other).abs().max().item())
        highest = max(highest, other.abs().max().item())
        same = int((one.argmax(dim=-1) == other.argmax(dim=-1)).sum())
        places, agreeing = places + len(ids), agreeing + same
        if same < len(ids):
            disagreeing.append(Disagreement(shown, reply, len(ids) - same))
    dtype = saved_dtype(merged)
    return Agreement(
        merged=str(merged),
        dtype=dtype_name(dtype),
        prompts=len(asked),
        places=places,
        agreeing=agreeing,
        largest=largest,
        tolerance=LOGIT_TOLERANCE[dtype] * highest,
        disagreeing=tuple(disagreeing),
    )
