from fractions import Fraction

import pytest

from veritas_rl.envs.answers import one_answer
from veritas_rl.envs.answers.visible import visible
from veritas_rl.envs.base import Reason
from veritas_rl.envs.lgc_v2 import second
from veritas_rl.envs.lgc_v2.kinds.operation import LARGEST_DENOMINATOR, Operation, OperationConfig
from veritas_rl.envs.lgc_v2.kinds.operation.expressions import Use
from veritas_rl.envs.lgc_v2.kinds.operation.puzzle import OperationPuzzle, number_in
from veritas_rl.envs.lgc_v2.kinds.operation.rules import (
    CONDITIONS,
    DIVIDING,
    FRACTIONAL,
    WHOLE,
    Condition,
    Formula,
    Rule,
)
from veritas_rl.envs.lgc_v2.puzzle import LANGUAGES, LEVELS
from veritas_rl.envs.lgc_v2.task_ids import puzzle_of
from veritas_rl.seeding import generator


def puzzle(seed: int) -> OperationPuzzle:
    made = puzzle_of("operation", seed)
    assert isinstance(made, OperationPuzzle)
    return made


def formula(text: str, *numbers: int) -> Formula:
    return Formula(next(kind for kind in WHOLE + FRACTIONAL + DIVIDING if kind.text == text), numbers)


def condition(text: str, *numbers: int) -> Condition:
    return Condition(next(kind for kind in CONDITIONS if kind.english == text), numbers)


SUM = Rule(formula("{0} × a + {1} × b", 2, 3))
PRODUCT = Rule(formula("a × b + {0}", 1))
EVEN = Rule(formula("{0} × a - {1} × b", 2, 5), condition("a is even"), formula("a² - {0} × b", 4))
DIVIDED = Rule(formula("a ÷ b + {0}", 2), condition("b is not 0"), formula("(a + {0}) × (b - {1})", 1, 3))
HALVED = Rule(formula("(a + b) ÷ {0} + {1}", 2, 1), condition("a > b"), formula("{0} × |a - b| + {1}", 3, 2))

WORKED = [
    # 2 × 4 + 3 × 5 = 8 + 15 = 23.
    (("※",), (SUM,), Use(0, 4, 5), "4 ※ 5", "23"),
    # Left to right: 7 is odd, so 7² - 4 × 2 = 41; 41 is odd, so 41² - 4 × 3 = 1681 - 12 = 1669.
    (("※",), (EVEN,), Use(0, Use(0, 7, 2), 3), "7 ※ 2 ※ 3", "1669"),
    # In parentheses first: 2 is even, so 2 × 2 - 5 × 3 = -11; 7 is odd, so 7² - 4 × (-11) = 93.
    (("※",), (EVEN,), Use(0, 7, Use(0, 2, 3)), "7 ※ (2 ※ 3)", "93"),
    # △ binds tighter: 4 △ 5 = 4 × 5 + 1 = 21; 3 ※ 21 = 2 × 3 + 3 × 21 = 69.
    (("△", "※"), (PRODUCT, SUM), Use(1, 3, Use(0, 4, 5)), "3 ※ 4 △ 5", "69"),
    # ※ binds tighter: 3 ※ 4 = 6 + 12 = 18; 18 △ 5 = 90 + 1 = 91.
    (("※", "△"), (SUM, PRODUCT), Use(1, Use(0, 3, 4), 5), "3 ※ 4 △ 5", "91"),
    # 7 ※ 2 = 7/2 + 2 = 11/2; 11/2 > 1, so (11/2 + 1) / 2 + 1 = 13/4 + 1 = 17/4.
    (("※", "△"), (DIVIDED, HALVED), Use(1, Use(0, 7, 2), 1), "7 ※ 2 △ 1", "17/4"),
    # 3 △ 4: 3 is not above 4, so 3 × 1 + 2 = 5; 5 △ 5: 5 is not above 5, so 3 × 0 + 2 = 2.
    (("△",), (HALVED,), Use(0, Use(0, 3, 4), 5), "3 △ 4 △ 5", "2"),
]


@pytest.mark.parametrize(("signs", "rules", "expression", "shown", "value"), WORKED)
def test_puzzles_worked_by_hand(
    signs: tuple[str, ...], rules: tuple[Rule, ...], expression: Use, shown: str, value: str
) -> None:
    made = OperationPuzzle(signs, rules, tuple(range(len(signs))), expression)
    assert made.answer == value
    assert f"What is the value of {shown} ?" in made.question("en")
    assert f"求 {shown} 的值" in made.question("zh")
    assert second.disagreement("operation", made.question("en"), value) == ""
    for language in LANGUAGES:
        assert made.steps(language).endswith(f"= {value}")
        assert "boxed" not in made.steps(language)
        assert made.final(language) == f"\\boxed{{{value}}}"


