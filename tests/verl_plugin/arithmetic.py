"""Three small environments for mixtures: "sums", "differences" and "products" of two numbers.

A test puts this folder on the path and registers the environments; see `test_mixture.py`.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from veritas_rl.envs.base import Reason, Reply, Score, Session, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.task import Pay, Task
from veritas_rl.seeding import generator

CASES = ("small", "large")


@dataclass(frozen=True)
class ArithmeticConfig:
    """The configuration of each environment.

    Attributes:
        cases: Names from `CASES`; all of them if empty.
        num_tasks_per_case: The number of tasks of each case.
        seed: The seed of the numbers.
        prompt: Unused.
        reward: As in `Pay`.
    """

    cases: Sequence[str] = ()
    num_tasks_per_case: int = 50
    seed: int = 42
    prompt: str = "full"
    reward: str = "outcome"


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


class Tasks(Sequence[Task]):
    """The tasks of a configuration, case by case."""

    def __init__(self, env: str, config: ArithmeticConfig, split: str) -> None:
        self.env, self.config, self.split = env, config, split

    def __len__(self) -> int:
        return len(self.config.cases or CASES) * self.config.num_tasks_per_case

    def __getitem__(self, index: int) -> Task:  # pyright: ignore[reportIncompatibleMethodOverride]
        case, k = divmod(index, self.config.num_tasks_per_case)
        return Task(
            env=self.env,
            case=(self.config.cases or CASES)[case],
            k=k,
            seed=self.config.seed,
            split=self.split,
            pay=Pay(reward=self.config.reward),
        )


class Arithmetic(Environment):
    """The common base of the three environments."""

    config_type = ArithmeticConfig
    sign: ClassVar[str]
    apply: ClassVar[Callable[[int, int], int]]

    def catalogue(self, config: ArithmeticConfig, split: str) -> Sequence[Task]:
        return Tasks(self.name, config, split)

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
