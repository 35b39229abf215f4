"""The rule of which answer of a reply counts, and the forms of answers."""

import pytest

from veritas_rl.envs.answers import FORMS, MAX_CHARACTERS, boxed, marked, one_answer, visible_part
from veritas_rl.envs.answers.parts import balanced_boxes, code_blocks, inline_code, introduced_code, prose
from veritas_rl.envs.answers.visible import Visible, visible, with_fences_alone
from veritas_rl.envs.base import Reason, Reply
from veritas_rl.envs.lgc_v2.puzzle import LANGUAGES


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (Reply("a"), "a"),
        (Reply(" \n"), Reason.EMPTY),
        (Reply("<think>a"), Reason.EMPTY),
        (Reply("<answer> </answer>"), Reason.EMPTY),
        (Reply("</s>"), Reason.EMPTY),
        (Reply("a", truncated=True), Reason.TRUNCATED),
        (Reply("", overlong=True), Reason.OVERLONG),
        (Reply("a" * (MAX_CHARACTERS + 1)), Reason.OVERLONG),
        (Reply("x" * 10_000_000), Reason.OVERLONG),
    ],
)
def test_the_visible_part_of_a_reply_or_the_reason_why_there_is_none(reply: Reply, found: Visible | Reason) -> None:
    assert visible_part(reply) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\\boxed{ 3 }", "3"),
        ("\\boxed{{3}}", "{3}"),
        ("\\boxed {3}", "3"),
        ("\\boxed{}", Reason.UNPARSEABLE),
        ("\\boxed{3", Reason.UNPARSEABLE),
        ("3", Reason.UNPARSEABLE),
        ("\\boxed{3} \\boxed{3}", "3"),
        ("\\boxed{3} \\boxed{4}", Reason.AMBIGUOUS),
        ("<answer>3</answer>", "3"),
        ("<answer>It is \\boxed{3}.</answer>", "3"),
        ("<answer>3</answer> \\boxed{4}", Reason.AMBIGUOUS),
        ("<answer>\\boxed{3</answer>", Reason.UNPARSEABLE),
        ("<think>\\boxed{4}</think>\\boxed{3}", "3"),
        ("<think>\\boxed{3}", Reason.EMPTY),
    ],
)
def test_the_content_of_a_box_or_an_answer_mark(text: str, found: str | Reason) -> None:
    assert boxed(Reply(text)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("none", []),
        ("\\boxed{a}", ["a"]),
        ("x \\boxed{{'a': {1}}} y \\boxed{b\nc} z", ["{'a': {1}}", "b\nc"]),
        ("\\boxed \t{a}", ["a"]),
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
        ("```\na\n```", [("", "", "a\n")]),
        ("```python\na\n\nb\n```\nc", [("", "python", "a\n\nb\n")]),
        ("So:\n```\na\n```\n```\nb\n```", [("So:", "", "a\n"), ("So:", "", "b\n")]),
        ("````\na\n```\nb\n````", [("", "", "a\n```\nb\n")]),
        ("```\na", [("", "", "a\n")]),
        ("```\n```", [("", "", "")]),
        ("```", []),
        ("~~~ text\na\n~~~", [("", "text", "a\n")]),
        ("> It prints\n> ```\n> a\n>  b\n> ```", [("It prints", "", "a\n b\n")]),
        ("1. Run it:\n\n   ```\n   a\n     b\n   ```", [("Run it:", "", "a\n  b\n")]),
        ("- ```\n  a\n  ```", [("", "", "a\n")]),
        ("- ~~~\n  a\n  ~~~", [("", "", "a\n")]),
        ("a ~~~\nb\n~~~", []),
        ("      ```\n      a\n      ```", [("", "", "a\n")]),
        ("1. Answer:\n   ```\na\n  b\n   ```", [("Answer:", "", "a\nb\n")]),
        ("> > ```\n> > a\n> >  b\n> > ```", [("", "", "a\n b\n")]),
        ("```\na\n```. That is it.", [("", "", "a\n")]),
        ("### Output\n\n```\na\n```", [("Output", "", "a\n")]),
        ("Output: ```\na\n```", [("Output:", "", "a\n")]),
        ("- Output: ```text\n  a\n  ```", [("Output:", "text", "a\n")]),
        ("```\na\nb```", [("", "", "a\nb\n")]),
        ("```\na\n``` is it", [("", "", "a\n")]),
        ("```a b\nc\n```", [("", "a b", "c\n")]),
        ("```1 2\n3\n```", [("", "", "1 2\n3\n")]),
        ("```12```", [("", "", "12\n")]),
        ("a\n```", []),
        ("```\n'```'\n```", [("", "", "'```'\n")]),
        ("```\r\na\r\n```\r\n", [("", "", "a\n")]),
    ],
)
def test_the_code_blocks_of_a_text(text: str, found: list[tuple[str, str, str]]) -> None:
    blocks = code_blocks(with_fences_alone(text))
    assert [(block.before.strip(), block.info, block.text) for block in blocks] == found


