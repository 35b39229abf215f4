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
"""What both models are asked when their logits are compared."""

LOGIT_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 1e-1, torch.float16: 2e-2}
"""By the dtype of the weights: how far a logit may move when an adapter is merged, as a share of the largest logit.

Merging rounds each weight once to its dtype, and that alone moves logits; they are computed in float32. On models of
random weights with 4 and 28 layers the largest share was 7e-6 in float32, 3e-2 in bfloat16 and 4e-3 in float16.
"""

MOST_LOST, MUCH_LOST = 0.9, 0.25
"""Which share of an adapter's effect a merge may lose by rounding, and from which share on people are warned.

A merge without effect loses 1. In bfloat16 a weight moves in steps of 1/256 of itself, which is more than a short
training moves it: on the same models a lora_B with entries of 1e-4 lost 0.8 to 0.95, of 1e-3 0.1 to 0.6, and of 1e-2
less than 0.1.
"""


AGREEMENT = 0.999
"""At which share of places the merged model and the base with its adapter should find the same token likeliest.

People are warned below it, and nothing is refused: where two tokens are nearly as likely, rounding decides.
"""


@dataclass(frozen=True)
class WeightDifference:
    """How the tensors of two folders differ.

    Attributes:
        compared: How many tensors have the same name in both.
        differing: The names of those that are not equal, bit for bit.
        largest: The largest absolute difference of two values.
        unmatched: Names that only one of the two has.
    """

    compared: int
    differing: tuple[str, ...]
    largest: float
    unmatched: tuple[str, ...]


@dataclass(frozen=True)
class LogitDifference:
    """How the logits of a merged model differ from those of the base with its adapter.

    Attributes:
        largest: The largest absolute difference.
        tolerance: The most that it may be.
        adapter: The largest absolute difference between the base with its adapter and without.
        lost: The root mean square of the differences, over that of the adapter's own: 0 for a merge that is exact, 1
            for one without effect.
        prompts: How many prompts were asked.
        places: How many tokens they have together.
        agreeing: At how many places both find the same token likeliest.
        disagreeing: The prompts in which they do not everywhere, by their numbers in `QUESTIONS`, from 0.
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
        """The share of places with the same likeliest token."""
        return self.agreeing / self.places


@dataclass(frozen=True)
class Proof:
    """What was merged, and how it compares. This is what merge.json holds.

    Attributes:
        source: The folder of the checkpoint or of the adapter.
        base: The base's name; None if none is known, and then nothing could be compared with it.
        base_fingerprint: `adapter.weights_fingerprint` of the base.
        dtype: Of the merged weights, as config.json names it.
        weights: Against the base.
        adapted: How many tensors have an adapter; None if every parameter was trained.
        logits: Against the base with its adapter, not merged; None if every parameter was trained.
        shard_tensors: How many tensors are bit for bit those of the shards; None for an adapter.
        origin: Of what training it comes.
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
        """As it stands in merge.json, with the number of differing tensors instead of their names."""
        values = dataclasses.asdict(self)
        if self.weights is not None:
            values["weights"]["differing"] = len(self.weights.differing)
        return json.dumps(values, indent=2) + "\n"


