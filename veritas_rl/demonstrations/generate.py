"""Lets an expert answer tasks or play whole games, and keeps good answers that are not held out.

Each question is asked once. Questions that are equal to validation questions up to a symmetry are left out, as are
mistakes and answers with a low value. `Counts` reports the number of each.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from veritas_rl.demonstrations.experts import make_expert
from veritas_rl.demonstrations.questions import Block, Demonstration, KeptBlocks, Question
from veritas_rl.envs.base import Player, Reason, Reply, Score, Session, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.registry import get_environment, is_remote, named_settings
from veritas_rl.envs.task import MODES, Task, check_choice
from veritas_rl.errors import UserError
from veritas_rl.parallel import Workers
from veritas_rl.players.registry import is_bot
from veritas_rl.players.solution import SOLUTION
from veritas_rl.seeding import digest

BATCH = 512
"""The number of tasks, of all cases together, that a model answers at once."""

GAMES_AT_ONCE = 64
"""The number of games that a model plays at once."""

BLOCK = 8
"""The number of tasks of a case in a worker's block if bots answer. A block of whole games has one game."""

PER_CASE = 10**9
"""The number of tasks of each case to draw from. A catalogue is lazy, so a large number costs nothing."""

STALE_DRAWS = 4 * BATCH
"""A case counts as exhausted after this many consecutive questions that are not new."""


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
        kind = get_environment(self.env).config_type
        if self.mode == "episode" and "mode" not in kind.model_fields:
            raise UserError(f"{self.env} has no whole games; leave out mode=episode")
        if self.mode not in kind.modes:
            raise UserError(f"{self.env} has whole games alone; set mode=episode")
        if self.opponent is not None and self.mode == "move":
            raise UserError("opponent needs mode=episode, because a single answer has no other seat")

    def values(self) -> dict[str, Any]:
        """The settings as plain values."""
        return {**asdict(self), "config": dict(self.config)}

    def catalogue(
        self, split: str, per_case: int = PER_CASE, mode: str | None = None, **changes: Any
    ) -> Sequence[Task]:
        """The tasks, at most `per_case` of each case.

        Args:
            split: "train" or "val".
            per_case: The number of tasks of each case.
            mode: Replaces `mode`.
            changes: Settings of the environment that replace the configured settings.

        Raises:
            UserError: A case or a setting does not exist, or a value is invalid.
        """
        environment, mode = get_environment(self.env), mode or self.mode
        values = {"prompt": self.prompt, "seed": self.seed, **named_settings(environment, dict(self.config))}
        if self.games:
            values[environment.config_type.cases_key] = self.games
        values |= environment.config_type.single if mode == "move" else {"mode": mode}
        return environment.catalogue(
            environment.read_config({**values, "num_tasks_per_case": per_case, **changes}), split
        )


@dataclass
class Counts:
    """The numbers of drawn questions by outcome; `drawn` is the sum of the other numbers.

    Attributes:
        drawn: All questions.
        in_evaluation_set: Questions that are equal to validation questions up to a symmetry.
        duplicates: Questions that were asked before.
        mistakes: Unreadable and illegal answers, by reason.
        rejected_by_quality: Answers with a value below `min_value`.
        kept: Demonstrations.
    """

    drawn: int = 0
    in_evaluation_set: int = 0
    duplicates: int = 0
    mistakes: dict[str, int] = field(default_factory=dict)
    rejected_by_quality: int = 0
    kept: int = 0


