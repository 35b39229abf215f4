"""A tournament: each player plays each other player on the same deals from both seats, and gets a rating.

Games are played as in `matches` and written to a ledger when they end. So an interrupted tournament resumes, and a
player that joins later adds only its own games. `settings.json` beside the ledger records the settings, so that a
folder never mixes two tournaments. `train/tools/tournament.py` is the command line.
"""

import itertools
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.errors import UserError
from veritas_rl.judging.evaluation import MODEL_OPENING, at_once
from veritas_rl.judging.finished_game import FinishedGame
from veritas_rl.judging.matches import LEDGER, Ledger, Pairing, Rules, pair, play_all, seats_of, tasks_of
from veritas_rl.parallel import Workers
from veritas_rl.players.cost import Purse
from veritas_rl.players.loading import NamedPlayer, ReplySettings, open_player
from veritas_rl.players.registry import check_bot, notes_of
from veritas_rl.progress import progress
from veritas_rl.rating.cross_table import CrossTable, tables_of

SETTINGS = "settings.json"

MOST_CASES = 5
"""The maximum number of cases that an error message lists."""


@dataclass(frozen=True)
class Settings:
    """The settings of a tournament.

    Attributes:
        players: The players, see `loading`.
        env: The environment.
        games: The number of games of each case in each match, rounded up to whole deals.
        cases: The cases as users name them, separated by commas; "" for all two-player cases.
        seed: The seed of the deals, the bots and the replies.
        prompt: "full", "unlisted" or "brief".
        opening: The number of random moves at the start of each game; None for `MODEL_OPENING` between two models, else
            0.
        max_moves: See `Rules`.
        replies: The settings of models' replies.
        base: See `open_player`.
        config: Further settings of the environment, as pairs of key and value.
    """

    players: tuple[str, ...]
    env: str = "openspiel"
    games: int = 100
    cases: str = ""
    seed: int = 42
    prompt: str = "full"
    opening: int | None = None
    max_moves: int = 0
    replies: ReplySettings = field(default_factory=ReplySettings)
    base: str | None = None
    config: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.games < 1:
            raise UserError(f"--num_episodes must be at least 1, got {self.games}")
        if len(self.players) < 2:
            raise UserError(f"a tournament needs at least two players, got: {', '.join(self.players) or 'none'}")
        if twice := [name for name in self.players if self.players.count(name) > 1]:
            raise UserError(f"the player {twice[0]} is named twice; name each player once")

    def rules(self, opening: int = 0) -> Rules:
        """The rules of games with this number of opening moves."""
        return Rules(self.env, self.seed, self.prompt, opening, self.max_moves, self.config)

    def played(self) -> dict[str, Any]:
        """The settings that a game's result depends on, besides the players, by the names of their options."""
        return {
            "env": self.env,
            "config": dict(self.config),
            "games": sorted(cases_of(self)),
            "num_episodes": self.games,
            "seed": self.seed,
            "prompt": self.prompt,
            "opening": self.opening,
            "max_moves": self.max_moves,
            "max_tokens": self.replies.max_tokens,
            "temperature": self.replies.temperature,
            "top_p": self.replies.top_p,
        }


@dataclass(frozen=True)
class Tournament:
    """The results of a tournament.

    Attributes:
        settings: The settings of the tournament.
        players: The identity of each player, by name.
        tables: The cross tables. With several cases the table of all cases comes first, then one for each case.
        notes: Sentences that a reader needs to interpret the results.
        seconds: The time in seconds of the games played by this run.
        played: The number of games played by this run; the others were in the ledger.
        cost: The cost of servers for this folder, see `Purse.values`.
    """

    settings: Settings
    players: dict[str, str]
    tables: list[CrossTable]
    notes: list[str]
    seconds: float
    played: int
    cost: list[dict[str, Any]] = field(default_factory=list)


def cases_of(settings: Settings) -> tuple[str, ...]:
    """The canonical cases of the tournament.

    Raises:
        UserError: A name is no game, or the game is not for two players.
    """
    seats = {case: seats_of(tasks[0]) for case, tasks in tasks_of(settings.cases, 1, settings.rules()).items()}
    for case, count in seats.items():
        if settings.cases and count != 2:
            raise UserError(f"{case} has {count} seat{'s' * (count > 1)}, but a tournament needs two-player games")
    cases = tuple(case for case, count in seats.items() if count == 2)
    if not cases:
        raise UserError(f"{settings.env} has no two-player game, so there is no tournament; use evaluate.py")
    return cases


