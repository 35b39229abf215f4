"""Scores of answers to a program: read from a block, a box or plain text, and compared line by line."""

import pytest

from veritas_rl.envs.base import Reason, Reply
from veritas_rl.envs.trace.scoring import judge
from veritas_rl.envs.trace.task import TracePay
from veritas_rl.envs.trace.text import fenced, solution

TRUTH = "__DBG_0__ x=3\na  b\n\n{'k': [1, 2]}\n"
MARKED = (
    *(
        "<think>\n",
        "</think>x\n",
        "<answer>3</answer>\n",
        "a</s>\n",
        "[EOS]\n",
        "[THINK]\n",
        "analysisA\n",
        "<|im_end|>\n",
    ),
    *(
        "Here is my thought process: a\n",
        "~~~\n",
        "<think>\n```\n",
        "\u25c1think\u25b7\n",
        "<|channel|>final<|message|>x\n",
    ),
)
"""Outputs of programs that look like marks of a reply."""
EXACT, LENIENT, PARTIAL = TracePay(), TracePay(compare="lenient"), TracePay(reward="partial")


@pytest.mark.parametrize(
    "text",
    [
        TRUTH,
        TRUTH.rstrip(),
        TRUTH.replace("\n", "  \t\n") + "\n\n",
        f"```\n{TRUTH}```",
        f"It prints:\n\n```text\n{TRUTH}```\nbecause x is 3.",
        f"<think>```\nno\n```</think>```\n{TRUTH}```",
        f"\\boxed{{{TRUTH}}}",
        f"So \\boxed{{{TRUTH.rstrip()}}}.",
        f"```\n{TRUTH}```\nonce more:\n```\n{TRUTH.rstrip()}  \n```",
        f"````\n{TRUTH}````",
        TRUTH.replace("\n", "\r\n"),
    ],
)
def test_the_right_output_is_paid_however_it_is_given(text: str) -> None:
    for pay in (EXACT, LENIENT, PARTIAL):
        score = judge(Reply(text), TRUTH, pay)
        assert (score.value, score.success, score.reason) == (1.0, True, Reason.CORRECT)


@pytest.mark.parametrize(
    "text",
    [
        "__DBG_0__ x=4\na  b\n\n{'k': [1, 2]}",
        TRUTH + "more",
        TRUTH.upper(),
        TRUTH.replace("a  b", " a  b"),
        "\n" + TRUTH,
        f"It prints {TRUTH}",
        f"`{TRUTH}`",
    ],
)
def test_a_wrong_output_is_no_success(text: str) -> None:
    score = judge(Reply(text), TRUTH, EXACT)
    assert (score.value, score.success, score.reason) == (0.0, False, Reason.WRONG)
    assert score.legal
    partial = judge(Reply(text), TRUTH, PARTIAL)
    assert 0 <= partial.value < 1
    assert not partial.success


@pytest.mark.parametrize("text", ["__DBG_0__ x=3\na b\n{'k': [1, 2]}", "__DBG_0__   x=3\n\n\na b\n\n{'k':  [1, 2]}"])
def test_lenient_ignores_the_amount_of_white_space_and_nothing_else(text: str) -> None:
    assert judge(Reply(text), TRUTH, LENIENT).success
    assert not judge(Reply(text), TRUTH, EXACT).success
    assert not judge(Reply(text.replace("a b", "ab")), TRUTH, LENIENT).success
    assert not judge(Reply(text.replace("x", "X")), TRUTH, LENIENT).success


def test_partial_credit_is_the_share_of_lines_in_their_places() -> None:
    truth = "1\n2\n3\n4"
    for text, value in (("1\n2\n3\n5", 0.75), ("1", 0.25), ("2\n3\n4", 0.0), ("1\n2\n3\n4\n5\n6\n7\n8", 0.5)):
        assert judge(Reply(text), truth, PARTIAL).value == value
        assert judge(Reply(text), truth, EXACT).value == 0


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(""), Reason.EMPTY),
        (Reply(" \n\t"), Reason.EMPTY),
        (Reply("```\n```"), Reason.EMPTY),
        (Reply("```python\n\n\n```"), Reason.EMPTY),
        (Reply("\\boxed{}"), Reason.EMPTY),
        (Reply("\\boxed{ }"), Reason.EMPTY),
        (Reply("<think>3"), Reason.EMPTY),
        (Reply("\\boxed{3"), Reason.UNPARSEABLE),
        (Reply("```\n3\n```\n```\n4\n```"), Reason.AMBIGUOUS),
        (Reply("\\boxed{3} \\boxed{4}"), Reason.AMBIGUOUS),
        (Reply("3", truncated=True), Reason.TRUNCATED),
        (Reply("", overlong=True), Reason.OVERLONG),
        (Reply("3\n" * 5_000_000), Reason.OVERLONG),
    ],
)
def test_a_mistake_has_a_reason_and_never_pays(reply: Reply, reason: Reason) -> None:
    for pay in (EXACT, LENIENT, PARTIAL):
        for truth in ("3", " "):
            score = judge(reply, truth, pay)
            assert (score.value, score.success, score.reason) == (0.0, False, reason)


@pytest.mark.parametrize(
    "truth", [TRUTH, "3\n", "a `b`\n", "```\nx\n```\n", "\\boxed{3}\n", "\n\n3\n", "}{\n", *MARKED]
)
@pytest.mark.parametrize("prompt", ["full", "brief"])
def test_the_solution_earns_everything(truth: str, prompt: str) -> None:
    assert judge(Reply(solution(truth, prompt)), truth, EXACT).success


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    assert fenced("a") == "```\na\n```"
    assert fenced("a\n```\n", "python") == "````python\na\n```\n````"
