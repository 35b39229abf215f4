"""Proof of a merge: compares a merged model with its base by weights and by logits."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from safetensors import safe_open

from veritas_rl.chat_template import prompt_ids
from veritas_rl.checkpoints.adapter import headers
from veritas_rl.checkpoints.origin import Origin
from veritas_rl.errors import UserError

QUESTIONS = (
    "You play tic-tac-toe as x. The board is\nx.o\n.x.\n..o\nLegal actions: 1, 3, 5, 6, 7. Your move?",
    "Name a prime number between 20 and 30, and say in one sentence why it is prime.",
    "1, 1, 2, 3, 5, 8: what comes next? Answer in \\boxed{}.",
)
"""The prompts for the comparison of logits."""

LOGIT_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 1e-1, torch.float16: 2e-2}
"""The tolerance for logits after a merge as a share of the largest logit, by the dtype of the weights.

Merging rounds each weight once to its dtype, which moves logits. The logits are computed in float32. On models with
random weights and 4 or 28 layers the largest share was 7e-6 in float32, 3e-2 in bfloat16 and 4e-3 in float16.
"""

MOST_LOST, MUCH_LOST = 0.9, 0.25
"""The share of an adapter's effect that rounding in a merge may lose, and the share from which a warning is printed.

A merge without effect loses 1. A bfloat16 weight changes in steps of 1/256 of its value, which is more than the change
by a short training. On the same models a lora_B with entries of 1e-4 lost 0.8 to 0.95, of 1e-3 0.1 to 0.6, and of 1e-2
less than 0.1.
"""


AGREEMENT = 0.999
"""The share of places at which the merged model and the base with its adapter should agree on the most likely token.

A lower share prints a warning and is not an error, because rounding decides between nearly equal tokens.
"""


@dataclass(frozen=True)
class WeightDifference:
    """The difference between the tensors of two folders.

    Attributes:
        compared: The number of tensors with the same name in both.
        differing: The names of tensors that are not bitwise equal.
        largest: The largest absolute difference of two values.
        unmatched: Names that only one folder has.
    """

    compared: int
    differing: tuple[str, ...]
    largest: float
    unmatched: tuple[str, ...]


@dataclass(frozen=True)
class LogitDifference:
    """The difference between the logits of a merged model and of the base with its adapter.

    Attributes:
        largest: The largest absolute difference.
        tolerance: The limit of `largest`.
        adapter: The largest absolute difference between the base with and without its adapter.
        lost: The root mean square of the differences, divided by that of the adapter's effect: 0 for an exact merge, 1
            for a merge without effect.
        prompts: The number of prompts.
        places: Their total number of tokens.
        agreeing: The number of places with the same most likely token.
        disagreeing: The prompts with a different most likely token, as indices of `QUESTIONS`.
    """

    largest: float
    tolerance: float
    adapter: float
    lost: float
    prompts: int
    places: int
    agreeing: int
    disagreeing: tuple[int, ...]

    @property
    def agreement(self) -> float:
        return self.agreeing / self.places


@dataclass(frozen=True)
class Proof:
    """The report of a merge, as stored in merge.json.

    Attributes:
        source: The folder of the checkpoint or of the adapter.
        base: The base's name; None if it is unknown and nothing was compared with it.
        base_fingerprint: `adapter.weights_fingerprint` of the base.
        dtype: The dtype of the merged weights, as config.json names it.
        weights: The comparison with the base's weights.
        adapted: The number of tensors with an adapter; None if every parameter was trained.
        logits: The comparison with the base and its unmerged adapter; None if every parameter was trained.
        shard_tensors: The number of tensors that are bitwise equal to the shards; None for an adapter.
        origin: The model's training.
    """

    source: str
    base: str | None
    base_fingerprint: str | None
    dtype: str
    weights: WeightDifference | None
    adapted: int | None
    logits: LogitDifference | None
    shard_tensors: int | None
    origin: Origin

    def to_json(self) -> str:
        """The contents of merge.json, with the number of differing tensors instead of their names."""
        values = dataclasses.asdict(self)
        if self.weights is not None:
            values["weights"]["differing"] = len(self.weights.differing)
        return json.dumps(values, indent=2) + "\n"


def table_of(proof: Proof) -> Table:
    """The report as a printed table."""
    table = Table(title="merge report", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("merged from", proof.source)
    table.add_row("base", proof.base or "unknown: set AGENT_MODEL_REPO_ID to compare with it")
    table.add_row("weights", proof.dtype)
    if proof.shard_tensors is not None:
        table.add_row("tensors bitwise equal to the shards", f"all {proof.shard_tensors}")
    if proof.weights is not None:
        table.add_row(
            "tensors that differ from the base", f"{len(proof.weights.differing)} of {proof.weights.compared}"
        )
        table.add_row("largest weight difference", f"{proof.weights.largest:.3g}")
        if proof.weights.unmatched:
            table.add_row("tensors that only the model or only the base has", f"{len(proof.weights.unmatched)}")
    if proof.logits is not None:
        table.add_row("logits: merged model vs base with adapter", f"{proof.logits.largest:.3g}")
        table.add_row("logits: tolerance for rounding", f"{proof.logits.tolerance:.3g}")
        table.add_row("logits: effect of the adapter", f"{proof.logits.adapter:.3g}")
        table.add_row("share of the effect lost by rounding", f"{proof.logits.lost:.1%}")
        table.add_row(
            "positions with the same most likely token",
            f"{proof.logits.agreeing} of {proof.logits.places} ({proof.logits.agreement:.2%})",
        )
        if proof.logits.disagreeing:
            table.add_row(
                "prompts with a different most likely token", "\n".join(map(_shown, proof.logits.disagreeing))
            )
    return table


def print_proof(proof: Proof, target: Path) -> None:
    """Print the report, its warnings, and the model's folder."""
    console = Console()
    console.print(table_of(proof))
    if proof.logits is not None and proof.logits.lost > MUCH_LOST:
        console.print(
            f"rounding to {proof.dtype} lost {proof.logits.lost:.0%} of the adapter's effect: to avoid this loss, use "
            f"the base with the adapter in {target / 'lora_adapter'}",
            soft_wrap=True,
            style="yellow",
        )
    if proof.logits is not None and proof.logits.agreement < AGREEMENT:
        console.print(
            "the merged model and the base with its adapter have the same most likely token at "
            f"{proof.logits.agreeing} of {proof.logits.places} places, less than {AGREEMENT:.1%}: compare how both "
            "play",
            soft_wrap=True,
            style="yellow",
        )
    console.print(f"merged model: {target}", soft_wrap=True, highlight=False)


