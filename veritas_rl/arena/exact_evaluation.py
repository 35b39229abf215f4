"""An exact evaluation: players made, and each judged in every information state of some small games.

`train/tools/evaluate.py --exact` is its command line.
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from veritas_rl.arena.evaluation import folder_of, progress
from veritas_rl.arena.exact import ExactReport, judge, judge_reference, questions_of
from veritas_rl.arena.loading import NamedPlayer, ReplySettings, open_player
from veritas_rl.envs.openspiel.cases import DEFAULT_CASES, select, split_list
from veritas_rl.errors import UserError
from veritas_rl.players.opponents import check_bot

DEFAULT_GAMES = ("kuhn_poker", "leduc_poker", "tic_tac_toe")

REFERENCES = {"random": "uniform", "exact": "optimum"}
"""The bots whose policies are known without asking them."""

OTHER = 0.5
"""Above this share of other replies, the policy that is judged is the lesser part of what the player says."""


@dataclass(frozen=True)
class ExactSettings:
    """What is judged exactly, and how.

    Attributes:
        checkpoint: Who is judged, see `loading`.
        compare: Who is judged beside it; None for nobody.
        cases: Games by short name and cases, with commas; "" for `DEFAULT_GAMES`.
        prompt: "full", "unlisted" or "brief".
        samples: Answers in each state, see `judge`; None for probabilities where they are to be had.
        replies: How models write.
        base: See `open_player`.
    """

    checkpoint: str
    compare: str | None = None
    cases: str = ""
    prompt: str = "full"
    samples: int | None = None
    replies: ReplySettings = field(default_factory=lambda: ReplySettings(temperature=1.0))
    base: str | None = None

    def __post_init__(self) -> None:
        if self.samples is not None and self.samples < 1:
            raise UserError(f"one sample at least is drawn in each state, {self.samples} were given")
        if self.compare == self.checkpoint:
            raise UserError(f"{self.compare} is compared with itself: name another checkpoint")

    @property
    def folder(self) -> Path:
        """Where the report goes, unless told."""
        return folder_of(self.checkpoint, self)


@dataclass(frozen=True)
class ExactEvaluation:
    """Everything that an exact evaluation found.

    Attributes:
        settings: How it was made.
        players: The judged players, by name, with their identities.
        reports: For each case the report of each player by name, and then those of `REFERENCES`.
        notes: What a reader must know, a sentence each.
        seconds: How long each case took.
    """

    settings: ExactSettings
    players: dict[str, str]
    reports: dict[str, dict[str, ExactReport]]
    notes: list[str]
    seconds: dict[str, float]


def evaluate_exactly(settings: ExactSettings, folder: Path, console: Console) -> ExactEvaluation:
    """Judge each player in each case.

    Args:
        settings: What to judge.
        folder: Where models that are merged for it are kept.
        console: Where to tell.

    Raises:
        UserError: A player does not exist, or a game is unknown, too large or of a kind without exact values.
    """
    cases = select(DEFAULT_CASES, split_list(settings.cases, "games") or DEFAULT_GAMES)
    names = [settings.checkpoint, *([settings.compare] if settings.compare else ())]
    for case in cases:  # before a model is loaded
        questions_of(case, settings.prompt)
    reports: dict[str, dict[str, ExactReport]] = {}
    seconds: dict[str, float] = {}
    with ExitStack() as stack:
        players: list[NamedPlayer] = []
        for name in names:
            player = open_player(name, settings.replies, folder / "models", settings.base)
            stack.callback(player.close)
            if not player.is_model:
                check_bot(name, cases)
            players.append(player)
        for case in cases:
            started = time.monotonic()
            asked = [player for player in players if player.name not in REFERENCES]
            total = len(asked) * len(questions_of(case, settings.prompt))
            found: dict[str, ExactReport] = {}
            if asked:
                console.print(f"{case}: {total} states", highlight=False)
                with progress(console, total, 0, "state") as advance:
                    for player in asked:
                        found[player.name] = judge(
                            player.player,
                            case,
                            prompt=settings.prompt,
                            samples=_samples(settings, player),
                            advance=advance,
                        )
            for name, which in REFERENCES.items():
                found[name] = judge_reference(which, case, settings.prompt)
            reports[case], seconds[case] = found, time.monotonic() - started
    return ExactEvaluation(
        settings=settings,
        players={player.name: player.identity for player in players},
        reports=reports,
        notes=_notes(reports),
        seconds=seconds,
    )


def _samples(settings: ExactSettings, player: NamedPlayer) -> int | None:
    """A model without temperature answers the same each time: one answer is its whole policy."""
    return 1 if player.is_model and settings.replies.temperature == 0 else settings.samples


def _notes(reports: dict[str, dict[str, ExactReport]]) -> list[str]:
    notes = []
    for case, found in reports.items():
        for name, report in found.items():
            if name in REFERENCES:
                continue
            metrics = report.metrics
            told = f"{case}, {name}: all {metrics['states']} states asked"
            if report.way == "probabilities":
                told += "; a policy of probabilities: each legal action by its number alone, as the whole reply"
                rest = "illegal or other"
            else:
                told += f"; a policy of {report.samples} answers in each state, read as in games"
                rest = "illegal"
            told += (
                f"; {rest}: mean {metrics['illegal_mean']:.4f}, max {metrics['illegal_max']:.4f};"
                f" {metrics['states_without_legal_answer']} states without any legal answer (taken as uniform there)."
            )
            notes.append(told)
            if report.mistakes:
                counts = ", ".join(f"{count} {reason}" for reason, count in report.mistakes.items())
                notes.append(f"{case}, {name}: {counts}.")
            if report.floor:
                notes.append(
                    f"{case}, {name}: with so many answers in each state the optimum itself shows a NashConv of"
                    f" {report.floor:.4f}: less of a difference is noise, and more --samples lower it."
                )
            if report.way == "probabilities" and metrics["illegal_mean"] > OTHER:
                notes.append(
                    f"{case}, {name}: most of what it says is something else, and NashConv is that of the little that"
                    " is left: if it thinks before it answers, or names its moves, judge it with --samples N."
                )
    return notes
