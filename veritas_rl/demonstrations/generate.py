"""Lets an expert answer tasks or play whole games, and keeps good answers that are not held out.

Each question is asked once. Questions that are equal to validation questions up to a symmetry are left out, as are
mistakes and answers with a low value. `Counts` reports the number of each.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from veritas_rl.demonstrations.experts import make_expert
from veritas_rl.envs.base import Message, Player, Reply, Score, Session, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.registry import get_environment, named_settings
from veritas_rl.envs.task import MODES, Task, check_choice
from veritas_rl.errors import UserError

BATCH = 512
"""The number of tasks in one batch of the expert."""

GAMES_AT_ONCE = 64

PER_CASE = 10**9
"""The number of tasks of each case to draw from. A catalogue is lazy, so a large number costs nothing."""

STALE_DRAWS = 4 * BATCH
"""The number of consecutive questions without a new one after which a case counts as exhausted."""


@dataclass(frozen=True)
class Settings:
    """The settings of demonstrations.

    Attributes:
        games: Cases as users name them, separated by commas; "" for all cases of the environment.
        expert: A name for `experts.make_expert`.
        number: The number of demonstrations.
        seed: The seed of the tasks, the expert and the opponent.
        env: The environment's name.
        mode: "move" for single answers, "episode" for whole games.
        prompt: "full" or "brief", see `Task`.
        min_value: The lowest value of a kept demonstration. For a single answer it is the score's value; for a game the
            result, 1 for a win and 0.5 for a draw.
        opponent: The player of the other seats of a game, a name like `expert`; None if the expert plays every seat.
        config: Further settings of the environment, as pairs of key and value.

    Raises:
        UserError: A value is invalid.
    """

    games: str
    expert: str
    number: int
    seed: int = 42
    env: str = "openspiel"
    mode: str = "move"
    prompt: str = "full"
    min_value: float = 0.0
    opponent: str | None = None
    config: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.number < 1:
            raise UserError(f"num_demonstrations must be at least 1, got {self.number}")
        if not 0.0 <= self.min_value <= 1.0:
            raise UserError(f"min_value must be in [0, 1], got {self.min_value:g}")
        check_choice("mode", self.mode, MODES)
        if self.mode == "episode" and "mode" not in get_environment(self.env).settings:
            raise UserError(f"{self.env} has no whole games; leave out mode=episode")
        if self.opponent is not None and self.mode == "move":
            raise UserError("opponent needs mode=episode, because a single answer has no other seat")

    def catalogue(
        self, split: str, per_case: int = PER_CASE, mode: str | None = None, **changes: Any
    ) -> Sequence[Task]:
        """The tasks, at most `per_case` of each case.

        Args:
            split: "train" or "val".
            per_case: The number of tasks of each case.
            mode: Replaces `mode`.
            changes: Settings of the environment that replace others.

        Raises:
            UserError: A case or a setting does not exist, or a value is invalid.
        """
        environment, mode = get_environment(self.env), mode or self.mode
        values = {"prompt": self.prompt, "seed": self.seed, **named_settings(environment, dict(self.config))}
        if self.games:
            values[environment.cases_key] = self.games
        values |= environment.single if mode == "move" else {"mode": mode}
        return environment.catalogue(
            environment.read_config({**values, "num_tasks_per_case": per_case, **changes}), split
        )


@dataclass(frozen=True)
class Demonstration:
    """An expert's answer to one question.

    Attributes:
        task: The task.
        said: The earlier replies of the task's session, from which the question can be rebuilt; none in mode "move".
        messages: The prompt.
        response: The answer.
        value: The score's value.
        group: The equivalence class of the question.
    """

    task: Task
    said: tuple[str, ...]
    messages: tuple[Message, ...]
    response: str
    value: float
    group: str


@dataclass
class Counts:
    """The numbers of drawn questions by outcome; `drawn` is the sum of the others.

    Attributes:
        drawn: All questions.
        in_evaluation_set: Questions that are equal to validation questions up to a symmetry.
        duplicates: Questions that were asked before.
        mistakes: Unreadable and illegal answers, by reason.
        rejected_by_quality: Answers with a value below `min_value`.
        surplus: Good answers beyond the requested number.
        kept: Demonstrations.
    """

    drawn: int = 0
    in_evaluation_set: int = 0
    duplicates: int = 0
    mistakes: dict[str, int] = field(default_factory=dict)
    rejected_by_quality: int = 0
    surplus: int = 0
    kept: int = 0


class _Sieve:
    """Filters questions and answers, and counts the outcomes."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.environment: Environment = get_environment(settings.env)
        self.counts = Counts()
        self._asked: set[str] = set()

    def is_new(self, task: Task, turn: Turn) -> bool:
        """Whether a question is neither held out nor asked before. The call records the question."""
        self.counts.drawn += 1
        if self.environment.held_out(task, turn):
            self.counts.in_evaluation_set += 1
            return False
        question = str(turn.messages)
        if question in self._asked:
            self.counts.duplicates += 1
            return False
        self._asked.add(question)
        return True

    def judged(self, task: Task, said: Sequence[str], turn: Turn, reply: str, score: Score) -> Demonstration | None:
        """The demonstration; None if its answer is a mistake or below `min_value`."""
        if score.reason.is_mistake:
            self.counts.mistakes[score.reason] = self.counts.mistakes.get(score.reason, 0) + 1
        elif score.value < self.settings.min_value:
            self.counts.rejected_by_quality += 1
        else:
            return self.kept(task, said, turn, reply, score.value)
        return None

    def kept(self, task: Task, said: Sequence[str], turn: Turn, reply: str, value: float) -> Demonstration:
        """Count a demonstration as kept, and return it."""
        self.counts.kept += 1
        group = self.environment.turn_class(task, turn)
        return Demonstration(task, tuple(said), turn.messages, reply, value, group)


