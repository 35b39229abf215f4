"""An evaluation: players made, games played or taken from the ledger, and everything that they say.

`train/tools/evaluate.py` is its command line.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from veritas_rl.envs.openspiel.cases import DEFAULT_CASES, load, select, split_list
from veritas_rl.envs.openspiel.perturbation import GUISES, fits, start_disguised
from veritas_rl.envs.openspiel.players.mcts import sees_hidden
from veritas_rl.envs.registry import make_task
from veritas_rl.errors import UserError
from veritas_rl.judging.held_out import Judgement, distinct, judge
from veritas_rl.judging.matches import ALONE, LEDGER, Game, Ledger, Pairing, Rules, pair, play_all
from veritas_rl.judging.shown import Shown
from veritas_rl.judging.summary import ALL, VOID, Row, Stage, Versus, compare, rows_of, stages_of
from veritas_rl.players.loading import NamedPlayer, ReplySettings, open_player
from veritas_rl.players.registry import check_bot, is_bot
from veritas_rl.seeding import digest

EVALUATIONS = Path(__file__).resolve().parents[2] / "train/outputs/evaluations"
"""Where evaluations go, unless they are told another place."""

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
        games: Of each case, against each opponent; rounded up to whole deals.
        cases: Games by short name and cases, with commas.
        seed: Of the deals, the bots and the replies.
        prompt: "full", "unlisted" or "brief".
        opening: How many random moves each game begins with; None for none against bots, `MODEL_OPENING` against
            models.
        max_moves: See `Rules`.
        relabelled: Whether single moves are judged in another guise, too.
        replies: How models write.
        base: See `open_player`.
    """

    checkpoint: str
    env: str = "openspiel"
    compare: str | None = None
    opponents: tuple[str, ...] = ("random",)
    games: int = 100
    cases: str = ""
    seed: int = 42
    prompt: str = "full"
    opening: int | None = None
    max_moves: int = 1000
    relabelled: bool = False
    replies: ReplySettings = field(default_factory=ReplySettings)
    base: str | None = None

    def __post_init__(self) -> None:
        if self.games < 1:
            raise UserError(f"one episode at least is needed, {self.games} were given")
        if not self.opponents:
            raise UserError("no opponent is named: random, mcts, mcts:SIMS, mcts:full, exact or a checkpoint")
        if self.compare == self.checkpoint:
            raise UserError(f"{self.compare} is compared with itself: name another checkpoint")

    @property
    def folder(self) -> Path:
        """Where the same command finds its games again."""
        return folder_of(self.checkpoint, self)


def folder_of(checkpoint: str, settings: object) -> Path:
    """A folder for what these settings find about a checkpoint."""
    name = re.sub(r"[^\w.-]+", "-", checkpoint.rstrip("/")).strip("-")[-40:]
    return EVALUATIONS / f"{name}-{digest(settings):016x}"


@dataclass(frozen=True)
class Relabelled:
    """Single moves of one case, as they are and in another guise.

    Attributes:
        player: Who was judged.
        case: What was played.
        guise: See `disguise`.
        plain: As they are.
        other: In the guise, the same positions.
    """

    player: str
    case: str
    guise: str
    plain: Judgement
    other: Judgement


@dataclass(frozen=True)
class Evaluation:
    """Everything that an evaluation found.

    Attributes:
        settings: How it was made.
        players: The judged players, by name, with their identities.
        rows: See `rows_of`.
        stages: See `stages_of`.
        versus: The comparison; empty without one.
        relabelled: The check for answers by heart; empty without one.
        notes: What a reader must know, a sentence each.
        seconds: How long the games took that were played now.
        played: How many were played now; the others were in the ledger.
    """

    settings: Settings
    players: dict[str, str]
    rows: list[Row]
    stages: list[Stage]
    versus: list[Versus]
    relabelled: list[Relabelled]
    notes: list[str]
    seconds: float
    played: int


def evaluate(settings: Settings, folder: Path, console: Console, games_to_show: int = 0) -> Evaluation:
    """Play what is not played yet, and judge.

    Args:
        settings: What to evaluate.
        folder: Where finished games, and models that are merged for it, are kept.
        console: Where to tell.
        games_to_show: How many games are kept move by move, see `shown`.

    Raises:
        UserError: A player or a game does not exist, or cannot be played; games that are finished are kept.
    """
    cases = cases_of(settings)
    for name in settings.opponents:
        if is_bot(name, settings.env):
            check_bot(name, settings.env, [case for case in cases if load(case).players > 1])
    with ExitStack() as stack:
        made: dict[str, NamedPlayer] = {}
        for name in (settings.checkpoint, *([settings.compare] if settings.compare else ()), *settings.opponents):
            if name not in made:
                made[name] = open_player(name, settings.env, settings.replies, folder / "models", settings.base)
                stack.callback(made[name].close)
        judged = [made[settings.checkpoint], *([made[settings.compare]] if settings.compare else ())]
        if len(judged) == 2 and judged[0].identity == judged[1].identity:
            raise UserError(f"{judged[0].name} and {judged[1].name} are the same player: name another to compare with")
        for player in judged:
            if not player.is_model:
                check_bot(player.name, settings.env, cases)
        pairings: list[Pairing] = []
        for opponent in dict.fromkeys(settings.opponents):
            rules = Rules(settings.seed, settings.prompt, _opening(settings, made[opponent]), settings.max_moves)
            more = pair(cases, settings.games, judged, [made[opponent]], rules)
            # A game for one is the same whoever the opponent of the others is.
            pairings += [game for game in more if game.opponent or opponent == settings.opponents[0]]
        ledger = Ledger(folder / LEDGER)
        stack.callback(ledger.close)
        shown = Shown(folder, f"Games of {settings.checkpoint}", pairings, games_to_show, ledger)
        seconds, played = _play(pairings, ledger, shown, console)
        games = ledger.of(pairings)
        relabelled = list(_relabelled(settings, cases, judged, console)) if settings.relabelled else []
    versus = compare(games, settings.checkpoint, settings.compare) if settings.compare else []
    rows = rows_of(games)
    return Evaluation(
        settings=settings,
        players={player.name: player.identity for player in judged},
        rows=rows,
        stages=stages_of(games),
        versus=versus,
        relabelled=relabelled,
        notes=_notes(settings, cases, games, rows),
        seconds=seconds,
        played=played,
    )


