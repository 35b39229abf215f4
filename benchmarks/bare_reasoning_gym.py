"""The sets of reasoning-gym as the library has them: its seeds and its scores, without a guard.

    python train/tools/lint_env.py --env benchmarks/bare_reasoning_gym.py:BareReasoningGym --tasks 4 \\
        --page docs/linted/bare-reasoning-gym.md

The linter says what a trainer meets that takes the library as it is. Training has the seed 42 and
validation the next one, as people do.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

from veritas_rl.envs.base import Reason, Reply, Score, Session
from veritas_rl.envs.libraries.alone import Alone
from veritas_rl.envs.libraries.reasoning_gym.env import ReasoningGymConfig, ReasoningGymEnvironment
from veritas_rl.envs.libraries.reasoning_gym.scoring import Question, read
from veritas_rl.envs.libraries.reasoning_gym.sets import REFUSED, library, question_of
from veritas_rl.envs.single import SingleAnswerSession
from veritas_rl.envs.task import Task

SIZE = 500
"""The questions of a set."""

HANGING = {
    name: REFUSED[name]
    for name in ("composite", "intermediate_integration", "rubiks_cube", "rush_hour", "simple_integration")
}
"""Sets that are not linted: the linter's answers would keep their scores busy for hours, or they mix other sets."""


class BareConfig(ReasoningGymConfig):
    """The settings, with all sets."""

    def known_cases(self) -> tuple[str, ...]:
        return tuple(name for name in sorted(library().DATASETS) if name not in HANGING)

    def accepts(self, case: str) -> bool:
        return False


class BareReasoningGym(ReasoningGymEnvironment):
    """The sets of reasoning-gym with the library's own seeds and scores, without what this package adds. Training has
    the seed 42, validation the next one.
    """

    name: ClassVar[str] = "bare-reasoning-gym"
    config_type = BareConfig

    def question(self, task: Task) -> Question:
        made = _dataset(task.case, task.seed + (task.split == "val"))
        with Alone():
            return question_of(made, made[task.k])

    def start(self, task: Task) -> Session:
        turn = super().start(task).turns()[0]

        def judge(reply: Reply) -> Score:
            said = read(reply, task.manner.prompt == "brief")
            if isinstance(said, Reason):
                return Score(0.0, False, said)
            value = turn.view.score(said)
            return Score(value, value == 1, Reason.CORRECT if value == 1 else Reason.WRONG, {"answer": said})

        return SingleAnswerSession(task, turn, judge)

    def refused(self) -> Mapping[str, str]:
        return HANGING


@lru_cache(maxsize=64)
def _dataset(name: str, seed: int) -> Any:
    """A set of the library with its own settings."""
    kind, settings = library().DATASETS[name]
    return kind(config=settings(seed=seed, size=SIZE))
