"""A second way to each answer, which shares no code with the puzzles: it reads the text of the English question alone.

One file a type has a function `check(question, answer)`, which gives "" if the answer is right, and the only one where
the question says so, and otherwise a sentence that says what is wrong. A type whose file needs a solver that is not
installed raises `NotApplicable`.
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
    """How a second solver disagrees with an answer; "" if it does not.

    Args:
        name: The type of the puzzle.
        question: The text of the question, in English.
        answer: The answer, bare.

    Raises:
        NotApplicable: The solver is not installed.
    """
    check: Callable[[str, str], str] = import_module(f"{__name__}.{CHECKS[name]}").check
    return check(question, answer)
