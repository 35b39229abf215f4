"""Types 4 and 5: the fewest opening brackets before a given ending."""

import re
import time
from itertools import pairwise

import pytest

from veritas_rl.envs.answers import one_answer
from veritas_rl.envs.answers.visible import visible
from veritas_rl.envs.base import Reason, Reply
from veritas_rl.envs.lgc_v2.brackets import PAIRS
from veritas_rl.envs.lgc_v2.env import Question, judge
from veritas_rl.envs.lgc_v2.kinds import KINDS
from veritas_rl.envs.lgc_v2.kinds.dyck_language2 import DyckLanguage2Config, DyckLanguage2Puzzle
from veritas_rl.envs.lgc_v2.puzzle import LEVELS
from veritas_rl.envs.lgc_v2.second import disagreement
from veritas_rl.envs.lgc_v2.task_ids import puzzle_of

NAMES = ("dyck_language2", "dyck_language2_long")
TASKS = [(name, seed) for name in NAMES for seed in (*range(130), *range(99_999_980, 100_000_000))]


def puzzle(name: str, seed: int) -> DyckLanguage2Puzzle:
    made = puzzle_of(name, seed)
    assert isinstance(made, DyckLanguage2Puzzle)
    return made


def score(asked: DyckLanguage2Puzzle, text: str) -> Reason:
    return judge(Reply(text), Question(KINDS["dyck_language2"], 0, asked), "inline").reason


@pytest.mark.parametrize(
    ("ending", "kinds", "answer"),
    [
        (")", 3, "()"),
        ("])", 3, "([])"),
        ("[]}{}", 3, "{[]}{}"),
        ("())]()", 3, "[(())]()"),
        ("⟩[⟦⟧]⦄()", 8, "⦃⟨⟩[⟦⟧]⦄()"),
    ],
)
def test_examples_worked_by_hand(ending: str, kinds: int, answer: str) -> None:
    asked = DyckLanguage2Puzzle(ending, kinds)
    assert asked.answer == answer
    assert disagreement("dyck_language2", asked.question("en"), answer) == ""
    assert score(asked, f"So `{answer}`.") is Reason.CORRECT


def test_the_steps_read_from_the_end_and_name_what_is_missing() -> None:
    lines = DyckLanguage2Puzzle("[]}{})", 3).steps("en").split("\n")
    assert lines[1:7] == ["1. ) → )", "2. } → ) }", "3. { → )", "4. } → ) }", "5. ] → ) } ]", "6. [ → ) }"]
    assert lines[7].endswith(": ( {")


def test_a_second_way_agrees_and_near_misses_are_refused_by_both() -> None:
    assert len(TASKS) == 300
    for name, seed in TASKS:
        asked = puzzle(name, seed)
        assert disagreement(name, asked.question("en"), asked.answer) == ""
        assert score(asked, f"{asked.steps('en')}\n\n{asked.final('en')}") is Reason.CORRECT
        assert score(asked, f"{asked.steps('zh')}\n\n{asked.final('zh')}") is Reason.CORRECT
        misses = list(asked.near_misses())
        assert len(misses) >= 7
        for kind, wrong in misses:
            assert disagreement(name, asked.question("en"), wrong), kind
            for text in (f"`{wrong}`", f"```\n{wrong}\n```", wrong, f"\\boxed{{{wrong}}}"):
                assert score(asked, text) is not Reason.CORRECT, kind
        assert score(asked, f"`{asked.answer}` or `{misses[0][1]}`") is Reason.AMBIGUOUS


@pytest.mark.parametrize(
    ("ending", "kinds", "answer", "said"),
    [
        ("()[]", 3, "()[]", "nothing is missing"),
        ("(]", 3, "[(]", "0 brackets fit"),
        ("(", 3, "((", "0 brackets fit"),
        ("⟩", 3, "⟨⟩", "not named"),
        (")", 3, "[]()", "not opening brackets alone"),
        ("])", 3, "[(])", r"right is \(\["),
        ("])", 3, "((])", r"right is \(\["),
        ("])", 3, "(([])", r"right is \(\["),
        ("])", 3, "([]", "does not end"),
    ],
)
def test_a_second_way_finds_planted_faults(ending: str, kinds: int, answer: str, said: str) -> None:
    question = DyckLanguage2Puzzle(ending, kinds).question("en")
    assert re.search(said, disagreement("dyck_language2", question, answer))


def test_the_chinese_question_has_the_same_data() -> None:
    for name, seed in TASKS[::5]:
        asked = puzzle(name, seed)
        english, chinese = asked.question("en").split("\n\n"), asked.question("zh").split("\n\n")
        assert english[1] == chinese[1] == asked.ending == asked.brief
        pairs = " ".join(PAIRS[: asked.kinds])
        assert f"{asked.kinds} kinds: {pairs}." in english[0]
        assert f"{asked.kinds} 种:{pairs}。" in chinese[0]
        assert "反引号" in chinese[2]


