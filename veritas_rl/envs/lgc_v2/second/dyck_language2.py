"""dyck_language2 by rewriting: brackets are added in front one by one, and adjacent pairs are removed."""

import re


def check(question: str, answer: str) -> str:
    """The error in an answer to a question, or ""; see `second`."""
    named = re.search(r"kinds: (\S\S(?: \S\S)*)\. ", question)
    if not named:
        return "the question names no kinds of brackets"
    pairs = named[1].split(" ")
    ending = question.split("\n\n")[1]
    if strange := set(ending) - set("".join(pairs)):
        return f"the end {ending} has brackets that are not named: {sorted(strange)}"
    left = _reduced(ending, pairs)
    if not left:
        return "nothing is missing"
    added = answer.removesuffix(ending)
    if added + ending != answer:
        return f"the answer {answer} does not end with {ending}"
    if not set(added) <= {pair[0] for pair in pairs}:
        return f"the answer adds {added}, and not opening brackets alone"
    # A bracket in front closes at most one remaining bracket, so at least as many brackets as remain are necessary. If
    # only one bracket fits each time, no other answer has the same length.
    forced = ""
    while left:
        shorter = {pair[0]: rest for pair in pairs if len(rest := _reduced(pair[0] + left, pairs)) < len(left)}
        if len(shorter) != 1:
            return f"{len(shorter)} brackets fit in front of {left}"
        ((bracket, left),) = shorter.items()
        forced = bracket + forced
    return "" if added == forced else f"the answer adds {added}, right is {forced}"


def _reduced(sequence: str, pairs: list[str]) -> str:
    """A sequence after repeated removal of all adjacent pairs."""
    before = None
    while before != sequence:
        before = sequence
        for pair in pairs:
            sequence = sequence.replace(pair, "")
    return sequence