def cases_of(settings: Settings) -> tuple[str, ...]:
    """The canonical cases that are played.

    Raises:
        UserError: A name is no game.
    """
    return select(DEFAULT_CASES, split_list(settings.cases, "games") or DEFAULT_CASES)


def _opening(settings: Settings, opponent: NamedPlayer) -> int:
    if settings.opening is not None:
        return settings.opening
    return MODEL_OPENING if opponent.is_model else 0


def _play(pairings: Sequence[Pairing], ledger: Ledger, shown: Shown, console: Console) -> tuple[float, int]:
    """Play what the ledger lacks; the seconds that it took, and how many games it was."""
    missing = [pairing for pairing in pairings if pairing.key not in ledger.games]
    total, done = len(pairings), len(pairings) - len(missing)
    if done:
        console.print(f"{done} of {total} games are finished already: {ledger.path}", soft_wrap=True, highlight=False)
    started = time.monotonic()
    with progress(console, total, done, "game") as advance:

        def ended(pairing: Pairing, game: Game) -> None:
            shown.ended(pairing)
            ledger.add(game)
            advance()

        play_all(missing, AT_ONCE, ended, shown.watch)
    return time.monotonic() - started, len(missing)


@contextmanager
def progress(console: Console, total: int, done: int, what: str) -> Iterator[Callable[..., None]]:
    """A bar with the time that is left; where there is no terminal, a line for each tenth.

    Args:
        console: Where to tell.
        total: How many there are.
        done: How many of them are done already.
        what: What one of them is called.

    Yields:
        To be called with how many more are done; one unless told.
    """
    started, first, told_every = time.monotonic(), done, max(1, total // 10)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        bar = progress.add_task(f"{what}s", total=total, completed=done)

        def advance(count: int = 1) -> None:
            nonlocal done
            before, done = done, done + count
            progress.update(bar, completed=done)
            if not console.is_terminal and (done // told_every > before // told_every or done == total):
                seconds = time.monotonic() - started
                left = seconds / (done - first) * (total - done)
                console.print(f"{what} {done}/{total}  {seconds:.0f} s, about {left:.0f} s left", highlight=False)

        yield advance


def _relabelled(
    settings: Settings, cases: Sequence[str], judged: Sequence[NamedPlayer], console: Console
) -> Iterator[Relabelled]:
    """Each judged model on the same positions, as they are and in every guise that fits.

    The positions are of the training split: what was learned by heart, was learned there.
    """
    for case in cases:
        guises = [guise for guise in GUISES if fits(guise, case, settings.prompt)]
        # Where the hidden part cannot be dealt anew, no move has an honest worth: being legal is what is left.
        reward = "optimal" if load(case).can_resample else "legal"
        tasks = distinct(
            (make_task(settings.env, case, k, reward=reward, prompt=settings.prompt) for k in range(settings.games)),
            settings.games,
        )
        for player in (player for player in judged if player.is_model and guises):
            console.print(f"{len(tasks)} positions of {case}, also in another guise: {', '.join(guises)}")
            plain = judge(player.player, tasks)
            for guise in guises:
                session_of = partial(start_disguised, guise=guise, seed=settings.seed)
                yield Relabelled(player.name, case, guise, plain, judge(player.player, tasks, session_of=session_of))


def _notes(settings: Settings, cases: Sequence[str], games: Sequence[Game], rows: Sequence[Row]) -> list[str]:
    notes = []
    if settings.relabelled and is_bot(settings.checkpoint, settings.env):
        notes.append(f"{settings.checkpoint} reads no labels: it was not judged in another guise.")
    for case in cases:
        if settings.relabelled and not any(fits(guise, case, settings.prompt) for guise in GUISES):
            notes.append(f"{case} has no other guise with prompt={settings.prompt}: prompt=full lists labels.")
        seats = load(case).players
        whole = -(-settings.games // seats) * seats
        if whole != settings.games:
            notes.append(
                f"{case}: {whole} games instead of {settings.games}, so that each deal is played from each of {seats} "
                "seats."
            )
        if any(name.startswith("mcts") for name in settings.opponents) and seats > 1 and sees_hidden(case):
            notes.append(f"{case}: the tree search sees what its seat may not know, and is stronger than is fair.")
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
