"""Converts LaTeX in a model's answer to plain text. The work is linear in the text's length."""

import re

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[{}]|[^\\{}]+|\\", re.DOTALL)

_SIGNS = str.maketrans(
    {"×": "*", "·": "*", "⋅": "*", "\u2217": "*", "÷": "/", "−": "-", "–": "-", "$": None, "\u00a0": " "}
)
# Full-width signs come from Chinese keyboards.
_WIDE = str.maketrans({chr(ord(sign) + 0xFEE0): sign for sign in "()[]{}<>+-*/=:"})
_WRAPPERS = frozenset(
    {"\\operatorname", "\\boldsymbol", "\\bm", "\\mbox", "\\emph", "\\underline"}
    | {f"\\text{style}" for style in ("", "bf", "it", "normal", "rm", "sf", "tt")}
    | {f"\\math{style}" for style in ("bf", "it", "rm", "sf", "tt")}
)
_FRACTIONS = frozenset({"\\frac", "\\dfrac", "\\tfrac", "\\cfrac"})
_TWO_DIGITS = re.compile(r"\s*([0-9])\s*([0-9])")
_BRACKETS: dict[tuple[str, str], str] = {
    ("lbrace", "rbrace"): "{}",
    ("lbrack", "rbrack"): "[]",
    ("lt", "gt"): "<>",
    ("langle", "rangle"): "⟨⟩",
    ("llbracket", "rrbracket"): "⟦⟧",
    ("lBrack", "rBrack"): "⟦⟧",
    ("llangle", "rrangle"): "⟪⟫",
    ("lAngle", "rAngle"): "⟪⟫",
    ("llbrace", "rrbrace"): "⦃⦄",
    ("lBrace", "rBrace"): "⦃⦄",
}
"""The commands of stmaryrd, unicode-math and MnSymbol beside those of LaTeX."""
_TIE = re.compile(r"(?<=[^\s~])~(?=[^\s~])")
"""LaTeX's space between words."""
_COMMANDS: dict[str, str] = {
    "\\times": "*",
    "\\cdot": "*",
    "\\ast": "*",
    "\\div": "/",
    **{f"\\{name}": sign for names, signs in _BRACKETS.items() for name, sign in zip(names, signs, strict=True)},
    **{f"\\{size}{side}": "" for size in ("big", "Big", "bigg", "Bigg") for side in ("", "l", "r", "m")},
    "\\to": "→",
    "\\rightarrow": "→",
    "\\left": "",
    "\\right": "",
    "\\displaystyle": "",
    "\\quad": " ",
    "\\{": "{",
    "\\}": "}",
    "\\$": "",
    "\\%": "%",
    "\\_": "_",
    "\\#": "#",
    "\\*": "*",
    "\\&": "&",
    **dict.fromkeys(("\\,", "\\;", "\\:", "\\ ", "\\\n"), " "),
    **dict.fromkeys(("\\!", "\\(", "\\)", "\\[", "\\]"), ""),
}
_NUMERATOR, _DENOMINATOR = ")/(", "))"


def plain_math(text: str) -> str:
    """A text without LaTeX: `\\text{A}` becomes A, `\\frac{1}{2}` ((1)/(2)), `\\times` and × become *, `$` nothing.

    Full-width brackets, operators and colons become ASCII. Unknown LaTeX and bare braces are not changed.
    """
    text = text.translate(_SIGNS).translate(_WIDE)
    if "~" in text:
        text = _TIE.sub(" ", text)
    if "\\" not in text:
        return text
    tokens = _TOKEN.findall(text)
    written: list[str] = []
    closers: list[str] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        place += 1
        opens = place < len(tokens) and tokens[place] == "{"
        if token == "{":
            written.append("{")
            closers.append("}")
        elif token == "}":
            closer = closers.pop() if closers else "}"
            if closer != _NUMERATOR:
                written.append(closer)
            elif opens:
                written.append(_NUMERATOR)
                closers.append(_DENOMINATOR)
                place += 1
            else:
                written.append("))")
        elif token in _FRACTIONS and opens:
            written.append("((")
            closers.append(_NUMERATOR)
            place += 1
        elif token in _FRACTIONS and place < len(tokens) and (digits := _TWO_DIGITS.match(tokens[place])):
            written.append(f"(({digits[1]})/({digits[2]})){tokens[place][digits.end() :]}")
            place += 1
        elif token in _WRAPPERS and opens:
            closers.append("")
            place += 1
        else:
            written.append(str(_COMMANDS.get(token, token)))
    return "".join(written)
