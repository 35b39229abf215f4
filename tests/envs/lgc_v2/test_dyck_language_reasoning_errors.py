"""Type 8: finding the wrong steps in a worked solution about brackets."""

import time

import pytest

from veritas_rl.envs.base import Reason, Reply
from veritas_rl.envs.lgc_v2.env import Question, judge
from veritas_rl.envs.lgc_v2.kinds import KINDS
from veritas_rl.envs.lgc_v2.kinds.dyck_language_reasoning_errors import ReasoningErrorsConfig, ReasoningErrorsPuzzle
from veritas_rl.envs.lgc_v2.puzzle import LEVELS
from veritas_rl.envs.lgc_v2.second import disagreement
from veritas_rl.envs.lgc_v2.task_ids import puzzle_of

NAME = "dyck_language_reasoning_errors"
SEEDS = (*range(280), *range(99_999_980, 100_000_000))
THREE_AND_SEVEN = ReasoningErrorsPuzzle("([]{})()", ("(", "([", "([", "({", "(", "", "[", ""))


def puzzle(seed: int) -> ReasoningErrorsPuzzle:
    made = puzzle_of(NAME, seed)
    assert isinstance(made, ReasoningErrorsPuzzle)
    return made


def score(asked: ReasoningErrorsPuzzle, text: str) -> Reason:
    return judge(Reply(text), Question(KINDS[NAME], 0, asked), "box").reason


@pytest.mark.parametrize(
    ("sequence", "stated", "answer"),
    [
        ("()", ("(", "("), "2"),
        ("([])", ("(", "[(", "(", ""), "2"),
        ("(())[]", ("(", "((", "", "", "[", ""), "3"),
        # Steps 2 and 3 omit the same bracket: both are wrong, although step 3 follows from step 2.
        ("[{}]<>", ("[", "[", "", "", "<", ""), "2,3"),
        ("([]{})()", THREE_AND_SEVEN.stated, "3,7"),
    ],
)
def test_examples_worked_by_hand(sequence: str, stated: tuple[str, ...], answer: str) -> None:
    asked = ReasoningErrorsPuzzle(sequence, stated)
    assert asked.answer == answer
    assert disagreement(NAME, asked.question("en"), answer) == ""
    assert score(asked, f"\\boxed{{{answer}}}") is Reason.CORRECT


def test_the_question_shows_each_step() -> None:
    assert THREE_AND_SEVEN.brief == (
        "1. ( → (\n2. [ → ( [\n3. ] → ( [\n4. { → ( {\n5. } → (\n6. ) → ∅\n7. ( → [\n8. ) → ∅"
    )
    lines = THREE_AND_SEVEN.steps("en").split("\n")
    assert lines[3] == "3. ] → (, it shows ( [, wrong"
    assert lines[4] == "4. { → ( {, right"


def test_a_second_way_agrees_and_near_misses_are_refused_by_both() -> None:
    assert len(SEEDS) == 300
    for seed in SEEDS:
        asked = puzzle(seed)
        question = asked.question("en")
        assert disagreement(NAME, question, asked.answer) == ""
        assert score(asked, f"{asked.steps('en')}\n\n{asked.final('en')}") is Reason.CORRECT
        assert score(asked, f"{asked.steps('zh')}\n\n{asked.final('zh')}") is Reason.CORRECT
        misses = list(asked.near_misses())
        assert len(misses) >= 6
        for kind, wrong in misses:
            assert disagreement(NAME, question, wrong), kind
            for text in (f"\\boxed{{{wrong}}}", f"```\n{wrong}\n```", f"`{wrong}`", wrong):
                assert score(asked, text) is not Reason.CORRECT, kind
        assert score(asked, f"\\boxed{{{asked.answer}}} \\boxed{{{misses[0][1]}}}") is Reason.AMBIGUOUS


def test_a_second_way_finds_a_question_that_is_not_what_it_says() -> None:
    asked = puzzle(4)
    true = asked.question("en")
    first = next(place for place in range(1, len(asked.sequence) + 1) if place not in asked.wrong)
    line = asked.brief.split("\n")[first - 1]
    corrupted = true.replace(f"\n{line}\n", f"\n{line} {asked.sequence[0]}\n")
    assert corrupted != true
    assert disagreement(NAME, corrupted, asked.answer)
    renumbered = true.replace(f"\n{first}. ", "\n99. ")
    assert "do not read" in disagreement(NAME, renumbered, asked.answer)
    assert "leaves" in disagreement(NAME, "Sequence: ((\n\n1. ( → (\n2. ( → ( (\n", "1")
    assert "no step is wrong" in disagreement(NAME, "Sequence: ()\n\n1. ( → (\n2. ) → ∅\n", "1")


