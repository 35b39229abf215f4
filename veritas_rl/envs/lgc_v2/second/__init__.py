"""A second solver for each type, which shares no code with the puzzles and reads only the text of the English question.

The file of each type has a function `check(question, answer)`. It returns "" if the answer is right, and unique if the
question states so. Otherwise it returns a sentence with the error. It raises `NotApplicable` if it needs a solver that
is not installed.
"""

from collections.abc import Callable, Mapping
from importlib import import_module

CHECKS: Mapping[str, str] = {
    "dyck_language": "dyck_language",
    "game_of_24": "game_of_24",
    "dyck_language2": "dyck_language2",
    "dyck_language2_long": "dyck_language2",
    "operation": "operation",
    "cryptarithm": "cryptarithm",
    "boolean_expressions": "boolean_expressions",
    "sudoku": "sudoku",
    "dyck_language_reasoning_errors": "dyck_language_reasoning_errors",
}
"""The module of each type."""


def disagreement(name: str, question: str, answer: str) -> str:
    """The disagreement of the second solver with an answer; "" if there is none.

    Args:
        name: The type of the puzzle.
        question: The text of the question, in English.
        answer: The answer without markup.

    Raises:
        NotApplicable: The solver is not installed.
    """
    check: Callable[[str, str], str] = import_module(f"{__name__}.{CHECKS[name]}").check
    return check(question, answer)