def generate(
    settings: Settings, on_progress: Callable[[int], None] = lambda kept: None
) -> tuple[list[Demonstration], Counts]:
    """Draw questions until there are as many demonstrations as wanted, or no new questions.

    Args:
        settings: The settings of the demonstrations.
        on_progress: Called after each batch with the number of demonstrations so far.

    Returns:
        The demonstrations, of all cases in turn, and the counts of all questions.

    Raises:
        UserError: A name or a value is invalid, or no demonstration is left.
    """
    sieve = _Sieve(settings)
    cases = dict.fromkeys(task.case for task in settings.catalogue("train", per_case=1))
    env = settings.env
    opponent = expert = make_expert(settings.expert, env, str(settings.seed), cases)
    if settings.opponent is not None:
        opponent = make_expert(settings.opponent, env, f"{settings.seed}/opponent", cases)
    made: list[Demonstration] = []
    for tasks in _batches(settings, cases, sieve.counts):
        sieve.environment.prepare(tasks)
        found = _labelled(tasks, sieve, expert) if settings.mode == "move" else _played(tasks, sieve, expert, opponent)
        made += found
        on_progress(min(len(made), settings.number))
        if len(made) >= settings.number:
            break
    counts = sieve.counts
    if not made:
        if counts.in_evaluation_set == counts.drawn:
            raise UserError(
                f"every question of {settings.games or settings.env} is a validation question, because there are too "
                "few to hold some out; choose a larger case"
            )
        raise UserError(
            f"none of {counts.drawn} questions gave a demonstration ({counts.rejected_by_quality} below min_value, "
            f"{sum(counts.mistakes.values())} mistakes); lower min_value or choose another expert"
        )
    counts.surplus = max(0, counts.kept - settings.number)
    counts.kept -= counts.surplus
    return made[: settings.number], counts


def _batches(settings: Settings, cases: Iterable[str], counts: Counts) -> Iterator[Sequence[Task]]:
    """Batches of tasks of all cases in turn, without exhausted cases."""
    names = {get_environment(settings.env).cases_key: (), "cases": ()}
    left = {case: settings.catalogue("train", **{**names, "cases": case}) for case in cases}
    size = min(BATCH if settings.mode == "move" else GAMES_AT_ONCE, settings.number)
    places, stale = dict.fromkeys(left, 0), dict.fromkeys(left, 0)
    while left:
        for case, tasks in list(left.items()):
            # Each batch has tasks of every case, so that even a few demonstrations cover all cases.
            share = max(1, size // len(left))
            before = counts.drawn, counts.drawn - counts.duplicates - counts.in_evaluation_set
            batch = tasks[places[case] : places[case] + share]
            if batch:
                yield batch
            places[case] += share
            new = counts.drawn - counts.duplicates - counts.in_evaluation_set - before[1]
            stale[case] = 0 if new else stale[case] + counts.drawn - before[0]
            if stale[case] >= STALE_DRAWS or len(batch) < share:
                del left[case]


def _labelled(tasks: Sequence[Task], sieve: _Sieve, expert: Player) -> list[Demonstration]:
    """The expert's answers to single questions."""
    asked: list[tuple[Session, Turn]] = []
    for task in tasks:
        session = sieve.environment.start(task)
        turn = session.turns()[0]
        if sieve.is_new(task, turn):
            asked.append((session, turn))
    found = []
    for (session, turn), reply in zip(asked, expert.act([turn for _, turn in asked]), strict=True):
        session.step({turn.seat: reply})
        found.append(sieve.judged(session.task, (), turn, reply.text, session.scores()[turn.seat]))
    return [demonstration for demonstration in found if demonstration is not None]


def _played(tasks: Sequence[Task], sieve: _Sieve, expert: Player, opponent: Player) -> list[Demonstration]:
    """The expert's moves in whole games. The value of a move is the mover's result of the game."""
    alone = opponent is expert
    games = [_Game(task, sieve.environment.start(task)) for task in tasks]
    _play(games, expert, opponent)
    found = []
    for game in games:
        scores = game.session.scores()
        for said, turn, reply in game.moves:
            if (alone or turn.seat == game.task.manner.seat) and sieve.is_new(game.task, turn):
                found.append(sieve.judged(game.task, said, turn, reply.text, scores[turn.seat]))
    return [demonstration for demonstration in found if demonstration is not None]


@dataclass
class _Game:
    """A running game, with the replies before each move."""

    task: Task
    session: Session
    moves: list[tuple[tuple[str, ...], Turn, Reply]] = field(default_factory=list)


def _play(games: Sequence[_Game], expert: Player, opponent: Player) -> None:
    """Play games to their ends, with one call of each player for all its waiting turns."""
    while waiting := [(game, game.session.turns()[0]) for game in games if game.session.turns()]:
        for player in dict.fromkeys((expert, opponent)):
            asked = [
                pair for pair in waiting if player is (expert if pair[1].seat == pair[0].task.manner.seat else opponent)
            ]
            for (game, turn), reply in zip(asked, player.act([turn for _, turn in asked]), strict=True):
                game.moves.append((tuple(said.text for _, _, said in game.moves), turn, reply))
                game.session.step({turn.seat: reply})
