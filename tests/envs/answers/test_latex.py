"""LaTeX in answers is converted to plain text."""

import pytest

from veritas_rl.envs.answers.latex import plain_math


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("12", "12"),
        ("$12$", "12"),
        ("\\text{A, C}", "A, C"),
        ("\\frac{1}{2}", "((1)/(2))"),
        ("\\dfrac{\\frac{1}{2}}{3 \\times 4}", "((((1)/(2)))/(3 * 4))"),
        ("\\left(8 - 2\\right) \\cdot 4 ÷ 1", "(8 - 2) * 4 / 1"),
        ("(3 − 1) × 2", "(3 - 1) * 2"),
        ("\\{\\}\\langle\\rangle{}", "{}⟨⟩{}"),
        ("\\llbracket\\rrbracket\\lBrack\\llangle\\rAngle\\lBrace\\lbrace\\lbrack\\gt", "⟦⟧⟦⟪⟫⦃{[>"),
        ("\\bigl(\\Big[\\biggr)", "([)"),
        ("A,~C and~\\text{D}", "A, C and D"),
        ("~A ~~B~~ C~", "~A ~~B~~ C~"),
        ("\\frac12", "((1)/(2))"),
        ("-\\dfrac 1 2 x", "-((1)/(2)) x"),
        ("\\frac1", "\\frac1"),
        ("\\frac", "\\frac"),
        ("\\boldsymbol{1}\\mathsf{2}", "12"),
        ("\\bm{1}\\emph{2}\\underline{3}\\textnormal{4}", "1234"),
        ("\uff081 \uff0b 2\uff09", "(1 + 2)"),
        ("A\uff1a 1", "A: 1"),
        ("\uff11", "\uff11"),
        ("\\frac{1}", "((1))"),
        ("\\unknown{a}", "\\unknown{a}"),
        ("}\\}", "}}"),
        ("\\", "\\"),
    ],
)
def test_latex_is_written_out(text: str, plain: str) -> None:
    assert plain_math(text) == plain


def test_ten_thousand_nested_fractions_are_written_out() -> None:
    plain = plain_math("\\frac{" * 10_000 + "1" + "}{2}" * 10_000)
    assert plain.count("/") == 10_000
    assert plain.count("(") == plain.count(")")
