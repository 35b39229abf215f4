"""cryptarithm: two searches find exactly one solution, and answers are read as models write them."""

import subprocess
import sys
from collections import Counter
from itertools import permutations
from random import Random

import pytest

from veritas_rl.envs.answers import one_answer
from veritas_rl.envs.answers.visible import visible
from veritas_rl.envs.base import Reason, Reply
from veritas_rl.envs.lgc_v2 import second
from veritas_rl.envs.lgc_v2.env import Question, judge
from veritas_rl.envs.lgc_v2.kinds.cryptarithm import Cryptarithm, CryptarithmPuzzle, Shape, small_sums
from veritas_rl.envs.lgc_v2.letter_equations import LetterEquation, solve, worth
from veritas_rl.envs.lgc_v2.puzzle import LANGUAGES, LEVELS, SEEDS
from veritas_rl.envs.lgc_v2.task_ids import puzzle_of

MONEY = CryptarithmPuzzle(LetterEquation(("SEND", "MORE", "MONEY"), ("+",)), (9, 5, 6, 7, 1, 0, 8, 2))


def puzzle(seed: int) -> CryptarithmPuzzle:
    made = puzzle_of("cryptarithm", seed)
    assert isinstance(made, CryptarithmPuzzle)
    return made


def judged(asked: CryptarithmPuzzle, text: str) -> Reason:
    return judge(Reply(text), Question(Cryptarithm(), 0, asked), Cryptarithm.asked_in).reason


def solved_by(*words: str, operations: str) -> list[dict[str, int]]:
    equation = LetterEquation(words, tuple(operations))
    found = solve(equation)
    assert found is not None
    return [dict(zip(equation.letters, digits, strict=True)) for digits in found.digits]


def test_known_puzzles_are_solved() -> None:
    """SEND + MORE = MONEY is by H. E. Dudeney, Strand Magazine, July 1924; the other puzzles are solved by hand."""
    assert MONEY.answer == "9567 + 1085 = 10652"
    assert solved_by("SEND", "MORE", "MONEY", operations="+") == [
        {"S": 9, "E": 5, "N": 6, "D": 7, "M": 1, "O": 0, "R": 8, "Y": 2}
    ]
    # The carry B is 1, so A is 9 and C is 0.
    assert solved_by("A", "B", "BC", operations="+") == [{"A": 9, "B": 1, "C": 0}]
    # A + A ends in A, so A is 0; then C is twice B, without a carry.
    assert solved_by("BA", "BA", "CA", operations="+") == [{"B": b, "A": 0, "C": 2 * b} for b in range(1, 5)]
    # The squares with three digits are 11 * 11 = 121, and 22 * 22 = 484, which does not begin with 2.
    assert solved_by("AA", "AA", "ABA", operations="*") == [{"A": 1, "B": 2}]


def test_all_solutions_are_found() -> None:
    """Small equations with every operation, against a search of all assignments."""
    random = Random(3)
    letters = "ABC"
    compared = 0
    for _ in range(200):
        operations = tuple(random.choice("+-*") for _ in range(random.randrange(1, 4)))
        words = tuple(
            "".join(random.choice(letters) for _ in range(random.randrange(1, 4))) for _ in range(len(operations) + 2)
        )
        equation = LetterEquation(words, operations)
        found = solve(equation)
        assert found is not None
        expected = set()
        for digits in permutations(range(10), len(equation.letters)):
            table = str.maketrans(dict(zip(equation.letters, map(str, digits), strict=True)))
            numbers = [word.translate(table) for word in words]
            if any(len(number) > 1 and number[0] == "0" for number in numbers):
                continue
            left = numbers[0] + "".join(
                sign + number.lstrip("0").rjust(1, "0") for sign, number in zip(operations, numbers[1:-1], strict=True)
            )
            if worth_by_python(left) == int(numbers[-1]):
                expected.add(digits)
        assert set(found.digits) == expected, equation
        compared += bool(expected)
    assert compared > 20


