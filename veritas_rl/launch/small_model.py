"""Lessons, exam and size limits of the small model that the launcher makes if no model is named.

The lessons are the replies of the environment's teacher. An exam on held-out questions decides when the warm-up ends.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from veritas_rl.chat_template import prompt_ids
from veritas_rl.envs.abilities import WarnsOfSmallModels
from veritas_rl.envs.base import Turn
from veritas_rl.envs.registry import cases_by_environment, get_environment, spread
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.launch.answering import Answering, player_of
from veritas_rl.launch.tiny_model import byte_tokenizer
from veritas_rl.launch.warmup import Lesson
from veritas_rl.players.registry import make_bot
from veritas_rl.players.solution import SOLUTION

QUESTIONS = 512
"""The number of held-out questions of an exam. The 95% interval of a share near 0.97 is then ±0.015."""

LOOKED_AT = 32
"""How many tasks of each case are measured for size. Making positions takes time."""

RANDOM = "random"
"""The teacher that gives each legal answer equally often."""


def warnings(tasks: Sequence[Task]) -> list[str]:
    """A warning for each case on which the small model is known to learn nothing."""
    named = ((get_environment(env), cases) for env, cases in cases_by_environment(tasks).items())
    knowing = ((env, cases) for env, cases in named if isinstance(env, WarnsOfSmallModels))
    return [line for env, cases in knowing for line in env.small_model_warnings(sorted(cases))]


def check_size(tasks: Sequence[Task], words: Sequence[str], *, tokens: int, answers: int) -> None:
    """Refuse tasks that the small model cannot learn in minutes.

    Args:
        tasks: The tasks of the warm-up.
        words: The words of the model's tokenizer.
        tokens: The limit of a case's mean prompt length, in tokens.
        answers: The limit of a case's number of different answers.

    Raises:
        UserError: A case exceeds a limit.
    """
    tokenizer = byte_tokenizer(words)
    by_case: dict[tuple[str, str], list[Task]] = {}
    for task in spread(tasks):
        by_case.setdefault((task.env, task.case), []).append(task)
    for (env, case), some in by_case.items():
        turns = [turn for task in some[:LOOKED_AT] for turn in get_environment(env).start(task).turns()]
        length = sum(len(prompt_ids(tokenizer, turn.messages)) for turn in turns) / len(turns)
        listed = len({answer for turn in turns for answer in turn.answers})
        too = f"prompts of {length:.0f} tokens" if length > tokens else f"{listed} answers" if listed > answers else ""
        if too:
            raise UserError(
                f"{case} is too large for the small model that is made on a CPU ({too}; the limits are {tokens} tokens "
                f"and {answers} answers): choose a smaller case, name a model with AGENT_MODEL_REPO_ID=..., or raise "
                "veritas_rl.small_model.tokens and veritas_rl.small_model.answers"
            )


def lessons_of(task: Task, seed: str) -> list[Lesson]:
    """A task's question with the replies of the environment's teacher; none if the task has no solution to teach."""
    environment = get_environment(task.env)
    (turn,) = environment.start(task).turns()
    messages = tuple(dict(message) for message in turn.messages)
    if environment.teacher == RANDOM and turn.answers:
        return [Lesson(messages, turn.answers)]
    if environment.teacher == SOLUTION and not turn.solution:
        return []
    teacher = make_bot(environment.teacher, task.env, seed)
    return [Lesson(messages, (teacher.act([turn])[0].text,))]


class Exam:
    """Held-out questions whose correct answers can be listed.

    Args:
        tasks: Held-out tasks with one answer each.
        asked: The settings with which the model generates answers.
    """

    def __init__(self, tasks: Sequence[Task], asked: Answering) -> None:
        chosen = [tasks[index] for index in range(min(QUESTIONS, len(tasks)))]
        turns = [turn for task in chosen for turn in get_environment(task.env).start(task).turns()]
        self.turns: list[Turn] = [turn for turn in turns if turn.answers]
        self.answers = " and ".join(dict.fromkeys(get_environment(task.env).answers for task in chosen))
        # As the lessons show their questions.
        self._asked = dataclasses.replace(asked, say_limit=False, enable_thinking=False)

    def share(self, model: Any, tokenizer: Any) -> float:
        """The share of the model's replies that equal a correct answer exactly."""
        with player_of(model, tokenizer, self._asked) as player:
            replies = player.act(self.turns)
        right = [reply.text in turn.answers for reply, turn in zip(replies, self.turns, strict=True)]
        return sum(right) / len(right)


def described(found: dict[str, float], exam: Exam, *, steps: int, tokens: int | None, enough: float) -> str:
    """Describe a warm-up and why it ended, in one line.

    Args:
        found: The result of `warm_up`.
        exam: The exam that measured it.
        steps: The maximum number of updates.
        tokens: The maximum number of prompt and reply tokens in all updates.
        enough: The goal.
    """
    updates = f"{found['steps']:.0f} updates ({found['tokens']:,.0f} tokens)"
    line = f"warm-up: {updates} in {found['seconds']:.0f} s, loss {found['loss']:.3f}"
    if math.isnan(found["measured"]):
        return line
    line += f", {found['measured']:.1%} {exam.answers} of {len(exam.turns)} held-out replies"
    if found["measured"] >= enough:
        return line
    bound = f"steps={steps}" if found["steps"] >= steps or tokens is None else f"tokens={tokens}"
    return line + f"; it ended at veritas_rl.warm_up.{bound}, before the goal of {enough:.0%}"
