"""An exact evaluation: opens players and judges each in every information state of small games.

`train/tools/evaluate.py --exact` is its command line.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from veritas_rl.checkpoints.layout import step_of, whole_checkpoints
from veritas_rl.configs import split_list
from veritas_rl.envs.openspiel.cases import DEFAULT_CASES, select
from veritas_rl.errors import UserError
from veritas_rl.exact.answers import AnswerLedger
from veritas_rl.exact.policies import SAMPLES, ExactReport, questions_of, score_policy, score_reference
from veritas_rl.judging.evaluation import folder_of
from veritas_rl.judging.forecast import Forecast, forecast_of_states
from veritas_rl.parallel import Workers
from veritas_rl.players.cost import Purse
from veritas_rl.players.loading import NamedPlayer, ReplySettings, check_player, open_player
from veritas_rl.players.registry import check_bot, is_bot
from veritas_rl.players.shared import share
from veritas_rl.progress import progress
from veritas_rl.seeding import digest

DEFAULT_GAMES = ("kuhn_poker", "leduc_poker", "tic_tac_toe")

REFERENCES = {"random": "uniform", "exact": "optimum"}
"""The bots whose policies are known without sampling."""

OTHER = 0.5
"""Above this share of other replies, the judged policy covers less than half of the player's replies."""


@dataclass(frozen=True)
class ExactSettings:
    """The settings of an exact evaluation.

    Attributes:
        checkpoint: The judged player, see `loading`.
        compare: A second judged player; None for none.
        every_step: Whether all complete checkpoints of an experiment are judged; `checkpoint` is the experiment's
            folder.
        cases: Games and cases, separated by commas; "" for `DEFAULT_GAMES`.
        prompt: "full", "unlisted" or "brief".
        samples: The number of answers in each state, see `score_policy`; None for probabilities if the player gives
            them.
        replies: The settings of models' replies.
        base: See `open_player`.
    """

    checkpoint: str
    compare: str | None = None
    every_step: bool = False
    cases: str = ""
    prompt: str = "full"
    samples: int | None = None
    replies: ReplySettings = field(default_factory=lambda: ReplySettings(temperature=1.0))
    base: str | None = None

    def __post_init__(self) -> None:
        if self.samples is not None and self.samples < 1:
            raise UserError(f"--samples must be at least 1, got {self.samples}")

    @property
    def folder(self) -> Path:
        """The default folder of the report."""
        return folder_of(self.checkpoint, self)


@dataclass(frozen=True)
class ExactEvaluation:
    """The results of an exact evaluation.

    Attributes:
        settings: The settings of the evaluation.
        players: The identity of each judged player, by name.
        steps: With `every_step`, the training step of each checkpoint by its name, in order; else empty.
        reports: For each case, the report of each player by name, followed by those of `REFERENCES`.
        seconds: The time in seconds of each case.
    """

    settings: ExactSettings
    players: dict[str, str]
    steps: dict[str, int]
    reports: dict[str, dict[str, ExactReport]]
    seconds: dict[str, float]

    @property
    def last(self) -> list[str]:
        """The players that are reported in full; of an experiment only the newest checkpoint."""
        earlier = list(self.steps)[:-1]
        return [name for name in self.players if name not in earlier]

    @property
    def notes(self) -> list[str]:
        """Notes for the interpretation of the results."""
        return [
            note
            for case, found in self.reports.items()
            for name in self.last
            if name not in REFERENCES
            for note in _notes(f"{case}, {name}", found[name])
        ]