def test_the_conditions_of_whole_numbers_by_hand() -> None:
    # Each condition with operands for which it is true, and operands for which it is false.
    cases = {
        "a is even": ((-4, 1), (3, 2)),
        "b is odd": ((2, -3), (1, 0)),
        "a + b is even": ((3, 5), (2, -3)),
        "both a and b are odd": ((-1, 3), (1, 2)),
        "exactly one of a and b is even": ((0, 1), (2, 4)),
        "a + b is divisible by 4": ((-7, 3), (1, 2)),
        "a - b is divisible by 3": ((2, 5), (2, 4)),
        "a × b is divisible by 7": ((0, 2), (3, 5)),
        "max(a, b) is the square of a whole number": ((0, -4), (-4, -9)),
        "a + b is the square of a whole number": ((7, 9), (7, 8)),
        "a + b is a prime number": ((1, 1), (-5, 2)),
        "a > b": ((2, 1), (2, 2)),
        "a < 3 × b": ((5, 2), (6, 2)),
        "a + b > 5": ((3, 3), (2, 3)),
        "a × b < 10": ((-5, 9), (5, 2)),
        "|a - b| < 3": ((1, 3), (1, 4)),
        "min(a, b) < 3": ((9, 2), (3, 4)),
        "b is not 0": ((0, -1), (1, 0)),
    }
    kinds = {text: kind for kind in CONDITIONS for text in (kind.english.format(n) for n in (3, 4, 5, 7, 10))}
    assert {kinds[text] for text in cases} == set(CONDITIONS)
    for text, (holds, fails) in cases.items():
        numbers = [int(word) for word in text.split() if word.isdigit() and word != "0"]
        made = Condition(kinds[text], tuple(numbers))
        assert made.text("en") == text
        assert made.holds(*holds), text
        assert not made.holds(*fails), text


def test_a_second_way_agrees_at_all_levels() -> None:
    wrong = {}
    for seed in range(300):
        made = puzzle(seed)
        if said := second.disagreement("operation", made.question("en"), made.answer):
            wrong[seed] = said
    assert not wrong


def test_the_second_way_finds_wrong_labels() -> None:
    for seed in range(60):
        made = puzzle(seed)
        question = made.question("en")
        for name, wrong in made.near_misses():
            assert second.disagreement("operation", question, wrong), (seed, name)
        if " binds tighter than " in question:
            unclear = question.replace(" binds tighter than ", " looks better than ")
            assert "leaves open" in second.disagreement("operation", unclear, made.answer)
    assert second.disagreement("operation", "What is 2 + 2?", "4")


def test_the_second_way_refuses_a_condition_that_is_not_defined() -> None:
    question = "a ※ b = a ÷ 2 + b if a is even; otherwise a ※ b = a + b\n\nWhat is the value of 6 ※ 1 ※ 1 ?"
    # 6 ※ 1 = 3 + 1 = 4, 4 ※ 1 = 2 + 1 = 3.
    assert second.disagreement("operation", question, "3") == ""
    # 6 ※ 1 = 6/4 + 1 = 5/2, which is neither even nor odd.
    assert "needs a whole number" in second.disagreement("operation", question.replace("÷ 2", "÷ 4"), "7/2")


def test_near_misses_are_refused() -> None:
    for seed in range(300):
        made = puzzle(seed)
        said = made.read(made.answer)
        assert said is not None
        assert made.is_right(said)
        misses = dict(made.near_misses())
        assert {"one too many", "one too few"} <= set(misses)
        for name, wrong in misses.items():
            said = made.read(wrong)
            assert said is None or not made.is_right(said), (seed, name, wrong)


def test_values_stay_small_and_conditions_are_asked_of_whole_numbers_only() -> None:
    kinds = set()
    for seed in range(1000):
        made = puzzle(seed)
        config = Operation.levels[seed % len(LEVELS) + 1]
        assert len(made.rules) == config.operators
        assert sum(rule.condition is not None for rule in made.rules) == config.conditional
        divides = any(part and part.kind not in WHOLE for rule in made.rules for part in (rule.formula, rule.otherwise))
        for rule in made.rules:
            if rule.condition:
                kinds.add(rule.condition.kind)
                assert not (divides and rule.condition.kind.of_whole_numbers)
        assert divides or made.value.denominator == 1
        assert abs(made.value) <= config.limit
        assert made.value.denominator <= LARGEST_DENOMINATOR
    assert kinds == set(CONDITIONS)


