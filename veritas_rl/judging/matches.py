"""Whole games between players, and tasks that one player answers: pairing, playing, and a ledger of what is finished.

A deal is all that chance decides: cards, dice, the random opening, and the dice of the bots. Every deal is played from
each seat, and by each of the players that are compared, with the same chance seed. So what differs between two results
of a deal is the player. A task of a single answer is a game for one: a deal without another seat.

All games run at once: each call of a model answers the waiting turns of all of them. Each finished game is a line in
the ledger, so that an interrupted evaluation continues where it was. The result of a game depends on its own task and
players alone, so it does not matter when it was played, or beside which others.
"""

import dataclasses
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veritas_rl.envs.base import Player, Reason, Reply, Score, Session, Turn, play
from veritas_rl.envs.registry import get_environment, named_settings, prepare
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.players.loading import NamedPlayer
from veritas_rl.players.random import RandomPlayer
from veritas_rl.seeding import digest

ALONE = "nobody"
"""The opponent in a game for one."""

LEDGER = "games.jsonl"


@dataclass(frozen=True)
class Rules:
    """What holds in every game of an evaluation.

    Attributes:
        env: The environment that is played.
        seed: The seed of the deals.
        prompt: What a model is shown, see `Task`.
        opening: How many random moves each game begins with.
        max_moves: After how many moves, all seats together, a game that is not over ends as `Reason.UNFINISHED`; 0 for
            the environment's own limit.
        config: Further settings of the environment, as pairs of key and value.
    """

    env: str
    seed: int = 42
    prompt: str = "full"
    opening: int = 0
    max_moves: int = 0
    config: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.opening < 0 or self.max_moves < 0:
            raise UserError(f"opening and max_moves are at least 0: {self.opening}, {self.max_moves} were given")


def tasks_of(cases: str | Sequence[str], count: int, rules: Rules) -> dict[str, list[Task]]:
    """The validation tasks of an evaluation by case: whole games, where the environment has them.

    Args:
        cases: What is played, as people name it; "" for all cases of the environment.
        count: At most so many of each case.
        rules: Their settings.

    Raises:
        UserError: The environment, a case or a setting does not exist, or a value is refused.
    """
    environment = get_environment(rules.env)
    given = named_settings(environment, dict(rules.config))
    own = {"mode": "episode", "seed": rules.seed, "prompt": rules.prompt, "max_moves": rules.max_moves or None}
    for key in given:
        if key in own or key == "num_tasks_per_case":
            raise UserError(f"{key} is not set with --config: an evaluation has an option for it, or sets it itself")
    known = environment.settings
    settings = {
        **given,
        "num_tasks_per_case": count,
        **{key: value for key, value in own.items() if key in known and value is not None},
    }
    if cases:
        settings[environment.cases_key] = cases
    found: dict[str, list[Task]] = {}
    for task in environment.catalogue(environment.read_config(settings), "val"):
        same = found.setdefault(task.case, [])
        if len(same) < count:
            same.append(task)
    return found


def seats_of(task: Task) -> int:
    """How many players a task needs: a single answer needs one, whatever the game."""
    return get_environment(task.env).players_of(task) if task.mode == "episode" else 1