def test_text_outside_of_blocks_and_inline_code() -> None:
    text = with_fences_alone("It is\n`a`, then ``b``\n```\nc `d`\n```\nNow:\n```e``` and `f")
    assert "c `d`" not in prose(text)
    found = [(part.before.strip(), part.text) for part in introduced_code(text)]
    assert found == [("It is", "a"), (", then", "b"), ("Now:", "e")]
    assert inline_code(text) == ["a", "b", "e"]


def read_two_lines(said: str) -> str | None:
    return said.strip() if said.strip().count("\n") == 1 else None


def test_a_last_paragraph_is_an_answer_of_several_lines() -> None:
    for text, found in (
        ("It is\n\n12\n34\n\n", "12\n34"),
        ("12\n34", "12\n34"),
        ("It is\n12\n34", Reason.UNPARSEABLE),
        ("```\n5\n6\n```\n\n12\n34", "5\n6"),
        ("<answer>\n12\n34\n</answer>", "12\n34"),
    ):
        assert one_answer(visible(text), read_two_lines, "block") == found


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
        ("first `11`, then `x`", "inline", 11),
        ("The answer is **12**.", "box", 12),
        ("The answer is 12. That was easy", "box", 12),
        ("**The answer is 12.** That was easy", "box", 12),
        ("The answer is 12!", "box", 12),
        ("<answer>13\n12</answer>", "box", Reason.UNPARSEABLE),
        ("<answer>\n**12**\n</answer>", "box", 12),
        ("Answer: 12", "statement", 12),
        ("**Answer**: 12", "statement", 12),
        ("**Answer:** The answer is 12.", "statement", 12),
        ("The answers are: 12", "statement", 12),
        ("### Final answer\n\n12\n\nThat was easy.", "box", 12),
        ("**Answer**\n12\nThat was easy.", "box", 12),
        ("The answer is:\n\n12\n\nThat was easy.", "box", 12),
        ("I look for the answer\n12 it is", "box", Reason.UNPARSEABLE),
        ("The answer is 12. No, the answer is 13.", "statement", Reason.AMBIGUOUS),
        ("答案是 12。因为只有它。", "statement", 12),
        ("**答案**\uff1a12", "statement", 12),
        ("最终答案\n12\n因为只有它。", "statement", 12),
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
        ("\\boxed{4}, so the answer is 5", "box", Reason.AMBIGUOUS),
        ("The answer is not 4. \\boxed{5}", "box", 5),
        ("\\boxed{Answer: 5}", "box", 5),
        ("<answer>12</answer>", "box", 12),
        ("<answer>The answer is 12.</answer>", "block", 12),
        ("I get 13.\n<answer>12</answer>", "line", 12),
        ("<answer>12</answer> so \\boxed{12}", "box", 12),
        ("<answer>12</answer> so \\boxed{13}", "box", Reason.AMBIGUOUS),
        ("<answer>12</answer><answer>12</answer>", "box", 12),
        ("<answer>12</answer><answer>13</answer>", "box", Reason.AMBIGUOUS),
        ("<answer>12 or 13</answer>", "box", Reason.UNPARSEABLE),
        ("\\boxed{" * 10_000, "box", Reason.UNPARSEABLE),
        ("\\boxed{" + "{" * 10_000 + "}" * 10_000 + "}", "box", Reason.UNPARSEABLE),
    ],
)
def test_one_answer_in_the_form_that_was_asked_for_or_in_another(text: str, asked: str, found: int | Reason) -> None:
    assert one_answer(visible(text), number, asked) == found


