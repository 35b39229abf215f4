"""Pairs players, plays whole games and single-answer tasks, and keeps a ledger of finished games.

A deal is everything that chance decides: cards, dice, the random opening, and the random choices of bots. Each deal is
played from each seat and by each of the compared players, with the same chance seed. So two results of a deal differ
only by the player. A task of a single answer is treated as a game without other seats.

Games with models run at once: each call of a model answers the waiting turns of all games, and workers share the turns
of a search. A game between bots is played by one worker. Each finished game is a line in the ledger, so that an
interrupted evaluation continues where it was. The result of a game depends on its own task and players alone, so it
does not matter when and where it was played, or with which other games.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veritas_rl.envs.base import Missing, Player, Reason, Reply, Score, Session, Turn, play
from veritas_rl.envs.registry import get_environment, named_settings, prepare
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.judging.finished_game import FinishedGame
from veritas_rl.kept import KeptLines
from veritas_rl.parallel import Workers
from veritas_rl.players.loading import NamedPlayer
from veritas_rl.players.random import RandomPlayer
from veritas_rl.players.shared import share
from veritas_rl.seeding import digest
from veritas_rl.viewing.recording import PlayedGame, RecordedSession

ALONE = "nobody"
"""The opponent's name in a game without opponent."""

LEDGER = "games.jsonl"


@dataclass(frozen=True)
class Rules:
    """The rules of every game of an evaluation.

    Attributes:
        env: The environment.
        seed: The seed of the deals.
        prompt: The kind of a model's prompt, see `Task`.
        opening: The number of random moves at the start of each game.
        max_moves: The number of moves, over all seats, after which a game ends as `Reason.UNFINISHED`; 0 for the
            environment's own limit.
        config: Further settings of the environment, as pairs of key and value.
        mode: "episode" for whole games, "move" for single answers. An environment without whole games has answers only.
    """

    env: str
    seed: int = 42
    prompt: str = "full"
    opening: int = 0
    max_moves: int = 0
    config: tuple[tuple[str, Any], ...] = ()
    mode: str = "episode"

    def __post_init__(self) -> None:
        if self.opening < 0 or self.max_moves < 0:
            raise UserError(f"--opening and --max_moves must be at least 0, got {self.opening} and {self.max_moves}")


def tasks_of(cases: str | Sequence[str], count: int, rules: Rules) -> dict[str, list[Task]]:
    """The validation tasks of an evaluation by case.

    Args:
        cases: The cases as users name them; "" for all cases of the environment.
        count: The maximum number of tasks of each case.
        rules: The rules of the evaluation.

    Raises:
        UserError: The environment, a case or a setting does not exist, or a value is invalid.
    """
    environment = get_environment(rules.env)
    given = named_settings(environment, dict(rules.config))
    own = {"mode": rules.mode, "seed": rules.seed, "prompt": rules.prompt, "max_moves": rules.max_moves or None}
    for key in given:
        if key in own or key == "num_tasks_per_case":
            raise UserError(
                f"{key} is not set with --config; use --{key} if evaluate.py --help lists it, else leave it out"
            )
    known = environment.config_type.model_fields
    settings = {
        **given,
        "num_tasks_per_case": count,
        **{key: value for key, value in own.items() if key in known and value is not None},
    }
    if cases:
        settings[environment.config_type.cases_key] = cases
    found: dict[str, list[Task]] = {}
    for task in environment.catalogue(environment.read_config(settings), "val"):
        same = found.setdefault(task.case, [])
        if len(same) < count:
            same.append(task)
    return found


def seats_of(task: Task) -> int:
    """The number of seats of a task; 1 for a task of a single answer."""
    return get_environment(task.env).players_of(task) if task.mode == "episode" else 1


