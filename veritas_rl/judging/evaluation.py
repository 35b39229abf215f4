"""Runs an evaluation: opens players, plays games or reads them from the ledger, and computes all statistics.

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

from veritas_rl.envs.abilities import perturbations
from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.judging.finished_game import FinishedGame
from veritas_rl.judging.matches import ALONE, LEDGER, Ledger, Pairing, Rules, pair, play_all, seats_of, tasks_of
from veritas_rl.judging.perturbed import PerturbedCheck, check_perturbed
from veritas_rl.judging.shown import Shown
from veritas_rl.judging.summary import ALL, VOID, Milestone, Row, Versus, compare, milestones_of, rows_of
from veritas_rl.judging.survey import survey
from veritas_rl.parallel import Workers
from veritas_rl.players.cost import Purse
from veritas_rl.players.loading import NamedPlayer, ReplySettings, open_player
from veritas_rl.players.registry import check_bot, forms_of, is_bot, notes_of
from veritas_rl.progress import progress
from veritas_rl.seeding import digest
from veritas_rl.viewing.recording import PlayedGame

EVALUATIONS = Path(__file__).resolve().parents[2] / "train/outputs/evaluations"
"""The default folder of evaluations."""

OPPONENTS = ("random",)
"""The default opponents."""

MODEL_OPENING = 2
"""The number of random opening moves between models. Without them, two models at temperature 0 repeat one game."""

AT_ONCE = 2048
"""The maximum number of games that run together."""


@dataclass(frozen=True)
class Settings:
    """The settings of an evaluation.

    Attributes:
        checkpoint: The judged player, see `loading`.
        env: The environment.
        compare: The player that the checkpoint is compared with on the same games; None for no comparison.
        opponents: The opponents. Each plays all other seats in games of its own.
        games: The number of games of each case against each opponent, rounded up to whole deals. Without other seats,
            the number of tasks of each case.
        cases: The cases as users name them, separated by commas; "" for all cases of the environment.
        seed: The seed of the deals, the bots and the replies.
        prompt: "full", "unlisted" or "brief".
        opening: The number of random moves at the start of each game; None for 0 against bots and `MODEL_OPENING`
            against models.
        max_moves: See `Rules`.
        relabelled: Whether single answers are also judged in the perturbations of the environment.
        replies: The settings of models' replies.
        base: See `open_player`.
        config: Further settings of the environment, as pairs of key and value.
        mode: See `Rules`.
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
    mode: str = "episode"

    def __post_init__(self) -> None:
        if self.games < 1:
            raise UserError(f"--num_episodes must be at least 1, got {self.games}")
        if not self.opponents:
            raise UserError(
                f"--opponent names no player; name one or more of {', '.join(forms_of(self.env))}, or a checkpoint"
            )
        if self.compare == self.checkpoint:
            raise UserError(f"--compare and --checkpoint are both {self.compare}; give another checkpoint to --compare")

    @property
    def folder(self) -> Path:
        """The default output folder. The same command finds its finished games there."""
        return folder_of(self.checkpoint, self)

    def rules(self, opening: int = 0) -> Rules:
        """The rules of games with this number of opening moves."""
        return Rules(self.env, self.seed, self.prompt, opening, self.max_moves, self.config, self.mode)


def folder_of(checkpoint: str, settings: object) -> Path:
    """The default output folder for a checkpoint and settings."""
    name = re.sub(r"[^\w.-]+", "-", checkpoint.rstrip("/")).strip("-")[-40:]
    return EVALUATIONS / f"{name}-{digest(settings):016x}"