ONE, TWO = "```\n1\n```", "```\n2\n```"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{ONE}\n{ONE}", 1),
        (f"{ONE}\n{TWO}", Reason.AMBIGUOUS),
        (f"{ONE}\nor\n{TWO}", Reason.AMBIGUOUS),
        (f"Step 1:\n{ONE}\nStep 2:\n{TWO}", Reason.AMBIGUOUS),
        (f"Step 1:\n{ONE}\nAnswer:\n{TWO}", 2),
        (f"First line:\n{ONE}\nSo the program prints\n{TWO}", 2),
        (f"Output after the first step:\n{ONE}\nOutput:\n{TWO}", 2),
        (f"Output:\n{ONE}\nOutput:\n{TWO}", Reason.AMBIGUOUS),
        (f"Output:\n{ONE}\nFinal answer:\n{TWO}", Reason.AMBIGUOUS),
        (f"{ONE}\n\n**Output:**\n\n{TWO}", 2),
        (f"{TWO}\nThe answer is 1.", Reason.AMBIGUOUS),
        (f"{TWO}\nThe answer is 2.", 2),
        ("```\nAnswer:\n2\n```", 2),
        (f"The final state is\n{ONE}\n\nOutput:\n{TWO}", 2),
        (f"This prints:\n{ONE}\nThe complete output is:\n{TWO}", 2),
        (f"Answer:\n{TWO}\nOutput:\n{ONE}", Reason.AMBIGUOUS),
        (f"Answer:\n{TWO}\nSorry, I meant:\n{ONE}", Reason.AMBIGUOUS),
        (f"Answer:\n{ONE}\nScratch that:\n{TWO}", Reason.AMBIGUOUS),
        (f"Since 8 is not 0, or is it 1, we get\n{ONE}\nAnswer:\n{TWO}", 2),
        (f"**1. Answer:**\n{TWO}\nThe loop ends with\n{ONE}", 2),
        (f"Output:\n{TWO}\nThe values of x:\n{ONE}", 2),
        (f"Output:\n{TWO}\n{ONE}", Reason.AMBIGUOUS),
        (f"{ONE}\nAnswer:\n{TWO}", 2),
        (f"{ONE}\n{ONE}\n\n**Answer**\n\n{TWO}", 2),
        (f"{ONE}\nThe answer comes next:\n{TWO}", Reason.AMBIGUOUS),
        (f"{ONE}\nOr:\n{TWO}", Reason.AMBIGUOUS),
        ("```python\n1\n```\nso\n```python\n2\n```", Reason.AMBIGUOUS),
        ("```python\n8\n9\n```\nOutput:\n```python\n2\n```", 2),
        ("Answer: `1` and `2`", Reason.AMBIGUOUS),
        ("Answer: `2`, since `x` is\n`1`", 2),
        (f"Maybe\n{ONE}\nAnswer:\n{TWO}", Reason.AMBIGUOUS),
        (f"Draft:\n{ONE}\nAnswer:\n{TWO}", Reason.AMBIGUOUS),
        (f"The answer is not\n{ONE}\nIt is\n{TWO}", Reason.AMBIGUOUS),
        (f"Step 1:\n{ONE}\nWait, that is wrong. Answer:\n{TWO}", Reason.AMBIGUOUS),
        (f"步骤:\n{ONE}\n答案:\n{TWO}", 2),
        (f"可能:\n{ONE}\n答案:\n{TWO}", Reason.AMBIGUOUS),
        (f"Step 1:\n{ONE}\n\\boxed{{2}}", 2),
        (f"{ONE}\n\\boxed{{2}}", Reason.AMBIGUOUS),
        (f"Answer:\n{ONE}\n\\boxed{{2}}", Reason.AMBIGUOUS),
        (f"\\boxed{{2}}\n{ONE}", Reason.AMBIGUOUS),
        ("```python\n1\n```\nIt prints\n```\n2\n```", 2),
        ("```python\n1\n```", 1),
        ("```\n1\n```\nAs in\n```\n6\n```\n\nwe see that", Reason.AMBIGUOUS),
        ("```output\n2\n```\nfor x:\n```\n1\n```", 2),
        ("The question shows\n```\n8\n```\nand\n```\n2\n```", 2),
        ("The question shows\n```\n8\n9\n```", Reason.UNPARSEABLE),
        ("Step 1: `1`, step 2: `2`", Reason.AMBIGUOUS),
        ("x is `1`. Answer: `2`", 2),
        ("x is `1`. Answer:\n`2`", 2),
        ("Answer: `1` or `2`", Reason.AMBIGUOUS),
        ("<answer>\n```\n2\n```\n</answer>", 2),
        (f"Step 1:\n{ONE}\n<answer>2</answer>", 2),
        (f"<answer>{ONE}\n{TWO}</answer>", Reason.AMBIGUOUS),
    ],
)
def test_one_block_of_several_counts_if_words_single_it_out(text: str, found: int | Reason) -> None:
    asked = "inline" if "`" in text and "```" not in text else "block"
    assert one_answer(visible(text), number, asked, "7\n8\n9") == found


def test_the_answers_of_a_reply_count_the_same_in_any_order_of_candidates() -> None:
    """Listing candidates gains nothing: no order of unannounced candidates is read as one of them."""
    blocks = [f"```\n{value}\n```" for value in range(6)]
    for words in ("", "or\n", "Option:\n", "Step:\n", "Maybe:\n"):
        for first in range(6):
            text = "\n".join(f"{words}{block}" for block in (*blocks[first:], *blocks[:first]))
            assert one_answer(visible(text), number, "block") is Reason.AMBIGUOUS


def test_prompts_state_the_rule_in_each_language() -> None:
    for form in ("box", "statement", "block", "inline"):
        assert all(FORMS[form].rule[language] for language in LANGUAGES)


def test_reading_is_linear_in_the_length() -> None:
    """A backtracking reader would take hours for these texts."""
    made_of = ("\\boxed{", "\\boxed{}", "{", "`", "`a``", "answer is ", "answer ", "\n", "$$\n", "answer\n", "or `1` ")
    texts = [part * (99_000 // len(part)) for part in (*made_of, "```\n", "> ", "- ```\n", "\\boxed ", "~~~ ")]
    for text in (*texts, "word " * 10_000 + "\n" + "".join(f"```\n{number}\n```\n" for number in range(3_700))):
        said = visible(text)
        marked(said)
        one_answer(said, number, "block", text)
