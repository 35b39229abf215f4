"""Finds the parts of a text that may hold an answer: boxes, code, statements, lines.

Code blocks and paragraphs are those of CommonMark, found by markdown-it-py. Every step is linear in the text's length.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, takewhile

from markdown_it import MarkdownIt
from markdown_it.token import Token

from veritas_rl.envs.base import Reason

BOX = "\\boxed{"

_BOX = re.compile(r"\\boxed\s{0,4}\{")
_BRACE = re.compile(r"[{}]")
_CLOSING = re.compile(r"\}+")
_INLINE = re.compile(r"(?<!`)(`{1,3})([^`\n]+)\1(?!`)")
_STATEMENT = re.compile(
    r"(?:\banswers?(?:[ \t]+(?:is|are)\b|[*_]*[ \t]*[:=\uff1a])|答案[*_]*(?:是|为|[ \t]*[:\uff1a]))[ \t]*[:\uff1a]?"
    r"|^[#*_ \t]*(?:(?:final )?answer|(?:最终)?答案)[*_ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_MARKS = " \t\r*`"
_SENTENCE_END = re.compile(r"\.(?:\s|$)|。")
_FORMULA_ENDS = ("\\]", "$$")
# Indented code is text here, and a fence may be indented by any width. Marks such as <answer> are no HTML.
_MARKDOWN = MarkdownIt("commonmark").disable(["code", "html_block", "lheading", "reference"])


@dataclass(frozen=True)
class Part:
    """A part of a text that may be an answer.

    Attributes:
        text: Its content.
        before: The words that introduce it: the last line of text before a block, or the part of its line before inline
            code.
        info: The info string of a code block's fence, such as "python".
        marked: Whether its form alone marks it as the final answer, as a box does.
    """

    text: str
    before: str = ""
    info: str = ""
    marked: bool = False


def balanced_boxes(text: str) -> list[str] | Reason:
    """The content of each box of a text, up to the matching closing brace, so the content may contain paired braces.

    Unmatched closing braces directly after the box belong to the content: `\\boxed{{}}}` contains `{}}`.
    """
    found: list[str] = []
    place = outside = 0
    while opening := _BOX.search(text, place):
        for brace in _BRACE.finditer(text, place, opening.start()):
            outside = max(outside + (1 if brace[0] == "{" else -1), 0)
        depth, inside, end = 1, opening.end(), 0
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


def boxes(text: str) -> list[Part]:
    """The boxes of a text; none if one of them is not closed."""
    found = balanced_boxes(text) if "\\" in text else []
    return [] if isinstance(found, Reason) else [Part(said, marked=True) for said in found]


def code_blocks(text: str) -> list[Part]:
    """The code blocks of a text. An unclosed block ends with the text."""
    blocks: list[Part] = []
    before = ""
    for token in _blocks_and_paragraphs(text):
        if token.type == "fence":
            blocks.append(Part(token.content, before, token.info.strip()))
        else:
            last = next((line for line in reversed(token.content.split("\n")) if line.strip()), before)
            before = "" if _BOX.search(last) else last
    return blocks


def prose(text: str) -> str:
    """A text without its code blocks."""
    if not _has_fence(text):
        return text
    return "\n\n".join(token.content for token in _blocks_and_paragraphs(text) if token.type == "inline")


def inline_code(text: str) -> list[Part]:
    """The inline code of a text."""
    found: list[Part] = []
    above = ""
    for line in prose(text).split("\n"):
        place = 0
        for code in _INLINE.finditer(line):
            before = line[place : code.start()]
            found.append(Part(code[2], before if before.strip(_MARKS) else above))
            place = code.end()
            above = ""
        above = line[place:] if line[place:].strip() else above
    return found


def statements(text: str) -> list[Part]:
    """The answers that a text states, each up to the end of the sentence or line.

    A statement at the end of its line, such as a heading, introduces the next line.
    """
    # A statement ends where the next statement begins: "Answer: the answer is 5" states 5.
    lines = [following.lstrip(_MARKS + "\n").split("\n", 1)[0] for following in _STATEMENT.split(text)[1:]]
    return [Part(unmarked(_SENTENCE_END.split(line, maxsplit=1)[0])) for line in lines]


def last_line(text: str) -> list[Part]:
    """The last non-empty line, as a list of at most one."""
    lines = (line for line in reversed(text.split("\n")) if line.strip() and line.strip() not in _FORMULA_ENDS)
    return [Part(unmarked(line)) for line in islice(lines, 1)]


def last_paragraph(text: str) -> list[Part]:
    """The last lines back to an empty line, as a list of at most one."""
    lines = takewhile(str.strip, reversed(text.rstrip().split("\n")))
    return [Part("\n".join(reversed(list(lines))))]


def whole(text: str) -> list[Part]:
    """The text."""
    return [Part(text)]


def _has_fence(text: str) -> bool:
    return "```" in text or "~~~" in text


def _blocks_and_paragraphs(text: str) -> Iterator[Token]:
    """The code blocks and the paragraphs and headings of a text, in order."""
    if not _has_fence(text):
        return
    tokens: list[Token] = []
    _MARKDOWN.block.parse(text, _MARKDOWN, {}, tokens)
    yield from (token for token in tokens if token.type in ("fence", "inline"))


def unmarked(line: str) -> str:
    """A line without surrounding marks of bold text or code, and without a final full stop."""
    return line.strip(_MARKS).rstrip(".。").strip(_MARKS)