class _Sieve:
    """Counts the questions in their order, and selects the demonstrations.

    Attributes:
        counts: The number of questions by outcome.
        made: The demonstrations.
        asked: The digests of the questions.
        exhausted: The cases that yield no new questions.
    """

    def __init__(self, settings: Settings, cases: Iterable[str]) -> None:
        self.settings = settings
        self.counts = Counts()
        self.made: list[Demonstration] = []
        self.asked: set[str] = set()
        self.exhausted: set[str] = set()
        self._stale = dict.fromkeys(cases, 0)

    def take(self, case: str, questions: Sequence[Question]) -> None:
        """Take the questions of a block, until the requested number of demonstrations is reached."""
        for question in questions:
            self._stale[case] = 0 if self._is_new(question) else self._stale[case] + 1
            if len(self.made) == self.settings.number:
                return
        if self._stale[case] >= STALE_DRAWS:
            self.exhausted.add(case)

    def _is_new(self, question: Question) -> bool:
        """Count a question. Returns whether it is neither held out nor asked before; the answer is then
        also counted."""
        counts = self.counts
        counts.drawn += 1
        if question.held_out:
            counts.in_evaluation_set += 1
            return False
        if question.digest in self.asked or question.answer is None:
            counts.duplicates += 1
            return False
        self.asked.add(question.digest)
        demonstration, reason = question.answer
        if reason.is_mistake:
            counts.mistakes[reason] = counts.mistakes.get(reason, 0) + 1
        elif demonstration.value < self.settings.min_value:
            counts.rejected_by_quality += 1
        else:
            counts.kept += 1
            self.made.append(demonstration)
        return True


def generate(
    settings: Settings,
    on_progress: Callable[[int], None] = lambda more: None,
    workers: Workers | None = None,
    folder: Path | None = None,
) -> tuple[list[Demonstration], Counts]:
    """Draw questions until there are `settings.number` demonstrations, or no new questions.

    Args:
        settings: The settings of the demonstrations.
        on_progress: Called after each block of tasks with the number of its demonstrations.
        workers: The workers that share the tasks if bots answer; None for this process. A model answers in this
            process. The demonstrations do not depend on the workers.
        folder: The folder that stores answered questions, so that an interrupted command can resume; None to
            store nothing.

    Returns:
        The demonstrations, of all cases in turn, and the counts of all questions.

    Raises:
        UserError: A name or a value is invalid, or no demonstration is left.
    """
    cases, env = _demonstrated_cases(settings), settings.env
    opponent = expert = make_expert(settings.expert, env, str(settings.seed), cases)
    if settings.opponent is not None:
        opponent = make_expert(settings.opponent, env, f"{settings.seed}/opponent", cases)
    bots = all(is_bot(name, env) for name in (settings.expert, settings.opponent) if name is not None)
    single = settings.mode == "move"
    size = (BLOCK if single else 1) * len(cases) if bots else BATCH if single else GAMES_AT_ONCE
    sieve = _Sieve(settings, cases)
    ask = partial(_labelled, expert, sieve.asked) if single else partial(_played, expert, opponent)
    sharing = workers if workers is not None and bots else Workers(1)
    blocks = _blocks(settings, cases, min(size, settings.number), sieve.exhausted)
    with ExitStack() as stack:
        kept = stack.enter_context(closing(KeptBlocks(folder, settings.values()))) if folder else None
        for case, questions in kept.blocks if kept else ():
            next(blocks)
            sieve.take(case, questions)
        on_progress(len(sieve.made))
        asked = stack.enter_context(closing(sharing.map(ask, blocks)))
        while len(sieve.made) < settings.number and (found := next(asked, None)) is not None:
            case, questions = found
            if case in sieve.exhausted:
                continue
            if kept:
                kept.add(case, questions)
            before = len(sieve.made)
            sieve.take(case, questions)
            on_progress(len(sieve.made) - before)
    made, counts = sieve.made, sieve.counts
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
    return made, counts


def _demonstrated_cases(settings: Settings) -> Collection[str]:
    """The cases. Of all cases of an environment, those without a solution are left out if that is the expert."""
    tasks, start = settings.catalogue("train", per_case=1), get_environment(settings.env).start
    if settings.games or settings.expert != SOLUTION or any(map(is_remote, tasks)):
        return dict.fromkeys(task.case for task in tasks)
    return [task.case for task in tasks if all(turn.solution for turn in start(task).turns())]


