"""Hostile replies to programs raise nothing and are paid for nothing; see `tests/envs/conftest.py`."""

from random import Random
from typing import Any

from veritas_rl.envs.base import Reason, Reply
from veritas_rl.envs.trace.audit import near_misses
from veritas_rl.envs.trace.scoring import judge
from veritas_rl.envs.trace.task import TracePay

PROGRAM = "total = 3\nfor i in range(2):\n    total += i\nprint(total)\n"
TRUTHS = (
    "4\n",
    "a 1\n\nb 2\n",
    "<think>\n</think>\n",
    "[1, 2]\n{'k': (3,)}\n",
    "```\n7\n```\n",
    "None\n",
    "\\boxed{5}\n",
    "</s>\n",
)
NOISE = (
    *("", "", "\n", " ", "x" * 300, "\u200b", "\u202e", "\ud800", "\x00", "\ufeff", "# Work\n", "I think.\n", "- a\n"),
    *(
        "\\boxed{",
        "\\boxed{}",
        "}",
        "{",
        "$$",
        "\\text{",
        "**",
        "Answer",
        "Output",
        "<b>",
        "> ",
        "1. ",
        "\r\n",
        PROGRAM,
    ),
)
FENCES = ("```", "```\n", "~~~\n", "``", "`", "> ```\n", "```python\n", "<output>", "</answer>")
WAYS = ("`````\n{}`````\n", "~~~~~\n{}~~~~~\n", "\\boxed{{{}}}\n")
OPEN = ("", "", "or\n", "Maybe:\n", "Draft:\n", "Wait, no.\n", "Answer:\n", "Output:\n", "\u6216\n")


def test_hostile_replies_raise_nothing_and_are_paid_for_nothing(fuzzed_replies: int, disguise: Any) -> None:
    random = Random(12)
    wrong = [[f"{text.rstrip()}\n" for _, text in near_misses(truth)] for truth in TRUTHS]
    reasons: set[Reason] = set()
    for index in range(fuzzed_replies):
        which = random.randrange(len(TRUTHS))
        truth, near = TRUTHS[which], [text for text in wrong[which] if text.strip()]
        kind = index % 4
        if kind == 0:
            # The right output is only thought, or stands behind the end of the turn.
            if any(mark in truth for mark in ("`", "<", "{")):
                continue
            parts = [random.choice(NOISE[:13]), f"\\boxed{{{truth.rstrip()}}}", random.choice(NOISE[:13])]
            text, visible = disguise(random, parts, str)
            if parts[1] in visible:
                continue
        elif kind == 1:
            # The right output is one of several.
            way, word = random.choice(WAYS[:2]), random.choice(OPEN)
            outputs = random.sample(near, random.randrange(1, 1 + min(3, len(near))))
            outputs.insert(random.randrange(len(outputs) + 1), truth)
            text = "".join(word + way.format(output) for output in outputs)
        elif kind == 2:
            words = random.choice(("", "Output:", "I follow it."))
            text = f"{words}\n{random.choice(WAYS[:2]).format(random.choice(near))}"
        else:
            parts = [random.choice((*NOISE, *FENCES)) for _ in range(random.randrange(1, 9))]
            text = disguise(random, parts, str)[0] if random.random() < 0.5 else "".join(parts)
        pay = TracePay(compare=random.choice(("exact", "lenient")) if truth == "4\n" else "exact")
        score = judge(Reply(text, truncated=index % 50 == 0), truth, pay, PROGRAM)
        assert not score.value, (truth, text)
        assert not score.success
        reasons.add(score.reason)
    assert reasons == {
        *(Reason.EMPTY, Reason.UNPARSEABLE, Reason.AMBIGUOUS, Reason.WRONG, Reason.TRUNCATED),
    }
