"""Reads replies for every environment: removes thinking and finds the answer.

- Thinking: `<think>...</think>`, all text before an unopened `</think>`, and all text after an unclosed `<think>`.
- A box: `\\boxed{...}`. Its content ends at the first closing brace and is trimmed.
- A code block: lines between two fences of three backticks or more. The first fence may name any language.
- Inline code: text on one line between one, two or three backticks and the same number of backticks.
- A statement: the text after "The answer is", "Answer:" or their Chinese forms, up to the end of the sentence or line.
- The last line that is not empty and is not the end of a LaTeX formula.
- The last paragraph: the last lines, back to an empty line.

LaTeX in an answer is converted to plain text: `\\text{A}` is A, `\\frac{1}{2}` is ((1)/(2)), `\\times` is *. Answers
are never found by searching for a substring, and every step is linear in the reply's length.
"""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import islice, takewhile
from typing import TypeVar

from veritas_rl.envs.base import Reason, Reply
from veritas_rl.envs.latex import plain_math

MAX_CHARACTERS = 100_000
"""The most characters of a reply; a longer reply is not parsed."""

BOX = "\\boxed{"

_BRACE = re.compile(r"[{}]")
_CLOSING = re.compile(r"\}+")
_FENCE = re.compile(r"^[ \t]*(`{3,})([^`\n]*)$", re.MULTILINE)
_INLINE = re.compile(r"(?<!`)(`{1,3})([^`\n]+)\1(?!`)")
_STATEMENT = re.compile(
    r"(?:\banswers?(?:[ \t]+(?:is|are)\b|[*_]*[ \t]*[:=\uff1a])|答案[*_]*(?:是|为|[ \t]*[:\uff1a]))[ \t]*[:\uff1a]?",
    re.IGNORECASE,
)
_MARKS = " \t\r*`"
_SENTENCE_END = re.compile(r"\.(?:\s|$)|。")
_FORMULA_ENDS = ("\\]", "$$")
T = TypeVar("T", bound=Hashable)


def answer_text(reply: Reply, most: int = MAX_CHARACTERS) -> str | Reason:
    """The text of a reply outside its thinking, or the reason why there is none.

    Args:
        reply: Any reply.
        most: The most characters of a reply; a longer reply is not parsed.
    """
    if reply.overlong or len(reply.text) > most:
        return Reason.OVERLONG
    if reply.truncated:
        return Reason.TRUNCATED
    text = without_thinking(reply.text)
    return text if text.strip() else Reason.EMPTY


def boxed(text: str) -> str | Reason:
    """The content of the only box of a text, up to its first closing brace; a `Reason` if there is no such box."""
    after = text.partition(BOX)[2]
    if BOX in after:
        return Reason.AMBIGUOUS
    inside, closed, _ = after.partition("}")
    said = inside.strip()
    return said if closed and said else Reason.UNPARSEABLE


def balanced_boxes(text: str) -> list[str] | Reason:
    """The content of each box of a text, up to the matching closing brace, so the content may contain paired braces.

    Unmatched closing braces directly after the box belong to the content: `\\boxed{{}}}` contains `{}}`.
    """
    found: list[str] = []
    place = outside = 0
    while (start := text.find(BOX, place)) >= 0:
        for brace in _BRACE.finditer(text, place, start):
            outside = max(outside + (1 if brace[0] == "{" else -1), 0)
        depth, inside, end = 1, start + len(BOX), 0
        for brace in _BRACE.finditer(text, inside):
            depth += 1 if brace[0] == "{" else -1
            if not depth:
                end, place = brace.start(), brace.end()
                break
        else:
            return Reason.UNPARSEABLE
        closing = _CLOSING.match(text, place)
        excess = max(len(closing[0]) - outside, 0) if closing else 0
        found.append(text[inside : end + excess])
        place += excess
    return found


def code_blocks(text: str) -> list[str]:
    """The contents of the code blocks of a text, in order. An unclosed block ends with the text."""
    found: list[str] = []
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif not fence[2].strip() and len(fence[1]) >= len(opened[1]):
            found.append(text[opened.end() + 1 : fence.start()])
            opened = None
    if opened is not None:
        found.append(text[opened.end() + 1 :])
    return found


def without_thinking(text: str) -> str:
    """A reply without its thinking blocks."""
    if "think>" not in text:
        return text
    kept: list[str] = []
    inside = False
    for piece in re.split(r"(</?think>)", text):
        if piece == "<think>":
            inside = True
        elif piece == "</think>":
            if not inside:
                kept.clear()  # the opening tag was in the prompt, so all text up to here is thinking
            inside = False
        elif not inside:
            kept.append(piece)
    return "\n".join(kept)


def inline_code(text: str) -> list[str]:
    """The contents of inline code, in order."""
    return [found[2] for found in _INLINE.finditer(text)]


def statements(text: str) -> list[str]:
    """The answers that a text states, each up to the end of the sentence or line."""
    # A statement ends where the next statement begins: "Answer: the answer is 5" states 5.
    lines = [following.split("\n", 1)[0] for following in _STATEMENT.split(text)[1:]]
    return [_unmarked(_SENTENCE_END.split(line, maxsplit=1)[0]) for line in lines]


def last_line(text: str) -> list[str]:
    """The last non-empty line, as a list of at most one."""
    lines = (line for line in reversed(text.split("\n")) if line.strip() and line.strip() not in _FORMULA_ENDS)
    return [_unmarked(line) for line in islice(lines, 1)]


def last_paragraph(text: str) -> list[str]:
    """The last lines back to an empty line, as a list of at most one."""
    lines = takewhile(str.strip, reversed(text.rstrip().split("\n")))
    return ["\n".join(reversed(list(lines)))]


def _unmarked(line: str) -> str:
    """A line without surrounding marks of bold text or code, and without a final full stop."""
    return line.strip(_MARKS).rstrip(".。").strip(_MARKS)


def _boxes(text: str) -> list[str]:
    found = balanced_boxes(text)
    return [] if isinstance(found, Reason) else [_unmarked(said) for said in found]


FORMS: Mapping[str, Callable[[str], Sequence[str]]] = {
    "box": _boxes,
    "statement": statements,
    "block": code_blocks,
    "inline": inline_code,
    "line": last_line,
    "paragraph": last_paragraph,
    "text": lambda text: [text],
}
"""The forms of an answer, each with the function that finds all texts of that form."""


def one_answer(text: str, read: Callable[[str], T | None], asked: str) -> T | Reason:
    """The answer of a reply.

    Args:
        text: The reply without its thinking.
        read: Parses the content of a box, a block or a line, in which LaTeX is already converted. Equal results mean
            equal answers, and None means no answer.
        asked: The form that the prompt asks for, a key of `FORMS`. It is tried first, then the other forms. The form
            "text", the whole reply, is tried only if the prompt asks for it.

    Returns:
        The answer in the first form that has one; `AMBIGUOUS` if that form has different answers; `UNPARSEABLE` if no
        form has an answer.
    """
    for form in (asked, *(form for form in FORMS if form not in (asked, "text"))):
        found = {said for part in FORMS[form](text) if (said := read(plain_math(part))) is not None}
        if len(found) > 1:
            return Reason.AMBIGUOUS
        if found:
            return found.pop()
    return Reason.UNPARSEABLE