def worth_by_python(left: str) -> int:
    """The value of a left side with digits, +, - and *, calculated by splitting; products come first."""
    total = 0
    for term in left.replace("-", "+-").split("+"):
        value = 1
        for factor in term.split("*"):
            value *= int(factor)
        total += value
    return total


def test_multiplication_comes_first() -> None:
    assert worth([2, 3, 4], "+*") == 14
    assert worth([2, 3, 4, 5], "*-+") == 7
    assert worth([20, 3, 4], "-*") == 8


def test_a_table_that_grows_too_large_is_given_up() -> None:
    words = (*"ABCDEFGH", "IJ")
    assert solve(LetterEquation(words, tuple("+" * 7))) is None


def test_two_hundred_labels_hold_by_the_second_way() -> None:
    for seed in range(200):
        made = puzzle(seed)
        assert second.disagreement("cryptarithm", made.question("en"), made.answer) == ""
        said = made.read(made.answer)
        assert said is not None
        assert made.is_right(said)


@pytest.mark.parametrize("seed", range(10))
def test_planted_wrong_labels_are_found_by_the_second_way(seed: int) -> None:
    made = puzzle(seed)
    for name, wrong in made.near_misses():
        assert second.disagreement("cryptarithm", made.question("en"), wrong) != "", name


def test_an_equation_of_several_solutions_is_found_by_the_second_way() -> None:
    question = MONEY.question("en").replace("SEND + MORE = MONEY", "AB + AC = DEF")
    assert "solutions" in second.disagreement("cryptarithm", question, "51 + 52 = 103")


def test_near_misses_are_refused() -> None:
    for seed in range(200):
        made = puzzle(seed)
        for name, wrong in made.near_misses():
            said = made.read(wrong)
            assert said is None or not made.is_right(said), (seed, name)
        assert judged(made, f"The answer is {dict(made.near_misses())['a leading zero']}") is Reason.WRONG


def test_higher_levels_have_more_letters() -> None:
    letters = {1: (2, 4), 2: (4, 5), 3: (5, 6), 4: (6, 7), 5: (7, 8)}
    shapes: dict[int, Counter[str]] = {level: Counter() for level in LEVELS}
    for seed in range(300):
        made, level = puzzle(seed), seed % 5 + 1
        least, most = letters[level]
        assert least <= len(made.equation.letters) <= most
        assert len(set(made.digits)) == len(made.digits)
        shapes[level]["".join(made.equation.operations)] += 1
    assert set(shapes[1]) == {"+"}
    assert set(shapes[5]) == {"+", "-", "++", "*", "*+", "+++", "++-", "*+-"}
    assert max(len(operations) for operations in shapes[3]) == 2


def test_consecutive_numbers_do_not_repeat() -> None:
    for level in LEVELS:
        forms = [puzzle(5 * number + level - 1).form for number in range(100)]
        assert len(set(forms)) == 100
    assert len(small_sums()) > 1500


def test_small_sums_have_one_solution_each() -> None:
    sums = small_sums()
    for number in range(0, len(sums), 25):
        a, b = sums[number]
        texts = [str(a), str(b), str(a + b)]
        table = str.maketrans(dict(zip("0123456789", "QRSTUVWXYZ", strict=True)))
        assert len(solved_by(*(text.translate(table) for text in texts), operations="+")) == 1


def test_far_seeds_work() -> None:
    for seed in range(SEEDS - 5, SEEDS):
        assert second.disagreement("cryptarithm", puzzle(seed).question("en"), puzzle(seed).answer) == ""


