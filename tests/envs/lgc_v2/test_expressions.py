"""Arithmetic in answers is exact and bounded, and is never executed as code."""

import ast
import re
from collections import Counter
from fractions import Fraction
from random import Random

import pytest

from veritas_rl.envs.answers.latex import plain_math
from veritas_rl.envs.lgc_v2.expressions import MAX_CHARACTERS, MAX_DEPTH, Expression, parsed
from veritas_rl.envs.lgc_v2.second.game_of_24 import worth


def value(text: str) -> Fraction:
    found = parsed(text)
    assert found is not None, text
    return found.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("20 - 8 - 4", 8),
        ("48 / 4 / 2", 6),
        ("48 / 4 * 2", 24),
        ("2 - 3 * 4 / 6 + 1", 1),
        ("8 / (3 - 8 / 3)", 24),
        ("-3 + 5", 2),
        ("3 - -2", 5),
        ("2 * -(3 - 4)", 2),
        ("-2 * 3", -6),
        ("(((5)))", 5),
        ("1/3", Fraction(1, 3)),
        ("\t3\n*  4 ", 12),
        ("[(1+2) * 3 - 1] / 4", 2),
        ("3 x (1 + 2)", 9),
        ("5x(4+6)-2", 48),
        ("10x3", 30),
        ("3X4 - 2", 10),
        ("5(4+6)-2", 48),
        ("(1+2)(3+4)", 21),
        ("(1+2)3 - 1", 8),
        ("2(3)/4", Fraction(3, 2)),
        ("-2(3)", -6),
    ],
)
def test_values_are_exact(text: str, expected: Fraction) -> None:
    assert value(text) == expected


def test_numbers_are_reported_as_often_as_they_are_used() -> None:
    assert parsed("8 / (3 - 8 / 3)") == Expression(Fraction(24), (3, 3, 8, 8))
    assert parsed("10 + 2 + 10") == Expression(Fraction(22), (2, 10, 10))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "+",
        "()",
        "1 +",
        "* 2",
        "+3",
        "--3",
        "1 2",
        "8/2(2+2)",
        "8/(2)(3)",
        "2 3(4)",
        "2()",
        "1 // 2",
        "2 ** 3",
        "2 ^ 3",
        "9^9^9^9",
        "9**9**9**9",
        "4!",
        "sqrt(4)",
        "__import__('os')",
        "1_000",
        "1e3",
        "1.5",
        "0x10",
        "08",
        "1/0",
        "1/(2-2)",
        "(1/0)*0",
        "(1",
        "1)",
        ")1(",
        "\u0663 + 1",
        "\uff11 + 1",
        "\u00b2",
        "\u4e00 + 1",
        "1 + 2 = 3",
        "1x",
        "x",
        "1xx2",
        "[1 + 2 * 3",
        "1234567",
        "\x00",
    ],
)
def test_anything_else_is_no_expression(text: str) -> None:
    assert parsed(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "1" + ")" * 10_000,
        "(" * 100_000,
        "-" * 100_000,
        " " * 100_000 + "1 +",
        "9" * 100_000,
        "1+" * 50_000 + "1",
        "\\frac{1}{" * 10_000 + "2" + "}" * 10_000,
    ],
)
def test_expressions_that_are_too_large_are_refused(text: str) -> None:
    assert parsed(plain_math(text)) is None


def test_the_bounds_are_reached() -> None:
    assert parsed("(" * MAX_DEPTH + "1" + ")" * MAX_DEPTH) is not None
    assert parsed("(" * (MAX_DEPTH + 1) + "1" + ")" * (MAX_DEPTH + 1)) is None
    assert parsed("1+" * (MAX_CHARACTERS // 2 - 1) + "11") is not None
    assert parsed("1+" * (MAX_CHARACTERS // 2) + "1") is None


def test_random_expressions_agree_with_the_parser_of_python() -> None:
    random = Random(5)
    signs = ["+", "-", "*", "/", "(", ")", "1", "2", "3", "14", " "]
    agreed = 0
    for _ in range(20_000):
        text = "".join(random.choice(signs) for _ in range(random.randrange(1, 12)))
        found = parsed(text)
        if found is None:
            continue
        used: Counter[int] = Counter()
        with_every_sign = re.sub(r"(?<=[0-9)])\s*(?=\()|(?<=\))\s*(?=[0-9])", "*", text.strip())
        tree = ast.parse(with_every_sign, mode="eval").body
        if any(isinstance(node, ast.UnaryOp) for node in ast.walk(tree)):
            continue
        assert worth(tree, used) == found.value
        assert sorted(used.elements()) == list(found.numbers)
        agreed += 1
    assert agreed > 300