def test_the_last_resort_is_small_for_every_rule() -> None:
    for kind in WHOLE + FRACTIONAL + DIVIDING:
        most = kind.value(2, 1, *(values[-1] for values in kind.ranges))
        assert abs(most) <= min(config.limit for config in Operation.levels.values())


@pytest.mark.parametrize("first", [0, 123_455, 99_990_000])
def test_no_puzzle_repeats(first: int) -> None:
    kind = Operation()
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


def test_a_form_does_not_depend_on_signs_nor_on_the_order_of_definitions() -> None:
    expression = Use(1, 3, Use(0, 4, 5))
    one = OperationPuzzle(("※", "△"), (PRODUCT, SUM), (0, 1), expression)
    other = OperationPuzzle(("◎", "☆"), (PRODUCT, SUM), (1, 0), expression)
    third = OperationPuzzle(("※", "△"), (SUM, PRODUCT), (0, 1), expression)
    assert one.question("en") != other.question("en")
    assert one.form == other.form != third.form


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("17", Fraction(17)),
        (" -3 ", Fraction(-3)),
        ("- 3", Fraction(-3)),
        ("+4", Fraction(4)),
        ("1,234", Fraction(1234)),
        ("1{,}234,567.5", Fraction(2469135, 2)),
        ("3.50", Fraction(7, 2)),
        (".5", Fraction(1, 2)),
        ("7/2", Fraction(7, 2)),
        ("-14 / 4", Fraction(-7, 2)),
        ("((7)/(2))", Fraction(7, 2)),
        ("-((7)/(2))", Fraction(-7, 2)),
        ("((-7)/(2))", Fraction(-7, 2)),
    ],
)
def test_numbers_are_read_as_models_write_them(said: str, number: Fraction) -> None:
    assert number_in(said) == number


@pytest.mark.parametrize(
    "said",
    [
        "",
        "x",
        "about 3",
        "3 or 4",
        "1,23",
        "12,34,567",
        "7/0",
        "((7)/(0))",
        "1/2/3",
        "2+3",
        "1e5",
        "nan",
        "inf",
        "٣",
        "3%",
        "((7)/(2)",
        "9^9^9^9",
        "9**9**9",
        "9" * 100_000,
        "(" * 10_000 + "3" + ")" * 10_000,
        "1," * 50_000,
        "1/" * 50_000,
        " " * 50_000 + "x" + " " * 49_999,
    ],
)
def test_text_without_a_number_is_no_answer(said: str) -> None:
    assert number_in(said) is None


def test_replies_are_read_by_the_shared_reader() -> None:
    # 7/2 + 2 = 11/2.
    made = OperationPuzzle(("※",), (DIVIDED,), (0,), Use(0, 7, 2))
    for reply in (
        "So \\boxed{\\frac{11}{2}}.",
        "\\boxed{5.5}",
        "\\boxed{= \\dfrac{11}{2}}",
        "$7 ※ 2 = 11/2$, so\n\\boxed{$11/2$}",
        "The answer is 11/2.",
        "\\boxed{5.5} or \\boxed{11/2}",
        "\\boxed {5.5}",
        "\\boxed{7 ※ 2 = 5.5}",
        "\\boxed{7※2 = \\frac{7}{2} + 2 = \\frac{11}{2}}",
        "The answer is x = 11/2.",
        "So we get: 7 ※ 2 = 11/2",
        "<answer>7 ※ 2 = 11/2</answer>",
    ):
        said = one_answer(visible(reply), made.read, "box")
        assert not isinstance(said, Reason)
        assert made.is_right(said), reply
    assert one_answer(visible("\\boxed{5} or \\boxed{6}"), made.read, "box") is Reason.AMBIGUOUS
    for reply in ("\\boxed{many}", "\\boxed{6 ※ 2 = 5.5}", "\\boxed{5 = 5.5}", "\\boxed{7 ※ 2 = 5 = 5.5}"):
        assert one_answer(visible(reply), made.read, "box") is Reason.UNPARSEABLE


def test_a_third_may_be_written_with_six_places() -> None:
    # 4 ÷ 3 + 2 = 10/3 = 3.3333333...
    made = OperationPuzzle(("※",), (DIVIDED,), (0,), Use(0, 4, 3))
    for said, right in (("3.333333", True), ("3.33333", False), ("10/3", True), ("3.333335", False)):
        number = made.read(said)
        assert number is not None
        assert made.is_right(number) is right, said


@pytest.mark.parametrize(
    "values", [(0, 0, 1, 9, 300, 0), (2, 0, 1, 9, 300, 0), (1, 2, 2, 9, 300, 0), (1, 0, 1, 4, 300, 0)]
)
def test_a_configuration_that_makes_no_sense_is_refused(values: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"operators must|limits must"):
        OperationConfig(*values)
