"""The rows of a training batch, and what each of them says in a few words."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

COLUMNS = {
    "rollout_log_probs": "rollout",
    "old_log_probs": "trainer",
    "difference": "diff",
    "rm_scores": "reward",
    "advantages": "advantage",
    "values": "value",
    "returns": "return",
    "token_level_rewards": "reward with KL",
    "ref_log_prob": "reference",
    "rollout_is_weights": "weight",
    "entropy": "entropy",
}
"""The columns of a token table, by their name in a batch. A run has only some of them."""


@dataclass(frozen=True)
class Row:
    """One trajectory of a batch.

    Attributes:
        number: Its place in the batch, from 0.
        rank: The rank that learned from it.
        group: The number of its task in the batch, from 1; 0 for padding.
        copy: Which sample of the task it is, from 0.
        reply: Its place among the trajectories of its game, from 0.
        turn: Its place among those of its seat in its game, from 0.
        padding: Whether verl added it to fill the batch.
        info: What the agent loop says of it: seat, opponent, task and score.
        prompt: Token ids.
        response: Token ids of the reply, in conversations with the messages between replies.
        learned: Whether the loss counts each token of `response`.
        columns: Numbers for each token of `response`, see `COLUMNS`.
    """

    number: int
    rank: int
    group: int
    copy: int
    reply: int
    turn: int
    padding: bool
    info: Mapping[str, Any]
    prompt: Sequence[int]
    response: Sequence[int]
    learned: Sequence[bool]
    columns: Mapping[str, Sequence[float]]

    @cached_property
    def places(self) -> list[int]:
        """The places of the learned tokens in `response`."""
        return [place for place, learned in enumerate(self.learned) if learned]

    def of_learned(self, column: str) -> list[float]:
        """The numbers of the learned tokens; empty if the run has no such column."""
        values = self.columns.get(column)
        return [values[place] for place in self.places] if values is not None else []

    @property
    def reward(self) -> float:
        """The sum over the tokens."""
        return sum(self.columns["rm_scores"])

    @property
    def rewarded(self) -> list[int]:
        """The places of the tokens with a reward."""
        return [place for place, reward in enumerate(self.columns["rm_scores"]) if reward]

    @property
    def seat(self) -> int:
        """The seat of the player."""
        return int(self.info.get("seat", 0))

    @property
    def where(self) -> str:
        """Row, rank, group, copy, seat and turn."""
        own = f"row {self.number}, rank {self.rank}"
        return own if self.padding else f"{own}: copy {self.copy}, seat {self.seat}, turn {self.turn}"

    @property
    def marks(self) -> list[str]:
        """What is particular to the row."""
        marks = {
            "padding": self.padding,
            "no learned token": not self.places,
            "prompt too long": bool(self.info.get("overlong")) and not self.padding,
            "cut at the limit": bool(self.info.get("truncated")) and not self.padding,
        }
        return [mark for mark, holds in marks.items() if holds]

    @property
    def numbers(self) -> list[tuple[str, str]]:
        """Lengths, reward and its place, advantage and log-probability difference, each with its name."""
        found = [("prompt", f"{len(self.prompt)} tokens")]
        found.append(("reply", f"{len(self.response)} tokens, {len(self.places)} learned"))
        at = ", ".join(f"{place + 1} of {len(self.response)}" for place in self.rewarded[:4])
        found.append(("reward", f"{self.reward:.4g}" + (f" at token {at}" if at else "")))
        for column in ("advantages", "values"):
            if values := self.of_learned(column):
                one = f"{values[0]:.4g}" if min(values) == max(values) else f"{min(values):.4g} to {max(values):.4g}"
                found.append((COLUMNS[column], one))
        if differences := [abs(value) for value in self.of_learned("difference")]:
            said = f"mean {fmean(differences):.2g}, most {max(differences):.2g}"
            found.append(("log-prob difference", said))
        if not self.padding:
            found.append(("outcome", str(self.info.get("reason", "not recorded"))))
        return found


@dataclass(frozen=True)
class Batch:
    """A batch, or its saved part.

    Attributes:
        step: The training step.
        settings: The settings that belong to it: experiment, model, algorithm, temperature and lengths.
        total: The number of rows of the whole batch, with padding.
        padding: The number of padding rows of the whole batch.
        rows: The rows by group, copy, seat and turn; padding last.
        ends: The token ids that end a reply.
        start: The token id that begins a text; None if the model has none.
        bound: The mean difference of probabilities that rounding explains.
        decode: Turns token ids into text, with special tokens.
    """

    step: int
    settings: Mapping[str, Any]
    total: int
    padding: int
    rows: Sequence[Row]
    ends: frozenset[int]
    start: int | None
    bound: float
    decode: Callable[[Sequence[int]], str]

    @property
    def real(self) -> list[Row]:
        """The rows that are no padding."""
        return [row for row in self.rows if not row.padding]

    @property
    def groups(self) -> dict[int, list[Row]]:
        """The rows by group, without padding."""
        found: dict[int, list[Row]] = defaultdict(list)
        for row in self.real:
            found[row.group].append(row)
        return dict(found)

    @property
    def title(self) -> str:
        """Experiment and step."""
        return f"{self.settings.get('experiment') or 'a run'}, step {self.step}"


def pieces(decode: Callable[[Sequence[int]], str], ids: Sequence[int]) -> list[str]:
    """The text of each token. A character of several tokens is the text of the last of them.

    A tokenizer may drop a space at the start of a text, so each token is decoded with the one before.
    """
    found: list[str] = []
    before = read = 0
    for place in range(len(ids)):
        shown, text = decode(ids[before:read]), decode(ids[before : place + 1])
        if text.endswith("\N{REPLACEMENT CHARACTER}") and place + 1 < len(ids) and place - read < 3:
            found.append("")
            continue
        found.append(text[len(shown) :])
        before, read = read, place + 1
    return found


def visible(text: str) -> str:
    """Text in which line breaks have a sign, and no character controls a terminal or the direction of writing."""
    return "".join(
        "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}\n"
        if sign == "\n"
        else sign
        if sign.isprintable()
        else f"\\u{{{ord(sign):x}}}"
        for sign in text
    )
