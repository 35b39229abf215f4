"""The shared reader of answers: thinking, boxes, code blocks."""

import pytest

from veritas_rl.envs.answers import FORMS, MAX_CHARACTERS, answer_text, balanced_boxes, boxed, code_blocks, one_answer
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
def test_the_content_of_one_box_is_read(text: str, found: str | Reason) -> None:
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
        ("\\boxed{{[]}}}", ["{[]}}"]),
        ("{so \\boxed{a}}", ["a"]),
        ("{so \\boxed{a}}}", ["a}"]),
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
def test_the_content_of_code_blocks_is_read(text: str, found: list[str]) -> None:
    assert code_blocks(text) == found


def test_reading_is_linear_in_the_length() -> None:
    """A backtracking reader would take hours for these texts."""
    made_of = (
        "\\boxed{",
        "\\boxed{}",
        "```\n",
        "{",
        "<think></think>",
        "`",
        "`a``",
        "answer is ",
        "answer ",
        "\n",
        "$$\n",
    )
    for text in (part * (99_000 // len(part)) for part in made_of):
        for read in (boxed, balanced_boxes, lambda text: answer_text(Reply(text)), *FORMS.values()):
            read(text)


def test_a_last_paragraph_is_an_answer_of_several_lines() -> None:
    def read(said: str) -> str | None:
        return said if said.count("\n") == 1 else None

    assert one_answer("It is\n\n12\n34\n\n", read, "block") == "12\n34"
    assert one_answer("12\n34", read, "block") == "12\n34"
    assert one_answer("It is\n12\n34", read, "block") is Reason.UNPARSEABLE
    assert one_answer("```\n56\n```\n\n12\n34", read, "block") == "56\n"


def number(said: str) -> int | None:
    """Read a whole number."""
    return int(said) if said.strip().isdigit() else None


@pytest.mark.parametrize(
    ("text", "asked", "found"),
    [
        ("so \\boxed{\\text{12}}", "box", 12),
        ("\\boxed{12} or \\boxed{13}", "box", Reason.AMBIGUOUS),
        ("\\boxed{12}, again \\boxed{$12$}", "box", 12),
        ("```\n12\n```", "box", 12),
        ("```\n12\n```\n```\n13\n```", "block", Reason.AMBIGUOUS),
        ("first `11`, then `x`", "inline", 11),
        ("The answer is **12**.", "box", 12),
        ("The answer is 12. That was easy", "box", 12),
        ("Answer: 12", "statement", 12),
        ("**Answer**: 12", "statement", 12),
        ("**Answer:** The answer is 12.", "statement", 12),
        ("The answers are: 12", "statement", 12),
        ("The answer is 12. No, the answer is 13.", "statement", Reason.AMBIGUOUS),
        ("答案是 12。因为只有它。", "statement", 12),
        ("**答案**\uff1a12", "statement", 12),
        ("\\boxed{12.}", "box", 12),
        ("it is ```12``` and no other", "inline", 12),
        ("it is ``12`` and no other", "inline", 12),
        ("it is ``12` and no other", "inline", Reason.UNPARSEABLE),
        ("thus\n\\[\n12\n\\]", "box", 12),
        ("thus\n$$\n12\n$$\n", "box", 12),
        ("答案是 12。", "box", 12),
        ("答案\uff1a12", "box", 12),
        ("3 and 4 make\n7", "box", 7),
        ("7\n\n", "text", 7),
        ("see \\boxed{7}", "text", 7),
        ("nothing", "box", Reason.UNPARSEABLE),
        ("\\boxed{x} but the answer is 5", "box", 5),
        ("\\boxed{" * 10_000, "box", Reason.UNPARSEABLE),
        ("\\boxed{" + "{" * 10_000 + "}" * 10_000 + "}", "box", Reason.UNPARSEABLE),
    ],
)
def test_one_answer_in_the_form_that_was_asked_for_or_in_another(text: str, asked: str, found: int | Reason) -> None:
    assert one_answer(text, number, asked) == found