def test_the_form_forgets_names_and_the_order_of_summands_and_factors() -> None:
    def form(*words: str, operations: str) -> str:
        equation = LetterEquation(words, tuple(operations))
        return CryptarithmPuzzle(equation, tuple(range(len(equation.letters)))).form

    assert form("SEND", "MORE", "MONEY", operations="+") == form("ABCD", "EFGB", "EFCBH", operations="+")
    assert form("SEND", "MORE", "MONEY", operations="+") == form("MORE", "SEND", "MONEY", operations="+")
    assert form("AB", "CD", "E", "FG", operations="*+") == form("CD", "AB", "E", "FG", operations="*+")
    assert form("AB", "CD", "E", "FG", operations="*-") != form("AB", "CD", "E", "FG", operations="*+")
    assert form("AB", "C", "D", operations="-") != form("C", "AB", "D", operations="-")
    assert form("A", "BC", "D", "E", operations="-+") == form("D", "BC", "A", "E", operations="-+")
    assert form("SEND", "MORE", "MONEY", operations="+") != form("SEND", "MORE", "MONES", operations="+")


@pytest.mark.parametrize(
    "text",
    [
        "Then D = 7.\nThe answer is 9567 + 1085 = 10652",
        "The answer is 9567 + 1085 = 10652.",
        "The answer is: **9567+1085=10652**",
        "答案是 9567 + 1085 = 10652。",
        "答案:9567 + 1085 = 10652",
        "**Answer:** The answer is 9567 + 1085 = 10652",
        "The answer is 9,567 + 1,085 = 10,652.",
        "The answer is:\n\n\\[\n9{,}567 + 1{,}085 = 10{,}652\n\\]",
        "The answer is {S: 9, E: 5, N: 6, D: 7, M: 1, O: 0, R: 8, Y: 2}",
        "答案是 S→9, E→5, N→6, D→7, M→1, O→0, R→8, Y→2。",
        "The answer is $S \\to 9, E \\to 5, N \\to 6, D \\to 7, M \\to 1, O \\to 0, R \\to 8, Y \\to 2$",
        "So \\boxed{9567 + 1085 = 10652}.",
        "So \\boxed{\\text{9567 + 1085 = 10652}}",
        "```\n9567 + 1085 = 10652\n```",
        "It is `9567 + 1085 = 10652` then.",
        "I add them.\n9567 + 1085 = 10652",
        "The answer is S=9, E=5, N=6, D=7, M=1, O=0, R=8, Y=2",
        "The answer is S = 9, E = 5, N = 6, D = 7, M = 1, O = 0, R = 8 and Y = 2.",
        "```\nS: 9\nE: 5\nN: 6\nD: 7\nM: 1\nO: 0\nR: 8\nY: 2\n```",
        "\\boxed{Y=2,\\ R=8,\\ O=0,\\ M=1,\\ D=7,\\ N=6,\\ E=5,\\ S=9}",
        "The answer is 9567 + 1085 = 10652\nThe answer is S=9, E=5, N=6, D=7, M=1, O=0, R=8, Y=2",
    ],
)
def test_right_answers_are_read_as_models_write_them(text: str) -> None:
    assert judged(MONEY, text) is Reason.CORRECT


