"""dyck_language by rewriting: adjacent pairs are removed until none is left."""

import re

PAIRS = ("()", "[]", "{}")


def check(question: str, answer: str) -> str:
    """The error in an answer to a question, or ""; see `second`."""
    beginning = question.split("\n\n")[1]
    if not answer.startswith(beginning):
        return f"the answer {answer} does not begin with {beginning}"
    if reduced(answer):
        return f"the answer {answer} is not closed"
    # The brackets that remain of the beginning after the removal of all pairs are open. Each needs a closing bracket.
    fewest = len(reduced(beginning))
    if not fewest:
        return "nothing is missing"
    if len(answer) != len(beginning) + fewest:
        return f"the answer adds {len(answer) - len(beginning)} brackets, {fewest} are enough"
    return ""


def reduced(sequence: str) -> str:
    """A sequence after repeated removal of all adjacent pairs."""
    pattern = re.compile("|".join(map(re.escape, PAIRS)))
    while True:
        shorter = pattern.sub("", sequence)
        if shorter == sequence:
            return sequence
        sequence = shorter
