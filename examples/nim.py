"""Nim, a game for two seats: an environment that uses the whole protocol, in one file.

    python train/tools/lint_env.py --env examples/nim.py:Nim --tasks 6
    python train/tools/evaluate.py --env examples/nim.py:Nim --checkpoint random --opponent random --num_episodes 40

Players take one to three stones in turn from a heap, and who takes the last stone wins. A task is a whole game, or one
move, which is right if it leaves a multiple of four. docs/environments.md opens with a shorter way for questions with
one answer.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from veritas_rl.envs.answers import boxed
from veritas_rl.envs.audit import Audit
from veritas_rl.envs.base import Reason, Reply, Score, Session, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.settings import Number
from veritas_rl.envs.single import SingleAnswerConfig
from veritas_rl.envs.task import Manner, Pay, Task
from veritas_rl.permutation import Permutation
from veritas_rl.seeding import uniform

MOST = 3
HEAPS = {"small": (4, 24), "large": (25, 60)}
"""The fewest and the most stones of each case."""


class NimConfig(SingleAnswerConfig):
    """The settings, in addition to cases, number of tasks, seed, prompt and reward.

    Attributes:
        mode: "move" for single moves, "episode" for whole games.
        opponent: The player of the other seat.
        gamma: The discount of the reward for each later move.
    """

    single: ClassVar[Mapping[str, Any]] = {"mode": "move"}

    mode: str = "move"
    opponent: str = "random"
    gamma: Number = 1.0

    def known_cases(self) -> tuple[str, ...]:
        return tuple(HEAPS)


class Nim(Environment):
    """Heaps of stones for two players, by turns on either seat."""

    name = "nim"
    config_type = NimConfig
    answers, solved = "legal moves", "right moves and won games"

    def catalogue(self, config: Any, split: str) -> Sequence[Task]:
        def make(case: str, k: int) -> Task:
            whole = {"seat": k % 2} if config.mode == "episode" else {"opponent": "none"}
            parts = {"manner": config.part(Manner, **whole), "pay": config.part(Pay)}
            return Task(self.name, case, k, mode=config.mode, seed=config.seed, split=split, **parts)

        return config.tasks(split, make)

    def start(self, task: Task) -> Session:
        heaps = _heaps(task.case, task.split)
        order = Permutation(len(heaps), self.name, task.case, task.seed)
        return NimSession(task, heaps[order[task.k % len(heaps)]])

    def players_of(self, task: Task) -> int:
        return 2

    def audit(self) -> Audit:
        return NimAudit()


class NimAudit(Audit):
    """What the linter cannot know."""

    def question_count(self, task: Task) -> int:
        return len(_heaps(task.case, task.split))


def _heaps(case: str, split: str) -> list[int]:
    """The heaps of a split that the first seat can win; about a quarter is validation."""
    least, most = HEAPS[case]
    won = [stones for stones in range(least, most + 1) if stones % (MOST + 1)]
    return [stones for stones in won if (uniform("nim", stones) < 1 / 4) == (split == "val")]


class NimSession(Session):
    """A game of Nim.

    Args:
        task: The task.
        stones: The stones in the heap.
    """

    def __init__(self, task: Task, stones: int) -> None:
        self.task = task
        self._stones, self._seat, self._ply = stones, 0, 0
        self._scores: dict[int, Score] = {}

    def turns(self) -> Sequence[Turn]:
        """The turn of the seat to move."""
        if self._scores:
            return []
        rules = f"Take 1 to {MOST} stones in turn; who takes the last one wins. Answer in a box: \\boxed{{NUMBER}}.\n"
        text = f"{'' if self.task.manner.prompt == 'brief' else rules}{self.board(self._seat)}"
        answers = tuple(f"\\boxed{{{count}}}" for count in range(1, min(MOST, self._stones) + 1))
        dice = (self.task.chance_seed, self._ply, self._seat)
        return [Turn(self._seat, ({"role": "user", "content": text},), answers, dice=dice, view=self._stones)]

    def step(self, replies: Mapping[int, Reply]) -> None:
        """Take stones. A mistake ends the game, and the other seat has done nothing wrong."""
        seat, other = self._seat, 1 - self._seat
        said = boxed(replies[seat])
        wrong = said if isinstance(said, Reason) else None
        legal = {str(count) for count in range(1, min(MOST, self._stones) + 1)}
        if wrong is None and said not in legal:
            wrong = Reason.ILLEGAL
        self.rejected = {} if wrong is None else {seat: wrong}
        if wrong is not None:
            forfeited = {other: Score(1.0, True, Reason.FORFEITED)} if self.task.mode == "episode" else {}
            self._scores = {seat: Score(0.0, False, wrong), **forfeited}
            return
        self.actions = {seat: str(said)}
        self._stones -= int(str(said))
        if self.task.mode == "move":
            right = self._stones % (MOST + 1) == 0
            value = float(right or self.task.pay.reward == "legal")
            self._scores = {seat: Score(value, right, Reason.LEGAL, {"value_source": "exact"})}
            return
        if not self._stones:
            self._scores = {seat: Score(1.0, True, Reason.WON), other: Score(0.0, False, Reason.LOST)}
        self._seat, self._ply = other, self._ply + 1

    def scores(self) -> dict[int, Score]:
        """The score of each seat."""
        if not self._scores:
            raise RuntimeError("the session is not over")
        return self._scores

    @property
    def hides(self) -> bool:
        return False

    def board(self, seat: int) -> str:
        """The heap."""
        return f"Stones: {self._stones}"