@dataclass(frozen=True)
class Evaluation:
    """The results of an evaluation.

    Attributes:
        settings: The settings of the evaluation.
        players: The identity of each judged player, by name.
        rows: See `rows_of`.
        milestones: See `milestones_of`.
        versus: The comparisons of two players; may be empty.
        perturbed: The checks for memorized answers; may be empty.
        notes: Sentences that a reader needs to interpret the results.
        seconds: The time in seconds of the games played by this run.
        played: The number of games played by this run; the others were in the ledger.
        games: All games, in the order of the pairings.
        cost: The cost of servers for this folder, see `Purse.values`.
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
    settings: Settings,
    folder: Path,
    console: Console,
    games_to_show: int = 0,
    purse: Purse | None = None,
    workers: Workers | None = None,
) -> Evaluation:
    """Play the games that are not in the ledger, and compute the statistics of all.

    Args:
        settings: The settings of the evaluation.
        folder: The folder of the finished games, and of models that are merged for the evaluation.
        console: Where to print.
        games_to_show: The number of games that are recorded move by move, see `shown`.
        purse: The counter of servers' costs, with or without a budget.
        workers: The workers that share the work, see `play_all`.

    Raises:
        UserError: A player or a game does not exist or cannot be played, or the budget is spent. Finished games are
            kept.
    """
    tasks = {case: found[0] for case, found in tasks_of(settings.cases, 1, settings.rules()).items()}
    seats = {case: seats_of(task) for case, task in tasks.items()}
    for name in settings.opponents:
        if is_bot(name, settings.env):
            check_bot(name, settings.env, [case for case in tasks if seats[case] > 1])
    survey([list(tasks.values())], console)
    with ExitStack() as stack:
        made: dict[str, NamedPlayer] = {}
        needed = settings.opponents if max(seats.values()) > 1 else OPPONENTS
        for name in (settings.checkpoint, *([settings.compare] if settings.compare else ()), *needed):
            if name not in made:
                made[name] = open_player(name, settings.env, settings.replies, folder / "models", settings.base, purse)
                stack.callback(made[name].close)
        judged = [made[settings.checkpoint], *([made[settings.compare]] if settings.compare else ())]
        if len(judged) == 2 and judged[0].identity == judged[1].identity:
            raise UserError(
                f"{judged[0].name} and {judged[1].name} are the same player; give another checkpoint to --compare"
            )
        for player in judged:
            if not player.is_model:
                check_bot(player.name, settings.env, tasks)
        pairings: list[Pairing] = []
        for opponent in dict.fromkeys(needed):
            rules = settings.rules(_opening(settings, made[opponent], max(seats.values())))
            more = pair(settings.cases, settings.games, judged, [made[opponent]], rules)
            # A game without opponent is played once.
            pairings += [game for game in more if game.opponent or opponent == needed[0]]
        ledger = Ledger(folder / LEDGER)
        stack.callback(ledger.close)
        shown = Shown(folder, f"Games of {settings.checkpoint}", pairings, games_to_show, ledger)
        seconds, played = _play(pairings, ledger, shown, console, at_once(settings.replies, purse), workers)
        games, left_out = ledger.of(pairings), ledger.notes(pairings)
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
        notes=[*_notes(settings, tasks, seats, games, rows), *left_out],
        seconds=seconds,
        played=played,
        games=games,
        cost=purse.values() if purse else [],
    )


def at_once(replies: ReplySettings, purse: Purse | None) -> int:
    """The number of games that run together; small with a budget, because a spent budget loses unfinished games."""
    return min(AT_ONCE, replies.concurrency) if purse and purse.budget is not None else AT_ONCE


def _opening(settings: Settings, opponent: NamedPlayer, seats: int) -> int:
    if settings.opening is not None:
        return settings.opening
    return MODEL_OPENING if opponent.is_model and seats > 1 else 0


def _play(
    pairings: Sequence[Pairing],
    ledger: Ledger,
    shown: Shown,
    console: Console,
    together: int,
    workers: Workers | None,
) -> tuple[float, int]:
    """Play the games that the ledger lacks; return the seconds and the number of games."""
    missing = [pairing for pairing in pairings if pairing.key not in ledger.games]
    total, done = len(pairings), len(pairings) - len(missing)
    if done:
        console.print(f"{done} of {total} games are already finished: {ledger.path}", soft_wrap=True, highlight=False)
    started = time.monotonic()
    whole = pairings[0].task.mode == "episode"
    # A model answers all single questions in one call, so tasks are counted by its replies.
    by_replies = not whole and all(pairing.asks_models for pairing in missing)
    with progress(console, total, done, "game" if whole else "task", of_replies=by_replies) as advance:

        def ended(pairing: Pairing, game: FinishedGame, record: PlayedGame | None) -> None:
            shown.ended(pairing, record)
            ledger.add(game)
            advance()

        play_all(missing, together, ended, shown.recorded, workers)
    return time.monotonic() - started, len(missing)


def _listed(task: Task) -> bool:
    """Whether the legal answers to a task are listed."""
    return all(turn.answers for turn in get_environment(task.env).start(task).turns())


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
        notes.append(f"{settings.checkpoint} is a bot and reads no prompt, so --relabelled was ignored for it.")
    if max(seats.values()) == 1 and settings.opponents != OPPONENTS:
        notes.append(
            f"The opponent {', '.join(settings.opponents)} did not play, because the tasks have no other seat."
        )
    alone = [task for case, task in tasks.items() if seats[case] == 1 and task.mode != "episode"]
    if "random" in (settings.checkpoint, settings.compare) and any(not _listed(task) for task in alone):
        notes.append(
            "Where answers cannot be listed, random gives the solution of another task of the case: what an answer "
            "earns without its question."
        )
    for case, task in tasks.items():
        if settings.relabelled and not perturbations(environment, task):
            notes.append(f"{case} has no perturbation with --prompt {settings.prompt}.")
        whole = -(-settings.games // seats[case]) * seats[case]
        if whole != settings.games:
            notes.append(
                f"{case}: {whole} games were played instead of {settings.games}, so that each deal is played from each "
                f"of the {seats[case]} seats."
            )
        if seats[case] > 1:
            notes += notes_of(settings.opponents, settings.env, [case])
    for row in rows:
        # Between two models at temperature 0, only the deal makes games differ. Against a bot, a game that occurs twice
        # counts twice, because the bot draws at random.
        undrawn = settings.replies.temperature == 0 and row.opponent != ALONE and not is_bot(row.opponent, settings.env)
        if undrawn and row.seat == ALL and row.case != ALL and row.distinct < row.games:
            notes.append(
                f"{row.case}: only {row.distinct} of {row.games} games of {row.player} against {row.opponent} are "
                "different, so the intervals are too narrow. Raise --opening or --temperature."
            )
    void = sum(game.reason in VOID for game in games)
    if void:
        notes.append(f"{void} games ended by another seat's mistake or by the limit of moves. They count as not won.")
    return notes