def test_levels_grow_and_share_no_length() -> None:
    lengths = [
        {len(puzzle(name, level - 1 + 5 * number).answer) for number in range(60)} for name in NAMES for level in LEVELS
    ]
    assert min(lengths[0]) >= 4
    assert max(lengths[0]) == 8
    assert max(lengths[-1]) == 60
    assert all(max(easier) < min(harder) for easier, harder in pairwise(lengths))
    assert all(len(found) > 1 for found in lengths)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("first", [0, 40_000_000])
def test_consecutive_seeds_do_not_repeat(name: str, first: int) -> None:
    assert len({puzzle_of.__wrapped__(name, seed).brief for seed in range(first, first + 10_000)}) == 10_000


def test_renamed_brackets_have_the_same_form_and_others_have_not() -> None:
    form = DyckLanguage2Puzzle("[]}{})", 3).form
    assert DyckLanguage2Puzzle("<>)()]", 4).form == form
    assert DyckLanguage2Puzzle("[]}{}}", 3).form != form
    assert DyckLanguage2Puzzle("[]}})", 3).form != form


@pytest.mark.parametrize(
    "text",
    [
        "`[(())]()`",
        "The end is `())]()`, and `[` opens it. So `[(())]()`.",
        "` [ ( ( ) ) ] ( ) `",
        "```\n[(())]()\n```",
        "```text\n[ (()) ]\n()\n```",
        "\\boxed{[(())]()}",
        "\\boxed{\\text{[(())]()}}",
        "The answer is [(())]().",
        "答案是 [(())]()。",
        "Put [ and ( in front.\n[(())]()",
        "**[(())]()**",
    ],
)
def test_ways_to_write_the_answer(text: str) -> None:
    assert score(DyckLanguage2Puzzle("())]()", 3), text) is Reason.CORRECT


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("`[(())]()` and `([())]()`", Reason.AMBIGUOUS),
        ("`([())]()`", Reason.WRONG),
        ("`[(())]()[]`", Reason.WRONG),
        ("`[(`", Reason.UNPARSEABLE),
        ("`[(())]() x`", Reason.UNPARSEABLE),
        ("I do not know.", Reason.UNPARSEABLE),
    ],
)
def test_wrong_answers_have_their_reasons(text: str, reason: Reason) -> None:
    assert score(DyckLanguage2Puzzle("())]()", 3), text) is reason


@pytest.mark.parametrize(
    "said",
    ["(" * 10_000 + ")" * 10_000, "(" * 100_000, " " * 100_000, "`" * 100_000, "{" * 99_999 + "x", "\\frac{" * 9],
)
def test_long_answers_are_judged_at_once(said: str) -> None:
    asked = puzzle("dyck_language2_long", 4)
    start = time.perf_counter()
    assert asked.read(said) is None or not asked.is_right(asked.read(said) or "")
    assert score(asked, f"`{said}`"[:100_000]) is not Reason.CORRECT
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("values", [(3, 8, 3), (2, 8, 3), (8, 6, 3), (4, 8, 1), (4, 8, 9)])
def test_a_configuration_that_cannot_be_is_refused(values: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"lengths|kinds"):
        DyckLanguage2Config(*values)


LATEX = {
    **{"(": "(", ")": ")", "[": "\\lbrack", "]": "\\rbrack", "{": "\\{", "}": "\\}", "<": "\\lt", ">": "\\gt"},
    **{"⟨": "\\langle", "⟩": "\\rangle", "⟦": "\\llbracket", "⟧": "\\rrbracket", "⟪": "\\llangle", "⟫": "\\rrangle"},
    **{"⦃": "\\lBrace", "⦄": "\\rBrace"},
}
LOOKALIKES = str.maketrans("⟨⟩⟪⟫⟦⟧", "〈〉《》〚〛")


@pytest.mark.parametrize("name", ["dyck_language2", "dyck_language2_long"])
def test_brackets_are_read_in_latex_and_in_other_scripts(name: str) -> None:
    for seed in range(100):
        asked = puzzle_of(name, seed)
        for written in (
            " ".join(LATEX[bracket] for bracket in asked.answer),
            " ".join(f"\\left{LATEX[bracket]}" for bracket in asked.answer),
            " ".join(LATEX.get(bracket, bracket).replace("\\lt", "<").replace("\\gt", ">") for bracket in asked.answer),
        ):
            for reply in (f"`${written}$`", f"\\[\\boxed{{{written}}}\\]", f"<answer>${written}$</answer>"):
                said = one_answer(visible(reply), asked.read, "inline")
                assert not isinstance(said, Reason), reply
                assert asked.is_right(said), reply
        said = one_answer(visible(f"`{asked.answer.translate(LOOKALIKES)}`"), asked.read, "inline")
        assert said == asked.answer


def test_an_angle_bracket_of_latex_is_the_kind_that_the_puzzle_has() -> None:
    four, five = DyckLanguage2Puzzle("[]>", 4), DyckLanguage2Puzzle("[]⟩", 5)
    for written in ("\\langle [] \\rangle", "⟨[]⟩", "〈[]〉"):
        assert one_answer(visible(f"`{written}`"), four.read, "inline") == "<[]>"
        assert one_answer(visible(f"`{written}`"), five.read, "inline") == "⟨[]⟩"