@dataclass(frozen=True)
class Pairing:
    """One game to be played.

    Attributes:
        task: The game, the deal and the judged seat.
        player: Who is judged.
        opponent: Who sits on every other seat; None in a game for one.
        rules: What else holds.
    """

    task: Task
    player: NamedPlayer
    opponent: NamedPlayer | None
    rules: Rules

    @property
    def key(self) -> str:
        """Equal for games that have the same result."""
        opponent = self.opponent.identity if self.opponent else ALONE
        words = (self.task.key, self.player.identity, opponent, self.rules.opening)
        return f"{digest(*words):016x}"

    def session(self) -> Session:
        """The game after its opening."""
        environment = get_environment(self.task.env)
        bot = RandomPlayer("opening")
        # An opening must leave something to play.
        for moves in range(self.rules.opening, -1, -1):
            session = environment.start(self.task)
            for _ in range(moves):
                turns = session.turns()
                session.step({turn.seat: reply for turn, reply in zip(turns, bot.act(turns), strict=True)})
                if not session.turns():
                    break
            if session.turns():
                return session
        raise UserError(f"{self.task.case} is over before anybody is asked")

    def seating(self) -> Mapping[int, Player]:
        """Who sits where."""
        seats = range(get_environment(self.task.env).players_of(self.task))
        return {
            seat: self.player.player if self.judges(seat) or not self.opponent else self.opponent.player
            for seat in seats
        }

    def judges(self, seat: int) -> bool:
        """Whether the judged player sits there."""
        return self.opponent is None or seat == self.task.manner.seat


