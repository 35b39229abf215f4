"""What the small model is taught before reinforcement learning, how it is examined, and what is too large for it.

It is made on the spot, where nobody named a model. Its lessons are what the environment's teacher would reply. An exam
on held-out questions decides when it has had enough of them.
"""

import math
from collections.abc import Sequence
from typing import Any

from veritas_rl.chat_template import prompt_ids
from veritas_rl.envs.base import Turn
from veritas_rl.envs.registry import cases_among, get_environment, spread
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.launch.run import Answering
from veritas_rl.launch.tiny_model import byte_tokenizer
from veritas_rl.launch.warmup import Lesson
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import LanguageModelPlayer
from veritas_rl.players.registry import make_bot
from veritas_rl.players.sampling import SamplingParams

QUESTIONS = 512
"""How many held-out questions an exam has: a share near 0.97 is then known to 0.015."""

LOOKED_AT = 32
"""How many tasks of each case are looked at to see how large they are: making positions takes time."""

RANDOM = "random"
"""The teacher that replies each legal answer equally often."""


def words_of(tasks: Sequence[Task]) -> tuple[str, ...]:
    """What the questions and answers of tasks are made of, as their environments say."""
    by_env: dict[str, list[Task]] = {}
    for task in spread(tasks, 1000):
        by_env.setdefault(task.env, []).append(task)
    found = [get_environment(env).words(cases_among(some)) for env, some in by_env.items()]
    return tuple(dict.fromkeys(word for words in found for word in words))


def warnings(tasks: Sequence[Task]) -> list[str]:
    """A line for each case on which the small model is known to learn nothing."""
    by_env: dict[str, set[str]] = {}
    for task in spread(tasks, 1000):
        by_env.setdefault(task.env, set()).add(task.case)
    return [line for env, cases in by_env.items() for line in get_environment(env).small_model_warnings(sorted(cases))]


def check_size(tasks: Sequence[Task], words: Sequence[str], *, tokens: int, answers: int) -> None:
    """Refuse what the small model cannot learn in minutes.

    Args:
        tasks: What it would be taught.
        words: The words of its tokenizer.
        tokens: The longest prompt that it learns from, on average.
        answers: The most answers that it can distinguish.

    Raises:
        UserError: The tasks of a case are larger.
    """
    tokenizer = byte_tokenizer(words)
    by_case: dict[tuple[str, str], list[Task]] = {}
    for task in spread(tasks, 1000):
        by_case.setdefault((task.env, task.case), []).append(task)
    for (env, case), some in by_case.items():
        turns = [turn for task in some[:LOOKED_AT] for turn in get_environment(env).start(task).turns()]
        length = sum(len(prompt_ids(tokenizer, turn.messages)) for turn in turns) / len(turns)
        listed = len({answer for turn in turns for answer in turn.answers})
        too = f"prompts of {length:.0f} tokens" if length > tokens else f"{listed} answers" if listed > answers else ""
        if too:
            raise UserError(
                f"{case} is too large for the small model that is made here ({too}; it learns from prompts of {tokens} "
                f"and {answers} answers): choose a smaller case, or name a model with AGENT_MODEL_REPO_ID=..., or set "
                "veritas_rl.small_model.tokens and .answers to try all the same"
            )


def lesson(task: Task, seed: str) -> Lesson:
    """A question and what the environment's teacher may reply to it."""
    environment = get_environment(task.env)
    (turn,) = environment.start(task).turns()
    messages = tuple(dict(message) for message in turn.messages)
    if environment.teacher == RANDOM and turn.answers:
        return Lesson(messages, turn.answers)
    teacher = make_bot(environment.teacher, task.env, seed)
    return Lesson(messages, (teacher.act([turn])[0].text,))


class Exam:
    """Held-out questions whose right answers can be listed.

    Args:
        tasks: Held-out tasks of one answer each.
        asked: How the model answers.
    """

    def __init__(self, tasks: Sequence[Task], asked: Answering) -> None:
        chosen = [tasks[index] for index in range(min(QUESTIONS, len(tasks)))]
        turns = [turn for task in chosen for turn in get_environment(task.env).start(task).turns()]
        self.turns: list[Turn] = [turn for turn in turns if turn.answers]
        self.answers = " and ".join(dict.fromkeys(get_environment(task.env).answers for task in chosen))
        self._asked = asked

    def share(self, model: Any, tokenizer: Any) -> float:
        """The share of the model's replies that are an answer which the question allows, word for word."""
        asked = self._asked
        engine = GenerationEngine(
            model,
            (tokenizer.eos_token_id,),
            tokenizer.pad_token_id,
            max_batch_size=asked.at_once,
            max_model_len=asked.context,
            seed=asked.seed,
        )
        try:
            player = LanguageModelPlayer(engine, tokenizer, SamplingParams(asked.tokens, temperature=asked.temperature))
            replies = player.act(self.turns)
        finally:
            engine.close()
        right = [reply.text in turn.answers for reply, turn in zip(replies, self.turns, strict=True)]
        return sum(right) / len(right)


def described(found: dict[str, float], exam: Exam, *, steps: int, seconds: float, enough: float) -> str:
    """What a warm-up did, and why it ended, in a line.

    Args:
        found: What `warm_up` returned.
        exam: By which it was measured.
        steps: The most updates.
        seconds: The most time.
        enough: What was wanted.
    """
    line = f"warm-up: {found['steps']:.0f} updates in {found['seconds']:.0f} s, loss {found['loss']:.3f}"
    if math.isnan(found["measured"]):
        return line
    line += f", {found['measured']:.1%} {exam.answers} of {len(exam.turns)} held-out replies"
    if found["measured"] >= enough:
        return line
    bound = (
        f"veritas_rl.warm_up.steps={steps}"
        if found["steps"] >= steps
        else f"veritas_rl.warm_up.seconds={seconds:g}"
        if found["seconds"] >= 0.95 * seconds
        else ""
    )
    return line + (f"; it ended at {bound}, before the {enough:.0%} that are wanted" if bound else "")
