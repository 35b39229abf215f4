"""An arithmetic quiz: an environment of another package, as short as one can be."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from veritas_rl.envs.answers import boxed
from veritas_rl.envs.base import Reason, Reply, Score, Session, Turn
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.single import SingleAnswerConfig, SingleAnswerSession
from veritas_rl.envs.task import Manner, Pay, Task
from veritas_rl.seeding import generator


@dataclass(frozen=True)
class QuizConfig(SingleAnswerConfig):
    """What the quiz asks."""

    def known_cases(self) -> tuple[str, ...]:
        return ("sums", "differences")


class Quiz(Environment):
    """Sums and differences of numbers below 50; validation has even first numbers, training odd ones."""

    name = "quiz"
    config_type = QuizConfig
    stages = ({"name": "first", "cases": ["sums"], "threshold": 0.05}, {"name": "second", "threshold": 0.9})
    answers, solved = "numbers in a box", "right numbers"

    def catalogue(self, config: Any, split: str) -> Sequence[Task]:
        def make(case: str, k: int) -> Task:
            pay = Pay(reward=config.reward, legal_share=config.legal_share)
            return Task("quiz", case, k, seed=config.seed, split=split, manner=Manner(prompt=config.prompt), pay=pay)

        return config.tasks(split, make)

    def start(self, task: Task) -> Session:
        random: Random = generator(task.chance_seed)
        first, second = 2 * random.randrange(25) + (task.split == "train"), random.randrange(50)
        truth = first + second if task.case == "sums" else first - second
        asked = f"{first} {'+' if task.case == 'sums' else '-'} {second}"
        rest = "" if task.manner.prompt == "brief" else " Answer with one number in a box, \\boxed{NUMBER}."
        shown = ({"role": "user", "content": f"{asked} = ?{rest}"},)
        turn = Turn(0, shown, (), dice=(task.chance_seed, 0, 0), solution=f"\\boxed{{{truth}}}")
        return SingleAnswerSession(task, turn, lambda reply: judge(reply, truth))


def judge(reply: Reply, truth: int) -> Score:
    """Score a reply: one number in a box."""
    said = boxed(reply)
    if isinstance(said, Reason):
        return Score(0.0, False, said)
    if not re.fullmatch(r"-?(0|[1-9][0-9]{0,3})", said):
        return Score(0.0, False, Reason.ILLEGAL)
    right = said == str(truth)
    return Score(float(right), right, Reason.CORRECT if right else Reason.WRONG, {"value_source": "exact"})