@dataclass(frozen=True)
class Pairing:
    """One game to be played.

    Attributes:
        task: The game, the deal and the judged seat.
        player: The judged player.
        opponent: The player on every other seat; None in a game without opponent.
        rules: The rules of the evaluation.
        other: Another task of the case, whose solution the random player gives if answers cannot be listed.
    """

    task: Task
    player: NamedPlayer
    opponent: NamedPlayer | None
    rules: Rules
    other: Task | None = None

    @property
    def key(self) -> str:
        """A key that is equal for games with the same result."""
        opponent = self.opponent.identity if self.opponent else ALONE
        words = (self.task.key, self.player.identity, opponent, self.rules.opening)
        return f"{digest(*words):016x}"

    def session(self) -> Session:
        """A session of the game, with its opening already played.

        Raises:
            UserError: The game has no turn for a player.
        """
        environment = get_environment(self.task.env)
        bot = RandomPlayer("opening")
        # A shorter opening is played if the game would be over after the full one.
        for moves in range(self.rules.opening, -1, -1):
            session = environment.start(self.task)
            for _ in range(moves):
                turns = session.turns()
                session.step({turn.seat: reply for turn, reply in zip(turns, bot.act(turns), strict=True)})
                if not session.turns():
                    break
            if session.turns():
                return session
        raise UserError(f"{self.task.case} ends before a player is asked, so it cannot be played; choose another case")

    def seating(self) -> Mapping[int, Player]:
        """The player of each seat."""
        seats = range(get_environment(self.task.env).players_of(self.task))
        return {
            seat: self._seated((self.player if self.judges(seat) else self.opponent or self.player).player)
            for seat in seats
        }

    def _seated(self, player: Player) -> Player:
        return RandomPlayer(player.seed, self._guess) if isinstance(player, RandomPlayer) and self.other else player

    def _guess(self) -> str:
        """The solution of the other task, or "" if there is none. It shows what an answer without the question pays."""
        assert self.other is not None
        return next((turn.solution for turn in get_environment(self.other.env).start(self.other).turns()), "")

    @property
    def asks_models(self) -> bool:
        """Whether a model or a server plays."""
        return self.player.is_model or (self.opponent is not None and self.opponent.is_model)

    def name_of(self, seat: int) -> str:
        """The name of a seat's player, as the user typed it."""
        return self.player.name if self.judges(seat) or not self.opponent else self.opponent.name

    def judges(self, seat: int) -> bool:
        """Whether the judged player plays this seat."""
        return self.opponent is None or seat == self.task.manner.seat