@dataclass(frozen=True)
class FinishedGame:
    """A finished game, or a task that was answered, as it stands in the ledger.

    Attributes:
        key: See `Pairing.key`.
        task: The task's id.
        case: What was played.
        group: The group of the task in its environment, such as a level.
        mode: "episode" for a whole game, "move" for a single answer.
        cluster: Equal for results that are resampled together: of one deal, or of tasks that ask the same.
        deal: Which deal, or task, of the case.
        seat: The judged seat; -1 where the session decides.
        player: Who was judged, as a person named it.
        opponent: Who sat on the other seats.
        value: The judged seat's score in [0, 1].
        success: Whether it won, or solved the task.
        reason: How the game ended for it.
        moves: How often the judged player was asked.
        prompt_tokens: What it read.
        tokens: What it wrote.
        trajectory_hash: A digest of all messages and of the score: equal for games with the same moves.
        measures: What the game itself counts, such as its points, as it stood at the end; by name.
    """

    key: str
    task: str
    case: str
    group: str
    mode: str
    cluster: str
    deal: int
    seat: int
    player: str
    opponent: str
    value: float
    success: bool
    reason: Reason
    moves: int
    prompt_tokens: int
    tokens: int
    trajectory_hash: str
    measures: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def env(self) -> str:
        """The environment."""
        return self.task.partition("/")[0]

    @property
    def part(self) -> str:
        """By what results are reported: the case of a whole game, the group of a single answer."""
        return self.case if self.mode == "episode" else self.group

    def to_json(self) -> str:
        """As one line."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "FinishedGame":
        """The opposite of `to_json`.

        Raises:
            ValueError: It is no game.
        """
        try:
            values = json.loads(text)
            return cls(**{**values, "reason": Reason(values["reason"])})
        except (KeyError, TypeError) as error:
            raise ValueError(str(error)) from error


def pair(
    cases: str | Sequence[str],
    games: int,
    players: Sequence[NamedPlayer],
    opponents: Sequence[NamedPlayer],
    rules: Rules,
) -> list[Pairing]:
    """The games of an evaluation: each deal of each case, from each seat, by each player, against each opponent.

    Args:
        cases: What is played, see `tasks_of`.
        games: Of each case, against each opponent; rounded up to whole deals.
        players: Who is judged.
        opponents: Against whom. A game for one is played once.
        rules: What holds in every game.

    Raises:
        UserError: As `tasks_of`; or there is nothing to play.
    """
    if games < 1 or not opponents:
        raise UserError(f"nothing to play: {games} games against {len(opponents)} opponents")
    made: list[Pairing] = []
    for tasks in tasks_of(cases, games, rules).values():
        if rules.opening and tasks[0].mode != "episode":
            raise UserError(f"an opening of {rules.opening} moves is for whole games, and {rules.env} has none")
        seats = seats_of(tasks[0])
        for opponent in opponents if seats > 1 else [None]:
            for task in tasks[: -(-games // seats)]:
                for placed in [task] if opponent is None else _placed(task, seats, opponent):
                    made += [Pairing(placed, player, opponent, rules) for player in players]
    return made


def _placed(task: Task, seats: int, opponent: NamedPlayer) -> list[Task]:
    """A deal from each seat."""
    # The weights of a model are its identity, and not the folder where they are.
    name = "model" if opponent.is_model else opponent.name
    return [task.replace(opponent=name, seat=seat) for seat in range(seats)]


def play_all(
    pairings: Sequence[Pairing],
    at_once: int,
    on_end: Callable[[Pairing, FinishedGame], None],
    watch: Callable[[Pairing, Session], Session] = lambda pairing, session: session,
) -> None:
    """Play games, so many at a time.

    Args:
        pairings: The games.
        at_once: The most games that run together, which bounds the memory.
        on_end: Called with each game as it ends.
        watch: Wraps a game's session in one that sees every message of it.
    """
    for start in range(0, len(pairings), at_once):
        chunk = pairings[start : start + at_once]
        prepare(pairing.task for pairing in chunk)
        sessions = [_Watched(pairing, on_end, watch) for pairing in chunk]
        play(sessions, [session.pairing.seating() for session in sessions])


class _Watched(Session):
    """A game that is counted, and reports its end."""

    def __init__(
        self,
        pairing: Pairing,
        on_end: Callable[[Pairing, FinishedGame], None],
        watch: Callable[[Pairing, Session], Session],
    ) -> None:
        self.pairing = pairing
        self.task = pairing.task
        self._inner = watch(pairing, pairing.session())
        self._on_end = on_end
        self._moves = self._prompt_tokens = self._tokens = 0
        self._shown = hashlib.sha256()
        self._over = False

    def turns(self) -> Sequence[Turn]:
        turns = self._inner.turns()
        if not turns and not self._over:
            self._over = True
            self._on_end(self.pairing, self._record())
        return turns

    def step(self, replies: Mapping[int, Reply]) -> None:
        for turn in self._inner.turns():
            self._shown.update(repr((turn.seat, turn.messages)).encode())
        for seat, reply in replies.items():
            if self.pairing.judges(seat):
                self._moves += 1
                self._prompt_tokens += reply.prompt_tokens
                self._tokens += reply.tokens
        self._inner.step(replies)

    def scores(self) -> dict[int, Score]:
        return self._inner.scores()

    def _record(self) -> FinishedGame:
        task, scores, environment = self.task, self.scores(), get_environment(self.task.env)
        score = scores[task.manner.seat if task.manner.seat in scores else min(scores)]
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
    """The finished games of an output folder, one JSON object a line.

    A line that was cut off, as by a loss of power, is dropped: its game is played again.

    Args:
        path: The file; it need not exist yet, nor its folder.

    Raises:
        UserError: It cannot be read or written, or is something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.games: dict[str, FinishedGame] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
            whole = [line for line in lines if line.endswith(b"\n")]
            for line in whole:
                game = FinishedGame.from_json(line.decode())
                self.games[game.key] = game
            self._file = path.open("ab")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file.truncate(sum(map(len, whole)))
        except BlockingIOError as error:
            raise UserError(f"another evaluation writes to {path.parent}: wait, or give another --output") from error
        except (OSError, ValueError) as error:
            raise UserError(
                f"{path} cannot be read as the finished games of an evaluation ({error}): "
                "remove it, or give another --output"
            ) from error

    def add(self, game: FinishedGame) -> None:
        """Keep a finished game."""
        self.games[game.key] = game
        self._file.write(game.to_json().encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Put everything on the disk."""
        os.fsync(self._file.fileno())
        self._file.close()

    def of(self, pairings: Iterable[Pairing]) -> list[FinishedGame]:
        """The finished games among these, in their order, by the names that hold now.

        A player that is the same under another name keeps its games.
        """
        return [
            dataclasses.replace(
                self.games[pairing.key],
                player=pairing.player.name,
                opponent=pairing.opponent.name if pairing.opponent else ALONE,
            )
            for pairing in pairings
            if pairing.key in self.games
        ]
