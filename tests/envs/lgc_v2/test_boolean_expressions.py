import pytest

from veritas_rl.envs.answers import one_answer
from veritas_rl.envs.answers.visible import visible
from veritas_rl.envs.base import Reason
from veritas_rl.envs.lgc_v2 import second
from veritas_rl.envs.lgc_v2.kinds.boolean_expressions import (
    BooleanExpressions,
    BooleanExpressionsConfig,
    BooleanExpressionsPuzzle,
    labels_in,
)
from veritas_rl.envs.lgc_v2.kinds.boolean_trees import CONSTANTS, Leaf, Node, Tree, truth, written
from veritas_rl.envs.lgc_v2.puzzle import LANGUAGES, LEVELS
from veritas_rl.envs.lgc_v2.second.boolean_expressions import truth as second_truth
from veritas_rl.envs.lgc_v2.task_ids import puzzle_of
from veritas_rl.seeding import generator

YES, NO = CONSTANTS[True], CONSTANTS[False]
LESS = Leaf("3 + 4 < 8", "3 + 4 < 8", True)
ODD = Leaf("12 is odd", "12 是奇数", False)


def puzzle(seed: int) -> BooleanExpressionsPuzzle:
    made = puzzle_of("boolean_expressions", seed)
    assert isinstance(made, BooleanExpressionsPuzzle)
    return made


def both(left: Tree, word: str, right: Tree) -> Node:
    return Node(word, (left, right))


def no(part: Tree) -> Node:
    return Node("not", (part,))


WORKED = [
    # and before or: True or (False and False) = True or False = True.
    (both(YES, "or", both(NO, "and", NO)), "True or False and False", True),
    # Parentheses change the result: (True or False) and False = False.
    (both(both(YES, "or", NO), "and", NO), "(True or False) and False", False),
    # xor before or: True or (True xor True) = True or False = True.
    (both(YES, "or", both(YES, "xor", YES)), "True or True xor True", True),
    # (True or True) xor True = True xor True = False.
    (both(both(YES, "or", YES), "xor", YES), "(True or True) xor True", False),
    # and before xor: True xor (True and False) = True xor False = True.
    (both(YES, "xor", both(YES, "and", NO)), "True xor True and False", True),
    # not before and: (not False) and False = False.
    (both(no(NO), "and", NO), "not False and False", False),
    # not (False and False) = not False = True.
    (no(both(NO, "and", NO)), "not (False and False)", True),
    # 7 < 8 is true, 12 is odd is false: True and not False = True.
    (both(LESS, "and", no(ODD)), "3 + 4 < 8 and not (12 is odd)", True),
]


@pytest.mark.parametrize(("tree", "text", "true"), WORKED)
def test_expressions_worked_by_hand(tree: Tree, text: str, true: bool) -> None:
    assert written(tree, "en") == text
    assert truth(tree) is true
    assert second_truth(text) == str(true)


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("10 - 3 == 7", True),
        ("4 * 5 != 20", False),
        ("2 + 3 * 4 > 19", False),  # 2 + 12 = 14
        ("3 - 9 <= -6", True),
        ("9 - 8 >= 2", False),
        ("1 is a prime number", False),
        ("2 is a prime number", True),
        ("51 is a prime number", False),  # 3 * 17
        ("49 is the square of a whole number", True),
        ("28 is divisible by 7", True),
        ("30 is divisible by 4", False),
    ],
)
def test_the_second_way_knows_comparisons_and_statements(text: str, true: bool) -> None:
    assert second_truth(text) == str(true)


def test_a_puzzle_worked_by_hand() -> None:
    made = BooleanExpressionsPuzzle((WORKED[0][0], WORKED[1][0], WORKED[7][0]))
    assert made.answer == "A,C"
    question = made.question("en")
    assert "A. True or False and False\nB. (True or False) and False\nC. 3 + 4 < 8 and not (12 is odd)" in question
    assert "C. 3 + 4 < 8 and not (12 是奇数)" in made.question("zh")
    assert second.disagreement("boolean_expressions", question, "A,C") == ""
    for language in LANGUAGES:
        assert "C. 3 + 4 < 8 and not" in made.steps(language)
        assert made.steps(language).endswith("   → True and not False\n   → True and True\n   → True")
        assert made.final(language) == "\\boxed{A,C}"
    turned = BooleanExpressionsPuzzle(made.options[::-1])
    assert turned.form == made.form
    assert turned.answer == "A,C"


def test_a_second_way_agrees_at_all_levels() -> None:
    wrong = {}
    for seed in range(300):
        made = puzzle(seed)
        if said := second.disagreement("boolean_expressions", made.question("en"), made.answer):
            wrong[seed] = said
    assert not wrong


