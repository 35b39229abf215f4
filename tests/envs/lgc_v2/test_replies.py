"""Hostile replies to puzzles raise nothing and are paid for nothing; see `tests/envs/conftest.py`."""

from random import Random
from typing import Any

from veritas_rl.envs.base import Reason, Reply
from veritas_rl.envs.lgc_v2.env import Question, judge
from veritas_rl.envs.lgc_v2.kinds import KINDS
from veritas_rl.envs.lgc_v2.puzzle import LEVELS
from veritas_rl.envs.lgc_v2.task_ids import puzzle_of
from veritas_rl.seeding import generator

NOISE = (
    *("", "", "\n", " ", "x" * 300, "\u200b", "\u202e", "\ud800", "\x00", "\ufeff", "# Work\n", "I think.\n", "- a\n"),
    *("\\boxed{", "\\boxed{}", "}", "{", "$$", "\\text{", "**", "Answer", "the answer", "<b>", "> ", "1. ", "\r\n"),
)
FENCES = ("```", "```\n", "~~~\n", "``", "`", "> ```\n", "```python\n")
WAYS = ("```\n{}\n```\n", "~~~\n{}\n~~~\n", "\\boxed{{{}}}\n", "`{}`\n", "The answer is {}.\n", "{}\n")
OPEN = ("", "", "or\n", "Maybe:\n", "Draft:\n", "Wait, no.\n", "\u6216\n", "Answer:\n")


def test_hostile_replies_raise_nothing_and_are_paid_for_nothing(fuzzed_replies: int, disguise: Any) -> None:
    random = Random(11)
    asked = [
        Question(KINDS[name], seed, puzzle_of(name, seed))
        for name in KINDS
        for seed in generator("hostile puzzles", name).sample(range(1_000), 2 * len(LEVELS))
    ]
    wrong = [[text for _, text in question.puzzle.near_misses()] for question in asked]
    misread = [
        [
            text
            for text in texts
            if (said := question.puzzle.read(text)) is not None and not question.puzzle.is_right(said)
        ]
        for question, texts in zip(asked, wrong, strict=True)
    ]
    reasons: set[Reason] = set()
    for index in range(fuzzed_replies):
        which = random.randrange(len(asked))
        question, right = asked[which], asked[which].puzzle.answer
        kind = index % 5
        shown = right if kind in (0, 1) else ""
        if kind == 0:
            # The right answer is only thought, or stands behind the end of the turn.
            parts = [random.choice(NOISE[:13]), random.choice(WAYS[2:]).format(right), random.choice(NOISE[:13])]
            text, visible = disguise(random, parts, str)
            if any(right in part for part in visible):
                continue
        elif kind == 1 and misread[which]:
            # The right answer is one of several in one form.
            # A box with unpaired braces ends elsewhere.
            way = random.choice(WAYS[: 2 if "{" in right or "}" in right else 3])
            answers = random.sample(misread[which], random.randrange(1, 1 + min(3, len(misread[which]))))
            answers.insert(random.randrange(len(answers) + 1), right)
            word = random.choice(OPEN)
            text = "".join(word + way.format(answer) for answer in answers)
        elif kind == 2:
            text = random.choice(WAYS).format(random.choice(wrong[which]))
        else:
            # Brackets in the noise could mend an answer that lacks one.
            noise = NOISE if kind == 4 else [text for text in NOISE if not set(text) & set("{}<>")]
            parts = [random.choice((*noise, *FENCES)) for _ in range(random.randrange(1, 9))]
            parts += [random.choice(WAYS).format(random.choice(wrong[which]))] if kind == 3 else []
            text = disguise(random, parts, str)[0] if random.random() < 0.5 else "".join(parts)
        form = random.choice(("box", "block", "inline", "statement", "line", "text", question.kind.asked_in))
        score = judge(Reply(text, truncated=index % 50 == 0), question, form)
        assert not score.value, (question.kind.name, question.seed, form, text)
        assert not score.success
        assert shown or score.reason is not Reason.CORRECT
        reasons.add(score.reason)
    assert reasons == {
        *(Reason.EMPTY, Reason.UNPARSEABLE, Reason.AMBIGUOUS, Reason.WRONG, Reason.TRUNCATED),
    }