def test_every_sign_for_times_is_read() -> None:
    equation = LetterEquation(("AA", "AA", "ABA"), ("*",))
    asked = CryptarithmPuzzle(equation, (1, 2))
    for sign in ("*", "×", "\\times", "\\cdot"):
        assert judged(asked, f"The answer is $11 {sign} 11 = 121$") is Reason.CORRECT


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("The answer is 9567 + 1085 = 10653", Reason.WRONG),
        ("The answer is 09567 + 1085 = 10652", Reason.WRONG),
        ("The answer is 1085 + 9567 = 10652", Reason.WRONG),
        ("The answer is 5967 + 1089 = 7056", Reason.WRONG),
        ("The answer is S=9, E=5, N=6, D=7, M=1, O=0, R=8, Y=3", Reason.WRONG),
        ("The answer is 10652 = 9567 + 1085", Reason.UNPARSEABLE),
        ("The answer is 9567 - 1085 = 10652", Reason.UNPARSEABLE),
        ("The answer is SEND + MORE = MONEY", Reason.UNPARSEABLE),
        ("The answer is S=9, E=5, N=6, D=7, M=1, O=0, R=8", Reason.UNPARSEABLE),
        ("The answer is S=9, S=9, E=5, N=6, D=7, M=1, O=0, R=8, Y=2", Reason.UNPARSEABLE),
        ("The answer is S=9, E=5, N=6, D=7, M=1, O=0, R=8, Y=2, Z=3", Reason.UNPARSEABLE),
        ("The answer is S=9, E=5, N=6, D=7, M=1, O=0, R=8, Y=12", Reason.UNPARSEABLE),
        ("The answer is 95 67 + 1085 = 10652", Reason.UNPARSEABLE),
        ("The answer is 95,67 + 1085 = 10652", Reason.UNPARSEABLE),
        ("The answer is 9567 + 1085 = 10652. The answer is 9568 + 1085 = 10653.", Reason.AMBIGUOUS),
        ("The answer is \u0669567 + 1085 = 10652", Reason.UNPARSEABLE),
        ("The answer is None", Reason.UNPARSEABLE),
        ("The answer is 9567 + 1085 = 10652\nThe answer is 9568 + 1085 = 10653", Reason.AMBIGUOUS),
        ("The answer is " + "9" * 90_000, Reason.UNPARSEABLE),
        ("The answer is " + "9+" * 45_000 + "9=9", Reason.UNPARSEABLE),
        ("The answer is " + "S=9 " * 24_000, Reason.UNPARSEABLE),
        ("The answer is " + "(" * 10_000 + "9" + ")" * 10_000, Reason.UNPARSEABLE),
    ],
)
def test_everything_else_is_refused_with_a_reason(text: str, reason: Reason) -> None:
    assert judged(MONEY, text) is reason


def test_worked_columns_with_carries() -> None:
    lines = MONEY.steps("en").splitlines()
    assert "One way is left: S→9 E→5 N→6 D→7 M→1 O→0 R→8 Y→2" in lines
    assert lines[-5:] == [
        "column 1: 7 + 5 = 12, write 2, carry 1",
        "column 2: 6 + 8 + 1 = 15, write 5, carry 1",
        "column 3: 5 + 0 + 1 = 6, write 6, carry 0",
        "column 4: 9 + 1 = 10, write 0, carry 1",
        "column 5: 1 = 1, write 1, carry 0",
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_questions_and_steps_name_what_is_asked(language: str) -> None:
    for seed in range(40):
        made = puzzle(seed)
        question, steps = made.question(language), made.steps(language)
        assert str(made.equation) in question
        assert made.answer not in question
        # A reply that repeats the question contains no answer.
        assert judged(made, question) is Reason.UNPARSEABLE
        # The digits written in the steps, read from the left, are the result.
        if "*" not in made.equation.operations:
            mark = "写 " if language == "zh" else "write "
            wrote = [line.split(mark)[1][0] for line in steps.splitlines() if mark in line]
            result = made.answer.split(" = ")[1]
            assert "".join(reversed(wrote)).lstrip("0") == result
        assert one_answer(visible(f"{steps}\n\n{made.final(language)}"), made.read, "statement") == made.read(
            made.answer
        )


def test_the_same_puzzles_under_any_hash_seed() -> None:
    code = (
        "from veritas_rl.envs.lgc_v2.task_ids import puzzle_of\n"
        "print([(p.question('en'), p.answer) for p in (puzzle_of('cryptarithm', seed) for seed in range(15))])"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
    assert printed.pop().strip() == str([(puzzle(seed).question("en"), puzzle(seed).answer) for seed in range(15)])


@pytest.mark.parametrize(
    "wrong", [("", (3,), 4), ("++++", (3, 3, 3, 3, 3), 4), ("/", (3, 3), 4), ("+", (3,), 4), ("+", (3, 3), 9)]
)
def test_shapes_that_make_no_sense_are_refused(wrong: tuple[str, tuple[int, ...], int]) -> None:
    with pytest.raises(ValueError, match="operations"):
        Shape(*wrong)