def hold(
    settings: Settings, folder: Path, console: Console, purse: Purse | None = None, workers: Workers | None = None
) -> Tournament:
    """Play the games that are not played yet, and rate the players.

    Args:
        settings: The settings of the tournament.
        folder: The folder of the finished games, and of models that are merged for the tournament.
        console: Where to print.
        purse: The counter of servers' costs, with or without a budget.
        workers: The workers that share the work, see `play_all`.

    Raises:
        UserError: A player or a game does not exist or cannot be played, the folder contains another tournament, or the
            budget is spent. Finished games are kept.
    """
    cases = cases_of(settings)
    with ExitStack() as stack:
        ledger = Ledger(folder / LEDGER)
        stack.callback(ledger.close)
        _check_folder(settings, folder, ledger)
        players: list[NamedPlayer] = []
        for name in settings.players:
            players.append(open_player(name, settings.env, settings.replies, folder / "models", settings.base, purse))
            stack.callback(players[-1].close)
        # The order of the names must not change the games.
        players.sort(key=lambda player: player.identity)
        for one, other in itertools.pairwise(players):
            if one.identity == other.identity:
                raise UserError(f"{one.name} and {other.name} are the same player; name each player once")
        for player in players:
            if not player.is_model:
                check_bot(player.name, settings.env, cases)
        write_whole(folder / SETTINGS, json.dumps(settings.played(), indent=2) + "\n")
        matches = [
            _games_between(first, second, cases, settings) for first, second in itertools.combinations(players, 2)
        ]
        seconds, played = _play(matches, ledger, console, at_once(settings.replies, purse), workers)
        pairings = list(itertools.chain(*matches))
        games, left_out = ledger.of(pairings), ledger.notes(pairings)
    tables = tables_of(games)
    return Tournament(
        settings=settings,
        players={player.name: player.identity for player in players},
        tables=tables,
        notes=[*_notes(settings, cases, players, tables), *left_out],
        seconds=seconds,
        played=played,
        cost=purse.values() if purse else [],
    )


def _check_folder(settings: Settings, folder: Path, ledger: Ledger) -> None:
    path = folder / SETTINGS
    if not path.exists():
        if ledger.games:
            raise UserError(f"{folder} holds the games of an evaluation; give another --output")
        return
    try:
        held = dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path} cannot be read ({error}); remove the file, or give another --output") from error
    for name, value in settings.played().items():
        if held.get(name) != value:
            before, now = _typed(name, held.get(name)), _typed(name, value)
            raise UserError(
                f"{folder} holds a tournament with {before}, not {now}; give the same settings, or another --output"
            )


def _typed(name: str, value: Any) -> str:
    if value is None or value == {}:
        return f"no --{name}"
    if isinstance(value, dict):
        return " ".join(f"--{name} {key}={setting}" for key, setting in value.items())
    if isinstance(value, list):
        value = ",".join(value) if len(value) <= MOST_CASES else f"of {len(value)} cases"
    return f"--{name} {value}"


def _games_between(first: NamedPlayer, second: NamedPlayer, cases: Sequence[str], settings: Settings) -> list[Pairing]:
    opening = settings.opening
    if opening is None:
        opening = MODEL_OPENING if first.is_model and second.is_model else 0
    return pair(cases, settings.games, [first], [second], settings.rules(opening))


def _play(
    matches: Sequence[Sequence[Pairing]], ledger: Ledger, console: Console, together: int, workers: Workers | None
) -> tuple[float, int]:
    """Play the games that the ledger lacks; return the seconds and the number of games."""
    total = sum(map(len, matches))
    missing = [[game for game in match if game.key not in ledger.games] for match in matches]
    done = total - sum(map(len, missing))
    if done:
        console.print(f"{done} of {total} games are already finished: {ledger.path}", soft_wrap=True, highlight=False)
    started = time.monotonic()

    def kept() -> str:
        finished = len(ledger.of(itertools.chain(*matches)))
        return f"{finished} of {total} games are finished and kept; run the same command to play the others"

    try:
        with progress(console, total, done, "game") as advance:

            def ended(_: Pairing, game: FinishedGame, __: object) -> None:
                ledger.add(game)
                advance()

            # Workers share the bots' games of all matches. Games with models are played one match after another, so
            # that an interruption loses the unfinished games of one match only.
            bots = [game for match in missing for game in match if not game.asks_models]
            for games in (bots, *([game for game in match if game.asks_models] for match in missing)):
                play_all(games, together, ended, workers=workers)
    except KeyboardInterrupt:
        console.print(kept(), soft_wrap=True, highlight=False)
        raise
    except UserError as error:
        raise UserError(f"{error}; {kept()}") from error
    return time.monotonic() - started, total - done


def _notes(
    settings: Settings, cases: Sequence[str], players: Sequence[NamedPlayer], tables: Sequence[CrossTable]
) -> list[str]:
    notes = []
    if settings.games % 2:
        notes.append(
            f"Each match has {settings.games + 1} games of each case instead of {settings.games}, so that each deal is "
            "played from both seats."
        )
    notes += notes_of((player.name for player in players if not player.is_model), settings.env, cases)
    models = {player.name for player in players if player.is_model}
    alike = [
        match
        for (first, second), match in tables[0].matches.items()
        if settings.replies.temperature == 0 and {first, second} <= models and first < second
        if match.distinct < match.games
    ]
    notes += [
        f"Only {match.distinct} of {match.games} games of {match.first} against {match.second} are different, so the "
        "intervals are too narrow. Raise --opening or --temperature."
        for match in alike
    ]
    return notes