def pair(
    cases: str | Sequence[str],
    games: int,
    players: Sequence[NamedPlayer],
    opponents: Sequence[NamedPlayer],
    rules: Rules,
) -> list[Pairing]:
    """The games of an evaluation: each deal of each case, from each seat, by each player, against each opponent.

    Args:
        cases: The cases, see `tasks_of`.
        games: The number of games of each case against each opponent, rounded up to whole deals.
        players: The judged players.
        opponents: The opponents. A game without opponent is played once.
        rules: The rules of every game.

    Raises:
        UserError: As `tasks_of`; or there are no games or no opponents.
    """
    if games < 1 or not opponents:
        raise UserError(
            f"an evaluation needs at least one game and one opponent, got {games} games and {len(opponents)} opponents"
        )
    made: list[Pairing] = []
    for tasks in tasks_of(cases, games, rules).values():
        if rules.opening and tasks[0].mode != "episode":
            raise UserError(
                f"--opening {rules.opening} is for whole games, but these tasks are single answers; leave it out"
            )
        seats = seats_of(tasks[0])
        for opponent in opponents if seats > 1 else [None]:
            for place, task in enumerate(tasks[: -(-games // seats)]):
                # The earlier neighbour, so that a longer evaluation begins with the same guesses.
                near = tasks[place - 1] if place else tasks[-1 if len(tasks) == 1 else 1]
                other = None if task.mode == "episode" or near is task else near
                for placed in [task] if opponent is None else _placed(task, seats, opponent):
                    made += [Pairing(placed, player, opponent, rules, other) for player in players]
    return made


def _placed(task: Task, seats: int, opponent: NamedPlayer) -> list[Task]:
    # A model is identified by its weights, not by its folder.
    name = "model" if opponent.is_model else opponent.name
    return [task.replace(opponent=name, seat=seat) for seat in range(seats)]


OnEnd = Callable[[Pairing, FinishedGame, PlayedGame | None], None]
"""Receives each game when it ends, and its record if the game is recorded."""


def play_all(
    pairings: Sequence[Pairing],
    at_once: int,
    on_end: OnEnd,
    recorded: Collection[str] = (),
    workers: Workers | None = None,
) -> None:
    """Play games: first those between bots in order, then those with models, `at_once` at a time.

    Args:
        pairings: The games.
        at_once: The maximum number of games with models that run together, which bounds the memory.
        on_end: See `OnEnd`.
        recorded: The keys of games that are recorded.
        workers: The workers that share the work; None for this process alone. They change only the time.
    """
    workers = workers or Workers(1)
    alone = [pairing for pairing in pairings if not pairing.asks_models]
    if not workers.several:
        prepare(pairing.task for pairing in alone)
    asked = ((pairing, pairing.key in recorded) for pairing in alone)
    for pairing, (game, record) in zip(alone, workers.map(_play_alone, asked), strict=True):
        on_end(pairing, game, record)
    rest = [pairing for pairing in pairings if pairing.asks_models]
    named = [each for pairing in rest for each in (pairing.player, pairing.opponent) if each]
    players = {id(each.player): share(each, workers) for each in named}
    for start in range(0, len(rest), at_once):
        chunk = rest[start : start + at_once]
        prepare(pairing.task for pairing in chunk)
        sessions = [_Watched(pairing, on_end, pairing.key in recorded) for pairing in chunk]
        seated = (pairing.seating().items() for pairing in chunk)
        play(sessions, [{seat: players[id(player)] for seat, player in seats} for seats in seated])


def _play_alone(asked: tuple[Pairing, bool]) -> tuple[FinishedGame, PlayedGame | None]:
    """Play one game; return it, and its record if it is recorded. Runs in any process."""
    pairing, recorded = asked
    ended: list[tuple[FinishedGame, PlayedGame | None]] = []
    session = _Watched(pairing, lambda _, *found: ended.append(found), recorded)
    play([session], [pairing.seating()])
    return ended[0]


class _Watched(Session):
    """A game that counts its answers and tokens, and reports its end."""

    def __init__(self, pairing: Pairing, on_end: OnEnd, recorded: bool) -> None:
        self.pairing = pairing
        self.task = pairing.task
        inner = pairing.session()
        self._recorder = RecordedSession(inner, pairing.name_of) if recorded else None
        self._inner = self._recorder or inner
        self._on_end = on_end
        self._moves = self._prompt_tokens = self._tokens = 0
        self._shown = hashlib.sha256()
        self._over = self._withheld = False

    def turns(self) -> Sequence[Turn]:
        turns = self._inner.turns()
        if not turns and not self._over:
            self._over = True
            self._on_end(self.pairing, self._finished(), self._recorder and self._recorder.game())
        return turns

    def step(self, replies: Mapping[int, Reply]) -> None:
        for turn in self._inner.turns():
            self._shown.update(repr((turn.seat, turn.messages)).encode())
        for seat, reply in replies.items():
            self._withheld |= reply.missing is Missing.WITHHELD
            if self.pairing.judges(seat):
                self._moves += 1
                self._prompt_tokens += reply.prompt_tokens
                self._tokens += reply.tokens
        self._inner.step(replies)

    def scores(self) -> dict[int, Score]:
        return self._inner.scores()

    def _finished(self) -> FinishedGame:
        task, scores, environment = self.task, self.scores(), get_environment(self.task.env)
        score = scores[task.manner.seat if task.manner.seat in scores else min(scores)]
        if self._withheld:
            score = Score(0.0, success=False, reason=Reason.WITHHELD)
        self._shown.update(repr((score.value, score.reason)).encode())
        return FinishedGame(
            key=self.pairing.key,
            task=task.id,
            case=task.case,
            group=environment.group(task),
            mode=task.mode,
            cluster=environment.equivalence_class(task),
            deal=task.k,
            seat=task.manner.seat,
            player=self.pairing.player.name,
            opponent=self.pairing.opponent.name if self.pairing.opponent else ALONE,
            value=score.value,
            success=score.success,
            reason=score.reason,
            moves=self._moves,
            prompt_tokens=self._prompt_tokens,
            tokens=self._tokens,
            trajectory_hash=self._shown.hexdigest()[:16],
            measures=score.measures,
        )


class Ledger:
    """The finished games of an output folder, one JSON object per line.

    A line that was cut off is dropped, see `KeptLines`, and its game is played again.

    Args:
        path: The file. It is created with its folder if it does not exist.

    Raises:
        UserError: The file cannot be read or written, or has another format, or another evaluation uses it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept = KeptLines(path)
        try:
            games = [FinishedGame.from_json(line) for line in self._kept.lines]
        except ValueError as error:
            raise UserError(
                f"{path} cannot be read as the finished games of an evaluation ({error}); "
                "remove the file, or give another --output"
            ) from error
        self.games = {game.key: game for game in games}

    def add(self, game: FinishedGame) -> None:
        """Add a finished game."""
        self.games[game.key] = game
        self._kept.add(game.to_json())

    def close(self) -> None:
        """Write everything to the disk, and close the file."""
        self._kept.close()

    def of(self, pairings: Iterable[Pairing]) -> list[FinishedGame]:
        """The finished games of these pairings, in their order, with the pairings' names of the players.

        A player whose name changed keeps its games, because games are found by the players' identities. Games in which
        a provider withheld a reply are left out.
        """
        return [
            dataclasses.replace(
                self.games[pairing.key],
                player=pairing.player.name,
                opponent=pairing.opponent.name if pairing.opponent else ALONE,
            )
            for pairing in pairings
            if pairing.key in self.games and self.games[pairing.key].reason is not Reason.WITHHELD
        ]

    def notes(self, pairings: Sequence[Pairing]) -> list[str]:
        """A note on the games that `of` leaves out, if there are any.

        Raises:
            UserError: It leaves out all.
        """
        left = len(pairings) - len(self.of(pairings))
        if left and left == len(pairings):
            raise UserError("a filter of the provider withheld a reply in each game, so there are no figures")
        why = "are left out of all figures, because a filter of the provider withheld a reply in them"
        return [f"{left} of {len(pairings)} games {why}."] if left else []
