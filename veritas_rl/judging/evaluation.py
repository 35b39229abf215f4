"""An evaluation: opens players, plays games or takes them from the ledger, and computes all statistics.

`train/tools/evaluate.py` is its command line.
"""

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.judging.matches import (
    ALONE,
    LEDGER,
    FinishedGame,
    Ledger,
    Pairing,
    Rules,
    pair,
    play_all,
    seats_of,
    tasks_of,
)
from veritas_rl.judging.perturbed import PerturbedCheck, check_perturbed
from veritas_rl.judging.progress import progress
from veritas_rl.judging.shown import Shown
from veritas_rl.judging.summary import ALL, VOID, Milestone, Row, Versus, compare, milestones_of, rows_of
from veritas_rl.players.cost import Purse
from veritas_rl.players.loading import NamedPlayer, ReplySettings, open_player
from veritas_rl.players.registry import check_bot, forms_of, is_bot, notes_of
from veritas_rl.seeding import digest

EVALUATIONS = Path(__file__).resolve().parents[2] / "train/outputs/evaluations"
"""The default folder of evaluations."""

OPPONENTS = ("random",)
"""Who plays the other seats where nobody is named."""

MODEL_OPENING = 2
"""Random moves at the start of games between models: without dice, two models play the same game again and again."""

AT_ONCE = 2048
"""The most games that run together."""


@dataclass(frozen=True)
class Settings:
    """What is evaluated, and how.

    Attributes:
        checkpoint: Who is judged, see `loading`.
        env: The environment that is played.
        compare: With whom it is compared on the same games; None for nobody.
        opponents: Who sits on the other seats, each in games of its own.
        games: Of each case, against each opponent; rounded up to whole deals. Where there are no other seats, tasks of
            each case.
        cases: What is played, as people name it, with commas; "" for all cases of the environment.
        seed: Of the deals, the bots and the replies.
        prompt: "full", "unlisted" or "brief".
        opening: How many random moves each game begins with; None for none against bots, `MODEL_OPENING` against
            models.
        max_moves: See `Rules`.
        relabelled: Whether single answers are judged in the perturbations of the environment, too.
        replies: How models write.
        base: See `open_player`.
        config: Further settings of the environment, as pairs of key and value.
    """

    checkpoint: str
    env: str = "openspiel"
    compare: str | None = None
    opponents: tuple[str, ...] = OPPONENTS
    games: int = 100
    cases: str = ""
    seed: int = 42
    prompt: str = "full"
    opening: int | None = None
    max_moves: int = 0
    relabelled: bool = False
    replies: ReplySettings = field(default_factory=ReplySettings)
    base: str | None = None
    config: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.games < 1:
            raise UserError(f"one episode at least is needed, {self.games} were given")
        if not self.opponents:
            raise UserError(f"no opponent is named: {', '.join(forms_of(self.env))} or a checkpoint")
        if self.compare == self.checkpoint:
            raise UserError(f"{self.compare} is compared with itself: name another checkpoint")

    @property
    def folder(self) -> Path:
        """Where the same command finds its games again."""
        return folder_of(self.checkpoint, self)

    def rules(self, opening: int = 0) -> Rules:
        """What holds in games with this opening."""
        return Rules(self.env, self.seed, self.prompt, opening, self.max_moves, self.config)


def folder_of(checkpoint: str, settings: object) -> Path:
    """A folder for what these settings find about a checkpoint."""
    name = re.sub(r"[^\w.-]+", "-", checkpoint.rstrip("/")).strip("-")[-40:]
    return EVALUATIONS / f"{name}-{digest(settings):016x}"


@dataclass(frozen=True)
class Evaluation:
    """Everything that an evaluation found.

    Attributes:
        settings: How it was made.
        players: The judged players, by name, with their identities.
        rows: See `rows_of`.
        milestones: See `milestones_of`.
        versus: The comparison; empty without one.
        perturbed: The check for answers by heart; empty without one.
        notes: What a reader must know, a sentence each.
        seconds: How long the games took that were played now.
        played: How many were played now; the others were in the ledger.
        games: All games, in the order of the pairings.
        cost: What servers were asked for this folder, see `Purse.values`.
    """

    settings: Settings
    players: dict[str, str]
    rows: list[Row]
    milestones: list[Milestone]
    versus: list[Versus]
    perturbed: list[PerturbedCheck]
    notes: list[str]
    seconds: float
    played: int
    games: Sequence[FinishedGame]
    cost: list[dict[str, Any]] = field(default_factory=list)