def compare_weights(merged: Path, base: Path) -> WeightDifference:
    """Compare two folders of safetensors, tensor by tensor.

    The base is cast to the dtype of `merged`, so that rounding does not count as a change.

    Raises:
        UserError: The folders have no common tensor name, a shape differs, or a value in `merged` is not finite.
    """
    ours, theirs = headers(merged), headers(base)
    names = sorted(ours.keys() & theirs.keys())
    if not names:
        raise UserError(f"{base} is not the base: it shares no tensor name with the merged model")
    differing: list[str] = []
    largest = 0.0
    for name in names:
        if ours[name].shape != theirs[name].shape:
            raise UserError(
                f"{base} is not the base: {name} has shape {theirs[name].shape} there, and {ours[name].shape} in the "
                "merged model"
            )
        here = _tensor(ours[name].file, name)
        there = _tensor(theirs[name].file, name).to(here.dtype)
        if not here.isfinite().all():
            raise UserError(f"{name} contains values that are not finite: use an earlier step")
        if not torch.equal(here, there):
            differing.append(name)
            largest = max(largest, (here.float() - there.float()).abs().max().item())
    return WeightDifference(len(names), tuple(differing), largest, tuple(sorted(ours.keys() ^ theirs.keys())))


def compare_state(model: Mapping[str, torch.Tensor], shards: Mapping[str, torch.Tensor]) -> int:
    """Check that a model's tensors are bitwise equal to the shards' tensors in the model's dtype, and count them.

    Raises:
        UserError: A tensor differs, or exists only on one side.
    """
    for name in sorted(model.keys() | shards.keys()):
        if name not in model or name not in shards:
            raise UserError(
                f"only {'the shards have' if name in shards else 'the merged model has'} {name}: merge again"
            )
        if not torch.equal(model[name], shards[name].to(model[name].dtype)):
            raise UserError(f"{name} of the merged model differs from the shards: merge again")
    return len(model)


def prompts(tokenizer: Any) -> list[list[int]]:
    """The token ids of the questions, in the model's chat format if it has one."""
    if not tokenizer.chat_template:
        return [tokenizer(question)["input_ids"] for question in QUESTIONS]
    return [prompt_ids(tokenizer, [{"role": "user", "content": question}]) for question in QUESTIONS]


@torch.no_grad()
def logits_of(model: Any, asked: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """The logits of each prompt as a float32 tensor (tokens, vocabulary)."""
    return [model(input_ids=torch.tensor([list(ids)])).logits[0].float() for ids in asked]


def compare_logits(
    merged: Sequence[torch.Tensor], adapted: Sequence[torch.Tensor], base: Sequence[torch.Tensor], dtype: torch.dtype
) -> LogitDifference:
    """Compare the logits of the merged model, the base with its adapter, and the base.

    Args:
        merged: `logits_of` the merged model.
        adapted: `logits_of` the base with its adapter.
        base: `logits_of` the base.
        dtype: The dtype of the merged weights.
    """
    error, effect = _differences(merged, adapted), _differences(base, adapted)
    same = [one.argmax(dim=-1) == other.argmax(dim=-1) for one, other in zip(merged, adapted, strict=True)]
    return LogitDifference(
        largest=error.max().item(),
        tolerance=LOGIT_TOLERANCE[dtype] * max(logits.abs().max().item() for logits in adapted),
        adapter=effect.max().item(),
        lost=(error.norm() / effect.norm()).item(),
        prompts=len(adapted),
        places=sum(len(places) for places in same),
        agreeing=sum(int(places.sum()) for places in same),
        disagreeing=tuple(number for number, places in enumerate(same) if not places.all()),
    )


def check_logits(proof: Proof) -> None:
    """Refuse a merged model whose logits differ from those of the base with its adapter.

    Raises:
        UserError: The logits differ by more than rounding, or rounding lost the adapter's effect.
    """
    logits = proof.logits
    assert logits is not None
    if not logits.largest <= logits.tolerance:
        raise UserError(
            f"the merged model does not answer as {proof.base} with its adapter: logits differ by "
            f"{logits.largest:.3g}, more than the {logits.tolerance:.3g} that rounding to {proof.dtype} explains"
        )
    if not logits.lost <= MOST_LOST:
        raise UserError(
            f"the merged model answers like {proof.base}, because rounding to {proof.dtype} lost {logits.lost:.0%} of "
            "the adapter's effect: train longer"
        )


def _shown(number: int) -> str:
    return f"{number}: {QUESTIONS[number].splitlines()[0]}"


def _differences(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([(one - other).abs().flatten() for one, other in zip(some, others, strict=True)])


def _tensor(file: Path, name: str) -> torch.Tensor:
    with safe_open(file, framework="pt") as opened:
        return opened.get_tensor(name)