def test_the_chinese_question_has_the_same_data() -> None:
    for seed in SEEDS[::5]:
        asked = puzzle(seed)
        english, chinese = asked.question("en").split("\n\n"), asked.question("zh").split("\n\n")
        assert english[2] == chinese[2] == asked.brief
        assert english[1] == f"Sequence: {asked.sequence}"
        assert chinese[1] == f"序列:{asked.sequence}"
        assert "错误步骤的编号" in chinese[3]


def test_levels_grow_in_length_and_in_wrong_steps() -> None:
    for level, lengths, errors in zip(
        LEVELS,
        ((6, 8), (10, 12), (14, 18), (20, 24), (26, 30)),
        ((1, 2), (2, 3), (2, 4), (2, 5), (3, 5)),
        strict=True,
    ):
        made = [puzzle(level - 1 + 5 * number) for number in range(100)]
        found = [len(asked.sequence) for asked in made]
        assert (min(found), max(found)) == lengths
        wrong = [len(asked.wrong) for asked in made]
        assert (min(wrong), max(wrong)) == errors


@pytest.mark.parametrize("first", [0, 40_000_000])
def test_consecutive_seeds_do_not_repeat(first: int) -> None:
    assert len({puzzle_of.__wrapped__(NAME, seed).brief for seed in range(first, first + 10_000)}) == 10_000


def test_renamed_brackets_have_the_same_form_and_others_have_not() -> None:
    form = THREE_AND_SEVEN.form
    renamed = str.maketrans("([{)]}", "{<[}>]")
    same = ReasoningErrorsPuzzle(
        THREE_AND_SEVEN.sequence.translate(renamed), tuple(stack.translate(renamed) for stack in THREE_AND_SEVEN.stated)
    )
    assert same.form == form
    other = ReasoningErrorsPuzzle(THREE_AND_SEVEN.sequence, (*THREE_AND_SEVEN.stated[:6], "{", ""))
    assert other.form != form


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{3,7}",
        "\\boxed{7, 3}",
        "\\boxed{\\{3, 7\\}}",
        "$\\boxed{3,\\,7}$",
        "\\boxed{\\text{3 and 7}}",
        "\\boxed{\\text{Steps } 3, 7}",
        "\\boxed{3,7}\nOnce more: \\boxed{7 and 3}",
        "```\n3, 7\n```",
        "```\n3\n7\n```",
        "So `3,7`.",
        "The answer is {3,7}.",
        "The answer is: 3 and 7",
        "答案是第3步和第7步。",
        "I read them again.\n3, 7",
        "I read them again.\n**Steps 3 and 7**",
        "I read them again.\nSteps 3 and 7 are wrong.",
        "步骤3、7",
        "错误的步骤\uff1a3、7",
        "\\boxed{\\text{错误步骤的编号为 } 3, 7}",
        "\\boxed{3\uff0c7}",
    ],
)
def test_ways_to_write_the_answer(text: str) -> None:
    assert score(THREE_AND_SEVEN, text) is Reason.CORRECT


@pytest.mark.parametrize(
    "said",
    [
        "", "None", ",", "3-7", "3.7", "-3,7", "3,,,7", "3,7,", "{3,7", "03,7", "0,3", "3rd and 7", "not 3", "3 or 7",
        "1234567890", "3,1234567890", "\u0663,7", "\u00b3", "x=3", "{{3},7}",
    ],
)  # fmt: skip
def test_text_without_step_numbers_is_no_answer(said: str) -> None:
    assert THREE_AND_SEVEN.read(said) is None


@pytest.mark.parametrize(
    "said",
    [
        "(" * 10_000 + ")" * 10_000,
        "{" * 10_000 + "3,7" + "}" * 10_000,
        "3,7," * 25_000,
        "3 " * 50_000,
        " " * 99_999 + "3",
        "9" * 100_000,
        ",and" * 25_000,
        "步" * 100_000,
    ],
)
def test_long_answers_are_judged_at_once(said: str) -> None:
    start = time.perf_counter()
    THREE_AND_SEVEN.read(said)
    score(THREE_AND_SEVEN, said)
    assert score(THREE_AND_SEVEN, f"\\boxed{{{said}}}") is not Reason.CORRECT or said.strip() == "3"
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize(
    "values", [(5, 8, 3, 1, 2), (8, 6, 3, 1, 2), (6, 8, 1, 1, 2), (6, 8, 3, 0, 2), (6, 8, 3, 2, 6)]
)
def test_a_configuration_that_cannot_be_is_refused(values: tuple[int, int, int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"lengths|kinds|step"):
        ReasoningErrorsConfig(*values)