def table_of(proof: Proof) -> Table:
    """The proof, for people."""
    table = Table(title="what was merged, and how it compares", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("from", proof.source)
    table.add_row("base", proof.base or "unknown, so nothing was compared with it: AGENT_MODEL_REPO_ID names it")
    table.add_row("weights", proof.dtype)
    if proof.shard_tensors is not None:
        table.add_row("tensors equal to the shards, bit for bit", f"all {proof.shard_tensors}")
    if proof.weights is not None:
        table.add_row(
            "tensors that differ from the base", f"{len(proof.weights.differing)} of {proof.weights.compared}"
        )
        table.add_row("largest difference of a weight", f"{proof.weights.largest:.3g}")
        if proof.weights.unmatched:
            table.add_row("tensors that only one of the two has", f"{len(proof.weights.unmatched)}")
    if proof.logits is not None:
        table.add_row("logits: merged against base with adapter", f"{proof.logits.largest:.3g}")
        table.add_row("logits: what rounding may make of it", f"{proof.logits.tolerance:.3g}")
        table.add_row("logits: what the adapter changes", f"{proof.logits.adapter:.3g}")
        table.add_row("share of that which rounding lost", f"{proof.logits.lost:.1%}")
        table.add_row(
            "places where both find the same token likeliest",
            f"{proof.logits.agreeing} of {proof.logits.places} ({proof.logits.agreement:.2%})",
        )
        if proof.logits.disagreeing:
            table.add_row("prompts in which they do not", "\n".join(map(_shown, proof.logits.disagreeing)))
    return table


def print_proof(proof: Proof, target: Path) -> None:
    """Print the proof, what is to be known of it, and where the model is."""
    console = Console()
    console.print(table_of(proof))
    if proof.logits is not None and proof.logits.lost > MUCH_LOST:
        console.print(
            f"rounding to {proof.dtype} lost {proof.logits.lost:.0%} of what the adapter does: nearer to what was "
            f"trained is the base with the adapter in {target / 'lora_adapter'}",
            soft_wrap=True,
            style="yellow",
        )
    if proof.logits is not None and proof.logits.agreement < AGREEMENT:
        console.print(
            f"the merged model and the base with its adapter find the same token likeliest at {proof.logits.agreeing} "
            f"of {proof.logits.places} places, and {AGREEMENT:.1%} are wanted: compare how both play",
            soft_wrap=True,
            style="yellow",
        )
    console.print(f"the merged model: {target}", soft_wrap=True, highlight=False)


def compare_weights(merged: Path, base: Path) -> WeightDifference:
    """Compare two folders of safetensors, a tensor at a time.

    Both are taken in the dtype of `merged`, so that a base that was only rounded counts as unchanged.

    Raises:
        UserError: A tensor has another shape in the base, or a value in `merged` is not a finite number.
    """
    ours, theirs = headers(merged), headers(base)
    names = sorted(ours.keys() & theirs.keys())
    if not names:
        raise UserError(f"{base} is not the base: none of its tensors has the name of a merged one")
    differing: list[str] = []
    largest = 0.0
    for name in names:
        if ours[name].shape != theirs[name].shape:
            raise UserError(
                f"{base} is not the base: {name} is {theirs[name].shape} there, and {ours[name].shape} here"
            )
        here = _tensor(ours[name].file, name)
        there = _tensor(theirs[name].file, name).to(here.dtype)
        if not here.isfinite().all():
            raise UserError(f"{name} holds values that are not finite numbers: use an earlier step")
        if not torch.equal(here, there):
            differing.append(name)
            largest = max(largest, (here.float() - there.float()).abs().max().item())
    return WeightDifference(len(names), tuple(differing), largest, tuple(sorted(ours.keys() ^ theirs.keys())))


def compare_state(model: Mapping[str, torch.Tensor], shards: Mapping[str, torch.Tensor]) -> int:
    """How many tensors a model has, each of which is bit for bit the shards' in the model's dtype.

    Raises:
        UserError: One is not, or one of the two has a tensor that the other has not.
    """
    for name in sorted(model.keys() | shards.keys()):
        if name not in model or name not in shards:
            raise UserError(f"{name} is in {'the shards' if name in shards else 'the merged model'} alone")
        if not torch.equal(model[name], shards[name].to(model[name].dtype)):
            raise UserError(f"{name} of the merged model is not what the shards hold")
    return len(model)


def prompts(tokenizer: Any) -> list[list[int]]:
    """The token ids of the questions, in the model's chat format if it has one."""
    if not tokenizer.chat_template:
        return [tokenizer(question)["input_ids"] for question in QUESTIONS]
    return [prompt_ids(tokenizer, [{"role": "user", "content": question}]) for question in QUESTIONS]


@torch.no_grad()
def logits_of(model: Any, asked: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """The logits at each place of each prompt: a (tokens, vocabulary) tensor of float32 for each."""
    return [model(input_ids=torch.tensor([list(ids)])).logits[0].float() for ids in asked]


def compare_logits(
    merged: Sequence[torch.Tensor], adapted: Sequence[torch.Tensor], base: Sequence[torch.Tensor], dtype: torch.dtype
) -> LogitDifference:
    """Compare what `logits_of` gave for the merged model, the base with its adapter, and the base alone.

    Args:
        dtype: Of the merged weights.
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
    """Refuse a merge that does not answer as the base with its adapter does.

    Raises:
        UserError: It answers otherwise, or as the base does.
    """
    logits = proof.logits
    assert logits is not None
    if not logits.largest <= logits.tolerance:
        raise UserError(
            f"the merged model does not answer as {proof.base} with its adapter: logits differ by {logits.largest:.3g} "
            f"and rounding to {proof.dtype} makes at most {logits.tolerance:.3g}"
        )
    if not logits.lost <= MOST_LOST:
        raise UserError(
            f"the merged model answers as {proof.base} does: rounding to {proof.dtype} lost {logits.lost:.0%} of what "
            "the adapter does; train longer"
        )


def _shown(number: int) -> str:
    """A question of which only the first line is shown."""
    return f"{number}: {QUESTIONS[number].splitlines()[0]}"


def _differences(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([(one - other).abs().flatten() for one, other in zip(some, others, strict=True)])


def _tensor(file: Path, name: str) -> torch.Tensor:
    with safe_open(file, framework="pt") as opened:
        return opened.get_tensor(name)