def _blocks(settings: Settings, cases: Collection[str], size: int, exhausted: Collection[str]) -> Iterator[Block]:
    """Blocks of all cases in turn, without the cases that are exhausted when a block is drawn.

    Workers read ahead, so a case may turn out to be exhausted after later blocks were drawn. The results of those
    blocks do not count. The size of a block must therefore depend on the command only.
    """
    names = {get_environment(settings.env).config_type.cases_key: (), "cases": ()}
    left = {case: settings.catalogue("train", **{**names, "cases": case}) for case in cases}
    # Small blocks of every case, so that the first demonstrations come from all cases.
    share, place = max(1, size // len(left)), 0
    while left:
        for case, tasks in list(left.items()):
            if case in exhausted:
                del left[case]
                continue
            block = Block(case, tasks[place : place + share])
            if block.tasks:
                yield block
            if len(block.tasks) < share:
                del left[case]
        place += share


def _labelled(expert: Player, known: Collection[str], block: Block) -> tuple[str, list[Question]]:
    """Label the single questions of a block that are not known yet. Runs in any process."""
    environment = get_environment(block.tasks[0].env)
    environment.prepare(block.tasks)
    found: list[Question] = []
    asked: dict[int, tuple[Session, Turn]] = {}
    here: set[str] = set()
    for task in block.tasks:
        session = environment.start(task)
        turn = session.turns()[0]
        question = _digest(turn)
        held_out = environment.held_out(task, turn)
        if not held_out and question not in known and question not in here:
            here.add(question)
            asked[len(found)] = session, turn
        found.append(Question(question, held_out))
    for (index, (session, turn)), reply in zip(
        asked.items(), expert.act([turn for _, turn in asked.values()]), strict=True
    ):
        session.step({turn.seat: reply})
        answer = _judged(environment, session.task, (), turn, reply, session.scores()[turn.seat])
        found[index] = replace(found[index], answer=answer)
    return block.case, found


def _played(expert: Player, opponent: Player, block: Block) -> tuple[str, list[Question]]:
    """Play the games of a block. The value of each of the expert's moves is the final score of the mover. Runs in
    any process.

    In a conversation, each of the expert's seats gives one question instead of one for each move: its last turn, whose
    chat contains the earlier replies. The chat ends before the seat's first turn that is held out.
    """
    environment = get_environment(block.tasks[0].env)
    environment.prepare(block.tasks)
    alone = opponent is expert
    games = [_Game(task, environment.start(task)) for task in block.tasks]
    _play(games, expert, opponent)
    found = []
    for game in games:
        scores = game.session.scores()
        chats: dict[int, Question] = {}
        ended: set[int] = set()
        for said, turn, reply in game.moves:
            if alone or turn.seat == game.task.manner.seat:
                held_out = environment.held_out(game.task, turn)
                answer = None
                if not held_out:
                    answer = _judged(environment, game.task, said, turn, reply, scores[turn.seat])
                question = Question(_digest(turn), held_out, answer)
                if not turn.opening:
                    found.append(question)
                elif turn.seat not in ended:
                    if held_out:
                        ended.add(turn.seat)
                        chats.setdefault(turn.seat, question)
                    else:
                        chats[turn.seat] = question
        found += chats.values()
    return block.case, found


def _digest(turn: Turn) -> str:
    return f"{digest(turn.messages):016x}"


def _judged(
    environment: Environment, task: Task, said: tuple[str, ...], turn: Turn, reply: Reply, score: Score
) -> tuple[Demonstration, Reason]:
    group = environment.equivalence_class(task, turn)
    return Demonstration(task, said, turn.messages, reply.text, score.value, group), score.reason


@dataclass
class _Game:
    """A running game, with the replies before each move."""

    task: Task
    session: Session
    moves: list[tuple[tuple[str, ...], Turn, Reply]] = field(default_factory=list)


def _play(games: Sequence[_Game], expert: Player, opponent: Player) -> None:
    """Play games to their end, with one call of each player for all its waiting turns."""
    while waiting := [(game, game.session.turns()[0]) for game in games if game.session.turns()]:
        for player in dict.fromkeys((expert, opponent)):
            asked = [
                pair for pair in waiting if player is (expert if pair[1].seat == pair[0].task.manner.seat else opponent)
            ]
            for (game, turn), reply in zip(asked, player.act([turn for _, turn in asked]), strict=True):
                game.moves.append((tuple(said.text for _, _, said in game.moves), turn, reply))
                game.session.step({turn.seat: reply})
