"""Finds the parts of a text that may hold an answer: boxes, code, statements, lines.

Code blocks and paragraphs are those of CommonMark, found by markdown-it-py. Every step is linear in the text's length.
"""

import re
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from veritas_rl.envs.base import Reason

BOX = "\\boxed{"

_BOX = re.compile(r"\\boxed\s{0,4}\{")
_BRACE = re.compile(r"[{}]")
_CLOSING = re.compile(r"\}+")
_INLINE = re.compile(r"`(?<!``)(`{0,2})([^`\n]+)`\1(?!`)")
_STATEMENT = re.compile(
    r"(?:\banswers?(?:[ \t]+(?:is|are)\b|[*_]*[ \t]*[:=\uff1a])|答案[*_]*(?:是|为|[ \t]*[:\uff1a]))[ \t]*[:\uff1a]?",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^[#*_ \t]*(?:(?:[Ff]inal )?[Aa]nswer|(?:最终)?答案)[*_ \t]*$", re.MULTILINE)
_CONNECTOR = re.compile(r"[\W_]*(?:(?:and|as well as|versus|vs|以及|和)[\W_]*)?", re.IGNORECASE)
_MARKS = " \t\r*`"
_SENTENCE_END = re.compile(r"[.!](?=[\s*_)]|$)|。")
LONGEST_WORDS = 200
"""The most characters of the words before code."""
_FORMULA_ENDS = ("\\]", "$$")
# Indented code is text here, and a fence may be indented by any width. Marks such as <answer> are no HTML.
_MARKDOWN = MarkdownIt("commonmark").disable(["code", "html_block", "lheading", "reference"])


class Part(NamedTuple):
    """Code or a box, which may be an answer.

    Attributes:
        text: Its content.
        before: The words that introduce it: the end of the last line of text before a block, or of the part of its line
            before inline code.
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
    while (start := text.find("\\boxed", place)) >= 0:
        opening = _BOX.match(text, start)
        if opening is None:
            place = start + 1
            continue
        if outside or text.find("{", place, start) >= 0:
            for brace in _BRACE.finditer(text, place, start):
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


def boxes(text: str) -> list[str]:
    """The contents of the boxes of a text, without marks of bold text or code; none if a box is not closed."""
    found = balanced_boxes(text) if "\\boxed" in text else []
    return [] if isinstance(found, Reason) else [unmarked(said) for said in found]


def code_blocks(text: str) -> list[Part]:
    """The code blocks of a text whose fences stand alone. An unclosed block ends with the text."""
    blocks: list[Part] = []
    before = ""
    for token in _blocks_and_paragraphs(text):
        if token.type == "fence":
            blocks.append(Part(token.content, before, token.info.strip()))
        else:
            last = next((line for line in reversed(token.content.split("\n")) if line.strip()), before)
            before = "" if _BOX.search(last) else last[-LONGEST_WORDS:]
    return blocks


def prose(text: str) -> str:
    """A text without its code blocks; "[code]" stands for each."""
    if not has_fence(text):
        return text
    found = _blocks_and_paragraphs(text)
    return "\n\n".join("[code]" if token.type == "fence" else token.content for token in found)


def inline_code(text: str) -> list[str]:
    """The contents of the inline code of a text."""
    return [code[2] for code in _INLINE.finditer(prose(text))] if "`" in text else []


def introduced_code(text: str) -> list[Part]:
    """The inline code of a text, with the words before it."""
    found: list[Part] = []
    above = ""
    for line in prose(text).split("\n"):
        place = 0
        for code in _INLINE.finditer(line):
            between = line[place : code.start()]
            # "`A` and `B`" are introduced by the same words.
            above = above if _CONNECTOR.fullmatch(between) else between[-LONGEST_WORDS:]
            found.append(Part(code[2], above))
            place = code.end()
        above = line[place:][-LONGEST_WORDS:] if line[place:].strip() else above
    return found


def statements(text: str) -> list[str]:
    """The answers that a text states, each up to the end of the sentence or line.

    A statement at the end of its line, and a heading such as "Final answer", introduce the next line.
    """
    said = prose(text)
    # A statement ends where the next statement begins: "Answer: the answer is 5" states 5.
    starts = [*_STATEMENT.finditer(said)]
    if "nswer\n" in said or "nswer*" in said or "答案\n" in said or "答案*" in said:
        starts = sorted([*starts, *_HEADING.finditer(said)], key=re.Match.end)
    if not starts:
        return []
    ends = [*(start.start() for start in starts[1:]), len(said)]
    following = (said[start.end() : end].lstrip(_MARKS + "\n") for start, end in zip(starts, ends, strict=True))
    return [unmarked(_SENTENCE_END.split(text.split("\n", 1)[0], maxsplit=1)[0]) for text in following]


def last_line(text: str) -> list[str]:
    """The last non-empty line, as a list of at most one."""
    lines = (line for line in reversed(text.split("\n")) if line.strip() and line.strip() not in _FORMULA_ENDS)
    return [unmarked(line) for line in islice(lines, 1)]


def last_paragraph(text: str) -> list[str]:
    """The last lines back to an empty line, as a list of at most one."""
    lines = takewhile(str.strip, reversed(text.rstrip().split("\n")))
    return ["\n".join(reversed(list(lines)))]


def unmarked(line: str) -> str:
    """A line without surrounding marks of bold text or code, and without a final full stop."""
    return line.strip(_MARKS).rstrip(".。").strip(_MARKS)


def has_fence(text: str) -> bool:
    """Whether a text may have code blocks."""
    # A search for one sign is the fastest.
    return ("`" in text and "```" in text) or ("~" in text and "~~~" in text)


def _blocks_and_paragraphs(text: str) -> Iterator[Token]:
    """The code blocks and the paragraphs and headings of a text, in order."""
    if has_fence(text):
        tokens: list[Token] = []
        _MARKDOWN.block.parse(text, _MARKDOWN, {}, tokens)
        yield from (token for token in tokens if token.type in ("fence", "inline"))
