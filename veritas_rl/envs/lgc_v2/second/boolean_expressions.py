"""boolean_expressions by rewriting text from the inside out, until only True or False is left."""

import re

_RULES: tuple[tuple[str, dict[str, str]], ...] = (
    ("not", {"not True": "False", "not False": "True"}),
    (
        "and",
        {"True and True": "True", "True and False": "False", "False and True": "False", "False and False": "False"},
    ),
    (
        "xor",
        {"True xor True": "False", "True xor False": "True", "False xor True": "True", "False xor False": "False"},
    ),
    ("or", {"True or True": "True", "True or False": "True", "False or True": "True", "False or False": "False"}),
)
"""The truth tables of the words, the tightest first."""

_STATED_ORDER = '"not" is worked out first, then "and", then "xor", then "or"'
_OPTION = re.compile(r"^([A-H])\. (.+)$", re.MULTILINE)
_COMPARISON = re.compile(r"(-?\d+)((?: [-+*] \d+)*) (<=|>=|==|!=|<|>) (-?\d+)")
_STATEMENT = re.compile(r"(\d+) is (even|odd|a prime number|divisible by \d+|the square of a whole number)")
_INNERMOST = re.compile(r"\(([^()]*)\)")


def check(question: str, answer: str) -> str:
    """The error in an answer to a question, or ""; see `second`."""
    if _STATED_ORDER not in question:
        return "the question does not state in which order words are worked out"
    options = _OPTION.findall(question)
    if [label for label, _ in options] != list("ABCDEFGH"[: len(options)]) or len(options) < 3:
        return "the options are not labelled in order"
    if len({text for _, text in options}) != len(options):
        return "two options are the same"
    values = {label: truth(text) for label, text in options}
    if broken := [label for label, value in values.items() if value not in ("True", "False")]:
        return f"option {broken[0]} is neither true nor false: {values[broken[0]]}"
    right = ",".join(label for label, value in values.items() if value == "True")
    if not right:
        return "no option is true"
    return "" if answer == right else f"the answer is {answer}, true are {right}"


def truth(text: str) -> str:
    """ "True" or "False", or the remaining text if it is neither."""
    text = _COMPARISON.sub(_compared, text)
    text = _STATEMENT.sub(_stated, text)
    while found := _INNERMOST.search(text):
        text = text[: found.start()] + _flat(found[1]) + text[found.end() :]
    return _flat(text)


def _flat(text: str) -> str:
    """Rewrite a text without parentheses by the truth tables, one word at a time."""
    for _, table in _RULES:
        pattern = re.compile("|".join(table))
        while found := pattern.search(text):
            text = text[: found.start()] + table[found[0]] + text[found.end() :]
    return text


def _compared(found: re.Match[str]) -> str:
    # Products are replaced by their values one by one. The remaining text is a sum of signed numbers.
    left = found[1] + found[2]
    while product := re.search(r"(\d+) \* (\d+)", left):
        left = left[: product.start()] + str(int(product[1]) * int(product[2])) + left[product.end() :]
    difference = sum(int(part) for part in re.findall(r"[+-]?\d+", left.replace(" ", ""))) - int(found[4])
    sign = "<" if difference < 0 else ">" if difference > 0 else "="
    return str(sign in {"!=": "<>", "==": "="}.get(found[3], found[3]))


def _stated(found: re.Match[str]) -> str:
    number, what = int(found[1]), found[2]
    if what in ("even", "odd"):
        return str((found[1][-1] in "02468") is (what == "even"))
    if what == "a prime number":
        return str([by for by in range(1, number + 1) if not number % by] == [1, number])
    if what == "the square of a whole number":
        return str(number in {root * root for root in range(number + 1)})
    by = int(what.rsplit(" ", 1)[1])
    return str(number in range(0, number + 1, by))