def evaluate(
    settings: Settings, folder: Path, console: Console, games_to_show: int = 0, purse: Purse | None = None
) -> Evaluation:
    """Play what is not played yet, and judge.

    Args:
        settings: What to evaluate.
        folder: Where finished games, and models that are merged for it, are kept.
        console: Where to print.
        games_to_show: How many games are kept move by move, see `shown`.
        purse: Counts what servers are asked, and may bound what it costs.

    Raises:
        UserError: A player or a game does not exist, or cannot be played, or the budget is spent; games that are
            finished are kept.
    """
    tasks = {case: found[0] for case, found in tasks_of(settings.cases, 1, settings.rules()).items()}
    seats = {case: seats_of(task) for case, task in tasks.items()}
    for name in settings.opponents:
        if is_bot(name, settings.env):
            check_bot(name, settings.env, [case for case in tasks if seats[case] > 1])
    with ExitStack() as stack:
        made: dict[str, NamedPlayer] = {}
        needed = settings.opponents if max(seats.values()) > 1 else OPPONENTS
        for name in (settings.checkpoint, *([settings.compare] if settings.compare else ()), *needed):
            if name not in made:
                made[name] = open_player(name, settings.env, settings.replies, folder / "models", settings.base, purse)
                stack.callback(made[name].close)
        judged = [made[settings.checkpoint], *([made[settings.compare]] if settings.compare else ())]
        if len(judged) == 2 and judged[0].identity == judged[1].identity:
            raise UserError(f"{judged[0].name} and {judged[1].name} are the same player: name another to compare with")
        for player in judged:
            if not player.is_model:
                check_bot(player.name, settings.env, tasks)
        pairings: list[Pairing] = []
        for opponent in dict.fromkeys(needed):
            rules = settings.rules(_opening(settings, made[opponent], max(seats.values())))
            more = pair(settings.cases, settings.games, judged, [made[opponent]], rules)
            # A game for one does not depend on the opponent of the others.
            pairings += [game for game in more if game.opponent or opponent == needed[0]]
        ledger = Ledger(folder / LEDGER)
        stack.callback(ledger.close)
        shown = Shown(folder, f"Games of {settings.checkpoint}", pairings, games_to_show, ledger)
        seconds, played = _play(pairings, ledger, shown, console, at_once(settings.replies, purse))
        games = ledger.of(pairings)
        perturbed: list[PerturbedCheck] = []
        if settings.relabelled:
            models = [player for player in judged if player.is_model]
            perturbed = list(check_perturbed(tasks.values(), models, settings.games, settings.seed, console))
    versus = compare(games, settings.checkpoint, settings.compare) if settings.compare else []
    rows = rows_of(games)
    return Evaluation(
        settings=settings,
        players={player.name: player.identity for player in judged},
        rows=rows,
        milestones=milestones_of(games),
        versus=versus,
        perturbed=perturbed,
        notes=_notes(settings, tasks, seats, games, rows),
        seconds=seconds,
        played=played,
        games=games,
        cost=purse.values() if purse else [],
    )


def at_once(replies: ReplySettings, purse: Purse | None) -> int:
    """How many games run together: few where a budget may end, because it loses the games that are not finished."""
    return min(AT_ONCE, replies.concurrency) if purse and purse.budget is not None else AT_ONCE


def _opening(settings: Settings, opponent: NamedPlayer, seats: int) -> int:
    if settings.opening is not None:
        return settings.opening
    return MODEL_OPENING if opponent.is_model and seats > 1 else 0


def _play(
    pairings: Sequence[Pairing], ledger: Ledger, shown: Shown, console: Console, together: int
) -> tuple[float, int]:
    """Play what the ledger lacks; the seconds that it took, and how many games it was."""
    missing = [pairing for pairing in pairings if pairing.key not in ledger.games]
    total, done = len(pairings), len(pairings) - len(missing)
    if done:
        console.print(f"{done} of {total} games are finished already: {ledger.path}", soft_wrap=True, highlight=False)
    started = time.monotonic()
    with progress(console, total, done, "game" if pairings[0].task.mode == "episode" else "task") as advance:

        def ended(pairing: Pairing, game: FinishedGame) -> None:
            shown.ended(pairing)
            ledger.add(game)
            advance()

        play_all(missing, together, ended, shown.watch)
    return time.monotonic() - started, len(missing)


def _notes(
    settings: Settings,
    tasks: Mapping[str, Task],
    seats: Mapping[str, int],
    games: Sequence[FinishedGame],
    rows: Sequence[Row],
) -> list[str]:
    notes = []
    environment = get_environment(settings.env)
    if settings.relabelled and is_bot(settings.checkpoint, settings.env):
        notes.append(f"{settings.checkpoint} reads no labels: no perturbation was checked.")
    if max(seats.values()) == 1 and settings.opponents != OPPONENTS:
        notes.append(f"nobody sits on another seat: the opponent {', '.join(settings.opponents)} did not play.")
    for case, task in tasks.items():
        if settings.relabelled and not environment.perturbations(task):
            notes.append(f"{case} has no perturbation with prompt={settings.prompt}.")
        whole = -(-settings.games // seats[case]) * seats[case]
        if whole != settings.games:
            notes.append(
                f"{case}: {whole} games instead of {settings.games}, so that each deal is played from each of "
                f"{seats[case]} seats."
            )
        if seats[case] > 1:
            notes += notes_of(settings.opponents, settings.env, [case])
    for row in rows:
        # Two models that draw no lots have only the deal to differ by; a bot's dice make a game that comes twice count
        # twice.
        undrawn = settings.replies.temperature == 0 and row.opponent != ALONE and not is_bot(row.opponent, settings.env)
        if undrawn and row.seat == ALL and row.case != ALL and row.distinct < row.games:
            notes.append(
                f"{row.case}: only {row.distinct} of {row.games} games of {row.player} against {row.opponent} are "
                "different, and the intervals are too narrow: raise --opening or --temperature."
            )
    void = sum(game.reason in VOID for game in games)
    if void:
        notes.append(f"{void} games ended by another seat's mistake or by the cap on moves: they count as not won.")
    return notes
