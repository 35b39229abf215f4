"""Three small environments for mixtures: "sums", "differences" and "products" of two numbers.

A test puts this folder on the path and registers the environments; see `test_mixture.py`.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar

from veritas_rl.envs.base import Reason, Reply, Score, Session, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.settings import at_least
from veritas_rl.envs.single import SingleAnswerConfig
from veritas_rl.envs.task import Pay, Task
from veritas_rl.seeding import generator

CASES = ("small", "large")


class ArithmeticConfig(SingleAnswerConfig):
    """The configuration of each environment."""

    num_tasks_per_case: Annotated[int, at_least(1)] = 50

    def known_cases(self) -> tuple[str, ...]:
        return CASES


class ArithmeticSession(Session):
    """A session with one question."""

    def __init__(self, task: Task, sign: str, apply: Callable[[int, int], int]) -> None:
        self.task = task
        numbers = generator(task.chance_seed)
        most = 9 if task.case == "small" else 999
        first, second = numbers.randint(0, most), numbers.randint(0, most)
        self.question, self.answer = f"{first} {sign} {second} =", str(apply(first, second))
        self.score: Score | None = None

    def turns(self) -> Sequence[Turn]:
        if self.score is not None:
            return ()
        return (Turn(0, ({"role": "user", "content": self.question},), (), solution=self.answer),)

    def step(self, replies: Mapping[int, Reply]) -> None:
        right = replies[0].text.strip() == self.answer
        self.score = Score(float(right), right, Reason.CORRECT if right else Reason.WRONG)

    def scores(self) -> dict[int, Score]:
        assert self.score is not None
        return {0: self.score}


class Arithmetic(Environment):
    """The common base of the three environments."""

    config_type = ArithmeticConfig
    sign: ClassVar[str]
    apply: ClassVar[Callable[[int, int], int]]

    def catalogue(self, config: ArithmeticConfig, split: str) -> Sequence[Task]:
        def make(case: str, k: int) -> Task:
            return Task(self.name, case, k, seed=config.seed, split=split, pay=config.part(Pay))

        return config.tasks(split, make)

    def start(self, task: Task) -> Session:
        return ArithmeticSession(task, self.sign, type(self).apply)


class Sums(Arithmetic):
    """The sum of two numbers."""

    name, sign, apply = "sums", "+", operator.add


class Differences(Arithmetic):
    """The difference of two numbers."""

    name, sign, apply = "differences", "-", operator.sub


class Products(Arithmetic):
    """The product of two numbers."""

    name, sign, apply = "products", "*", operator.mul
