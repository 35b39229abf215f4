"""The shared reader of answers: thinking, boxes, code blocks."""

import pytest

from veritas_rl.envs.answers import MAX_CHARACTERS, answer_text, balanced_boxes, boxed, code_blocks
from veritas_rl.envs.base import Reason, Reply


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply("a"), "a"),
        (Reply("<think>b</think>a"), "\na"),
        (Reply("b</think>a"), "\na"),
        (Reply(" \n"), Reason.EMPTY),
        (Reply("<think>a"), Reason.EMPTY),
        (Reply("a", truncated=True), Reason.TRUNCATED),
        (Reply("", overlong=True), Reason.OVERLONG),
        (Reply("a" * (MAX_CHARACTERS + 1)), Reason.OVERLONG),
        (Reply("x" * 10_000_000), Reason.OVERLONG),
    ],
)
def test_the_text_of_an_answer(reply: Reply, text: str | Reason) -> None:
    found = answer_text(reply)
    assert found == text if isinstance(text, Reason) else str(found).strip() == text.strip()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\\boxed{ 3 }", "3"),
        ("\\boxed{{3}}", "{3"),
        ("\\boxed{}", Reason.UNPARSEABLE),
        ("\\boxed{3", Reason.UNPARSEABLE),
        ("3", Reason.UNPARSEABLE),
        ("\\boxed{3} \\boxed{3}", Reason.AMBIGUOUS),
    ],
)
def test_one_box(text: str, found: str | Reason) -> None:
    assert boxed(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("none", []),
        ("\\boxed{a}", ["a"]),
        ("x \\boxed{{'a': {1}}} y \\boxed{b\nc} z", ["{'a': {1}}", "b\nc"]),
        ("\\boxed{a", Reason.UNPARSEABLE),
        ("\\boxed{a} \\boxed{{b}", Reason.UNPARSEABLE),
        ("\\boxed{a \\boxed{b}}", ["a \\boxed{b}"]),
    ],
)
def test_boxes_with_braces_inside(text: str, found: list[str] | Reason) -> None:
    assert balanced_boxes(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a `b` c", []),
        ("```\na\n```", ["a\n"]),
        ("```python\na\n\nb\n```\nc\n~~~\n", ["a\n\nb\n"]),
        ("```\na\n```\n```\nb\n```", ["a\n", "b\n"]),
        ("````\na\n```\nb\n````", ["a\n```\nb\n"]),
        ("```\na", ["a"]),
        ("  ```text\na\n  ```", ["a\n"]),
        ("```\n```", [""]),
        ("```", [""]),
    ],
)
def test_code_blocks(text: str, found: list[str]) -> None:
    assert code_blocks(text) == found


def test_reading_is_linear_in_the_length() -> None:
    """A reader that goes back over what it has read would take hours for these."""
    for text in ("\\boxed{" * 14_000, "\\boxed{}" * 12_000, "```\n" * 25_000, "{" * 99_000, "<think></think>" * 6_000):
        for read in (boxed, balanced_boxes, code_blocks, lambda text: answer_text(Reply(text))):
            read(text)