def test_the_second_way_finds_wrong_labels() -> None:
    check = second.disagreement
    for seed in range(60):
        made = puzzle(seed)
        question = made.question("en")
        for name, wrong in made.near_misses():
            assert check("boolean_expressions", question, wrong), (seed, name)
    question, answer = puzzle(0).question("en"), puzzle(0).answer
    assert "in which order" in check("boolean_expressions", question.replace('then "xor"', '"xor"'), answer)
    assert "neither" in check("boolean_expressions", question.replace("\nB. ", "\nB. maybe and "), answer)
    first = question.split("\nA. ")[1].split("\n")[0]
    twice = question.replace("\nB. ", f"\nB. {first}\n")
    assert "the same" in check("boolean_expressions", twice, answer)


def test_near_misses_are_refused() -> None:
    for seed in range(300):
        made = puzzle(seed)
        said = made.read(made.answer)
        assert said is not None
        assert made.is_right(said)
        misses = dict(made.near_misses())
        assert {"a letter that is no option", "an option twice"} <= set(misses)
        for name, wrong in misses.items():
            said = made.read(wrong)
            assert said is None or not made.is_right(said), (seed, name, wrong)


def depth(tree: Tree) -> int:
    return 1 + max(map(depth, tree.parts)) if isinstance(tree, Node) else 0


def test_levels_have_their_sizes_and_answers_of_every_size() -> None:
    counts = set()
    for seed in range(500):
        made = puzzle(seed)
        config = BooleanExpressions.levels[seed % len(LEVELS) + 1]
        assert config.fewest <= len(made.options) <= config.most
        assert all(config.shallowest <= depth(option) <= config.deepest for option in made.options)
        assert len({written(option, "en") for option in made.options}) == len(made.options)
        counts.add((len(made.options), len(made.right)))
    assert {(4, right) for right in (1, 2, 3, 4)} <= counts
    assert all(right for _, right in counts)


@pytest.mark.parametrize("first", [0, 123_455, 99_990_000])
def test_no_puzzle_repeats(first: int) -> None:
    kind = BooleanExpressions()
    for level in LEVELS:
        numbers = range(first // 5, first // 5 + 400)
        random = generator("the same draws", level)
        state = random.getstate()
        forms = set()
        for number in numbers:
            # With the same random draws each time, puzzles differ only by their number.
            random.setstate(state)
            forms.add(kind.make(level, number, random).form)
        assert len(forms) == len(numbers)


@pytest.mark.parametrize(
    "said",
    [
        "A,C",
        "A, C",
        "C, A",
        "A and C",
        "A, and C",
        "A & C",
        "A; C",
        "A C",
        "AC",
        "CA",
        "{A, C}",
        "(A, C)",
        "[A,C]",
        "(A), (C)",
        "(A)(C)",
        "A、C",
        "A和C",
        "A\uff0cC",
        " A,\nC ",
        "Options A and C",
        "选项\uff1aA、C",
    ],
)
def test_options_are_read_as_models_write_them(said: str) -> None:
    assert labels_in(said, "ABC") == {"A", "C"}


@pytest.mark.parametrize(
    "said",
    [
        "",
        "a, c",
        "A, D",
        "A, A",
        "None",
        "A or C",
        "A but C",
        "AandC",
        "A,,C",
        "A, C,",
        "(A, C",
        "{{A}}",
        "()",
        "A is true",
        "9^9^9^9",
        "A," * 50_000,
        "A" * 100_000,
        "(" * 10_000 + "A" + ")" * 10_000,
        "A" + " " * 99_998 + "b",
        "A" + " " * 190 + "b",
        "A and " * 33,  # a backtracking reader would try every split of the blanks and never end
        "A,  and  " * 22,
    ],
)
def test_text_without_options_is_no_answer(said: str) -> None:
    assert labels_in(said, "ABC") is None


def test_replies_are_read_by_the_shared_reader() -> None:
    made = BooleanExpressionsPuzzle((WORKED[0][0], WORKED[1][0], WORKED[7][0]))
    for reply in (
        "So \\boxed{A,C}.",
        "\\boxed{\\text{A, C}}",
        "\\boxed{\\text{A} and \\text{C}}",
        "\\boxed{\\{A, C\\}}",
        "\\boxed{C, A} that is \\boxed{AC}",
        "The answer is A and C.",
        "```\nA,C\n```",
        "I think that B is false.\n**A, C**",
    ):
        said = one_answer(visible(reply), made.read, "box")
        assert not isinstance(said, Reason), reply
        assert made.is_right(said), reply
    assert one_answer(visible("\\boxed{A} or \\boxed{A,C}"), made.read, "box") is Reason.AMBIGUOUS
    assert one_answer(visible("\\boxed{D}"), made.read, "box") is Reason.UNPARSEABLE


@pytest.mark.parametrize("values", [(2, 3, 1, 2), (4, 3, 1, 2), (3, 9, 1, 2), (3, 3, 0, 2), (3, 3, 3, 2), (3, 3, 1, 7)])
def test_a_configuration_that_makes_no_sense_is_refused(values: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"options must|depths must"):
        BooleanExpressionsConfig(*values)