def evaluate_exactly(
    settings: ExactSettings,
    folder: Path,
    console: Console,
    purse: Purse | None = None,
    workers: Workers | None = None,
) -> ExactEvaluation:
    """Judge each player in each case.

    Args:
        settings: The settings of the evaluation.
        folder: The folder of the answers, and of merged models except those of `every_step`.
        console: Where to print.
        purse: The counter of servers' costs, with or without a budget.
        workers: The workers that share a bot's answers; None for this process alone.

    Raises:
        UserError: A player does not exist, the budget is spent, or a game is unknown, too large or without exact
            values.
    """
    cases = _cases(settings)
    states = sum(len(questions_of(case, settings.prompt)) for case in cases)  # before a model is loaded
    steps = {str(path): step_of(path) for path in _checkpoints(settings)}
    names = [*(steps or [settings.checkpoint]), *([settings.compare] if settings.compare else ())]
    if settings.compare in (settings.checkpoint, *steps):
        raise UserError(f"--compare {settings.compare} is judged by --checkpoint already; give another checkpoint")
    for name in names:
        check_player(name, "openspiel")
        if is_bot(name, "openspiel"):
            check_bot(name, "openspiel", cases)
    evaluation = ExactEvaluation(settings, {}, steps, {case: {} for case in cases}, dict.fromkeys(cases, 0.0))
    asked = [name for name in names if name not in REFERENCES]
    with ExitStack() as stack, progress(console, len(asked) * states, 0, "state") as advance:
        ledger = stack.enter_context(closing(AnswerLedger(folder)))
        # These players are opened first, so that an error appears before any is judged. The checkpoints of an
        # experiment are opened one at a time, which bounds the memory.
        kept = {
            name: stack.enter_context(
                closing(open_player(name, "openspiel", settings.replies, folder / "models", settings.base, purse))
            )
            for name in names
            if name not in steps
        }
        for name in names:
            if name in kept:
                _judge(evaluation, kept[name], ledger, advance, workers or Workers(1))
                continue
            with (
                TemporaryDirectory(dir=folder) as merged,
                closing(open_player(name, "openspiel", settings.replies, Path(merged), settings.base)) as player,
            ):
                _judge(evaluation, player, ledger, advance, Workers(1))
            del player
    for case, (name, which) in product(cases, REFERENCES.items()):
        started = time.monotonic()
        evaluation.reports[case][name] = score_reference(which, case, settings.prompt)
        evaluation.seconds[case] += time.monotonic() - started
    return evaluation


def _cases(settings: ExactSettings) -> Sequence[str]:
    return select(DEFAULT_CASES, split_list(settings.cases, "games") or DEFAULT_GAMES)


def forecast_exactly(settings: ExactSettings) -> Forecast:
    """The forecast of an evaluation, if each state is asked as a server is.

    Raises:
        UserError: A game is unknown, too large or without exact values.
    """
    turns = [question.turn for case in _cases(settings) for question in questions_of(case, settings.prompt)]
    return forecast_of_states(turns, 1 if settings.replies.temperature == 0 else settings.samples or SAMPLES)


def _checkpoints(settings: ExactSettings) -> list[Path]:
    """The checkpoints of `every_step`; none without it."""
    if not settings.every_step:
        return []
    found = whole_checkpoints(Path(settings.checkpoint).expanduser())
    if not found:
        raise UserError(
            f"{settings.checkpoint} holds no complete checkpoint; --every_step needs the folder of an experiment"
        )
    return found


def _judge(
    evaluation: ExactEvaluation,
    player: NamedPlayer,
    ledger: AnswerLedger,
    advance: Callable[[int], None],
    workers: Workers,
) -> None:
    """Put the reports of a player into an evaluation."""
    settings = evaluation.settings
    evaluation.players[player.name] = player.identity
    if player.name in REFERENCES:
        return
    for case, found in evaluation.reports.items():
        started, samples = time.monotonic(), _samples(settings, player)
        asked = (player.identity, case, settings.prompt, samples)
        found[player.name] = score_policy(
            share(player, workers),
            case,
            prompt=settings.prompt,
            samples=samples,
            advance=advance,
            keep=lambda start, ask, asked=asked: ledger.ask(f"{digest(*asked, start):016x}", ask),
        )
        evaluation.seconds[case] += time.monotonic() - started


def _samples(settings: ExactSettings, player: NamedPlayer) -> int | None:
    # At temperature 0 a model always gives the same answer, so one answer is its whole policy.
    return 1 if player.is_model and settings.replies.temperature == 0 else settings.samples


def _notes(who: str, report: ExactReport) -> list[str]:
    metrics = report.metrics
    line = f"{who}: {metrics['states']} states"
    if report.way == "probabilities":
        line += "; the policy is the probability of each legal action's number as the whole reply"
        rest = "illegal or other"
    else:
        line += (
            f"; the policy is the share of each action in {report.samples} answers in each state, parsed as in games"
        )
        rest = "illegal"
    line += (
        f"; {rest} answers: mean {metrics['illegal_mean']:.4f}, max {metrics['illegal_max']:.4f};"
        f" {metrics['states_without_legal_answer']} states without a legal answer (uniform play assumed there)."
    )
    notes = [line]
    if report.mistakes:
        counts = ", ".join(f"{count} {reason}" for reason, count in report.mistakes.items())
        notes.append(f"{who}: {counts}.")
    if report.floor:
        notes.append(
            f"{who}: with {report.samples} answers in each state the optimum itself would have a NashConv of"
            f" {report.floor:.4f}. Smaller differences are noise; a larger --samples reduces it."
        )
    if report.way == "probabilities" and metrics["illegal_mean"] > OTHER:
        notes.append(
            f"{who}: most replies of the player are no legal answers, and NashConv describes only the other replies. If"
            " the player thinks before it answers, or names its moves, judge it with --samples N."
        )
    return notes
