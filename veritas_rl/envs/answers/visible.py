"""Separates the visible part of a reply from its thinking, for all model families.

`FAMILIES` lists the marks of each family. A mark inside a code block or inline code is a part of the text and not a
mark, so a program that prints `<think>` can be answered. The rules:

- Thinking ends at the closing mark of the same kind. Marks of one kind may be nested. An unclosed thinking lasts to the
  end of the reply.
- A closing mark without an opening one ends thinking that the prompt opened: all text before it is thinking. After an
  earlier thinking it is ignored.
- Of a reply in channels (gpt-oss) only the final channel is visible, with and without its special tokens.
- An answer mark, such as `<answer>`, encloses a region: the complete answer of the reply. Without its closing mark it
  lasts to the end.
- A mark of the end of a turn ends the reply.

The scan also moves code fences that share a line with other text to lines of their own, so that CommonMark reads them
as meant. Its work is linear in the reply's length.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from veritas_rl.envs.answers.parts import has_fence

FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "Qwen3, QwQ, DeepSeek, GLM 4.5, Kimi K2, MiniMax M2, Nemotron, Olmo 3, Step 3, Phi-4, MiMo, HY 3, Holo2": (
            "<think>...</think>; the prompt may open it"
        ),
        "Hunyuan A13B": "<think>...</think><answer>...</answer>",
        "ERNIE 4.5": "<think>...</think><response>...</response>",
        "Seed-OSS": "<seed:think>...</seed:think>",
        "MiniMax M3": "<mm:think>...</mm:think>",
        "LongCat": "<longcat_think>...</longcat_think>",
        "EXAONE Deep": "<thought>...</thought>",
        "Reka Flash": "<reasoning>...</reasoning>",
        "Kimi-VL": "\u25c1think\u25b7...\u25c1/think\u25b7",
        "Magistral": "[THINK]...[/THINK]",
        "gpt-oss": "<|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...<|return|>",
        "Gemma 4": "<|channel>thought...<channel|>",
        "MedGemma": "<unused94>thought...<unused95>",
        "Command A": "<|START_THINKING|>...<|END_THINKING|><|START_RESPONSE|>...<|END_RESPONSE|>",
        "Apertus": "<|inner_prefix|>...<|inner_suffix|>",
        "OpenThinker, Sky-T1": "<|begin_of_thought|>...<|end_of_thought|><|begin_of_solution|>...<|end_of_solution|>",
        "GLM 4.5V": "<think>...</think>...<|begin_of_box|>...<|end_of_box|>",
        "Granite 3": "Here is my thought process: ... Here is my response: ...",
    }
)
"""The model families with known marks, and their marks. Tags are read in any case."""

_THINKING_TAG = "think|thinking|thoughts?|reasoning|reflection|analysis|scratchpad|longcat_think"
_ANSWER_TAG = "(?:final_?)?answer|response|solution|output"
_THINKING = MappingProxyType(
    {
        "\u25c1think\u25b7": "\u25c1/think\u25b7",
        "[THINK]": "[/THINK]",
        "<|channel>": "<channel|>",
        "<unused94>": "<unused95>",
        "<|START_THINKING|>": "<|END_THINKING|>",
        "<|inner_prefix|>": "<|inner_suffix|>",
        "<|begin_of_thought|>": "<|end_of_thought|>",
    }
)
_ANSWER = MappingProxyType(
    {
        "<|begin_of_solution|>": "<|end_of_solution|>",
        "<|begin_of_box|>": "<|end_of_box|>",
        "<|START_RESPONSE|>": "<|END_RESPONSE|>",
        "<|START_TEXT|>": "<|END_TEXT|>",
    }
)
_TURN = (
    *("<s>", "</s>", "<bos>", "<eos>", "[EOS]", "<start_of_turn>", "<end_of_turn>", "<|turn>", "<turn|>"),
    *("[|assistant|]", "[|endofturn|]", "<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>"),
    *(f"<\uff5c{which}\u2581of\u2581sentence\uff5c>" for which in ("begin", "end")),
    *(f"<|{name}|>" for name in ("im_start", "im_end", "endoftext", "begin_of_text", "end_of_text", "start_header_id")),
    *(f"<|{name}|>" for name in ("eot_id", "eom_id", "start", "end", "return", "call", "user", "assistant", "eos")),
    *(f"<|{name}|>" for name in ("assistant_end", "observation", "hy_eos", "end_of_sentence", "start_of_role")),
    *(f"<|{which}_OF_TURN_TOKEN|>" for which in ("START", "END")),
)
"""Marks of the start and the end of a turn."""

_ATTRIBUTES = r"(?:[ \t][^<>\n]{0,200})?"
# Each alternative begins with a sign, so that the search skips text without these signs fast.
_MARK = re.compile(
    rf"<(?P<shut>/?)(?i:(?P<tag>(?:[a-z][a-z0-9]{{0,15}}:)?(?:{_THINKING_TAG}|{_ANSWER_TAG}))){_ATTRIBUTES}>"
    rf"|{'|'.join(map(re.escape, (*_THINKING, *_THINKING.values(), *_ANSWER, *_ANSWER.values(), *_TURN)))}"
)
_TAG_OR_TOKEN = re.compile("<[A-Za-z/|\uff5c]")
_STEP = re.compile(rf"`(?<!``)(?P<more>`{{0,2}})(?P<code>[^`\n]+)`(?P=more)(?!`)|```+|~~~+|{_MARK.pattern}")
_END_OF_THINKING = re.compile(rf"(?i)</(?:[a-z][a-z0-9]{{0,15}}:)?(?:{_THINKING_TAG})>")
_IS_ANSWER_TAG = re.compile(rf"(?i:(?:.*:)?(?:{_ANSWER_TAG}))")
_CONTAINER = re.compile(r"[ \t]*(?:(?:>|[-*+]|[0-9]{1,9}[.)])[ \t]*)*")
_QUOTE = re.compile(r"[ \t>]*")
LONGEST_PREFIX = 300
"""The most characters of a line before a fence that are compared with its indentation."""
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)*")
_INFO = re.compile(r"[ \t]*(?:[A-Za-z]|\{\.)")
_ROLE = re.compile(r"(?:assistant|model)?(?:<\|end_header_id\|>|<\|end_of_role\|>)?\s*")

_CHANNEL = re.compile(
    r"(?:\A\s*|<\|start\|>assistant[^<\n]{0,40})<\|channel\|>\s*(\w*)[^<]{0,80}(?:<\|constrain\|>[^<]{0,80})?"
)
_MESSAGE = "<|message|>"
_HARMONY = ("<|start|>", "<|channel|>", "<|constrain|>", _MESSAGE, "<|end|>")
_MESSAGE_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>")
_BARE_ANALYSIS = re.compile(r"\s*analysis(?=[^ \w]|[A-Z])")
_BARE_FINAL = "assistantfinal"
_THOUGHT_PROCESS = re.compile(r"\s*Here(?: is|'s) my thought process:")
_RESPONSE = re.compile(r"Here(?: is|'s) my response:")


@dataclass(frozen=True)
class Regions:
    """The visible part of a reply with answer marks.

    Attributes:
        inside: The contents of the answer marks, in order.
        outside: The text outside of them.
    """

    inside: tuple[str, ...]
    outside: str


Visible = str | Regions
"""The visible part of a reply: a text, or the parts of a reply with answer marks."""


def is_mark(token: str) -> bool:
    """Whether the text of a token is a mark that the reading of a reply needs, and not just an end of a turn."""
    return token in _HARMONY or bool(token not in _TURN and _MARK.fullmatch(token))


def visible(text: str) -> Visible:
    """The visible part of a reply of any length."""
    if text[:1] in "aH \t\r\n" or ("<" in text and _MESSAGE in text):
        text = _last_part(text)
    # Most replies have none of these signs, and most others no mark.
    if ("<" not in text and "[" not in text and "\u25c1" not in text) or not _may_have_marks(text):
        return text
    if text.startswith("<think>"):
        # The most common case: thinking alone, and nothing else that a mark could be.
        thought, _, said = text.partition("</think>")
        if thought.find("<think", 1) < 0 and "</" not in thought and not _MARK.search(said):
            return said[_behind(_BLANK_LINES, said, 0) :]
    return _Scan(text).result if _MARK.search(text) else text


def _may_have_marks(text: str) -> bool:
    """Whether a text may have marks; a fast test, which is false for most texts with mathematics."""
    if "<" in text and _TAG_OR_TOKEN.search(text):
        return True
    if "[" in text and ("THINK]" in text or "[|" in text or "[EOS]" in text):
        return True
    return "\u25c1" in text


def with_fences_alone(text: str) -> str:
    """A visible text in which each fence of code stands on a line of its own."""
    if not has_fence(text):
        return text
    scan = _Scan(text, marks=False)
    assert isinstance(scan.result, str)
    return scan.result


def _last_part(text: str) -> str:
    """The part of a reply after thinking that is marked by words or channels."""
    if _THOUGHT_PROCESS.match(text):
        said = _RESPONSE.search(text)
        return text[said.end() :] if said else ""
    if text.lstrip().startswith("analysis") and (_BARE_FINAL in text or _BARE_ANALYSIS.match(text)):
        return text.partition(_BARE_FINAL)[2]
    if _MESSAGE not in text:
        return text
    final: list[str] = []
    known = False
    for header in _CHANNEL.finditer(text):
        if not text.startswith(_MESSAGE, header.end()):
            continue
        known = True
        if header[1] == "final":
            start = header.end() + len(_MESSAGE)
            end = _MESSAGE_END.search(text, start)
            final.append(text[start : end.start() if end else len(text)])
    return "\n".join(final) if known else text


class _Scan:
    """One pass over a reply.

    Attributes:
        result: The visible part.
    """

    def __init__(self, text: str, marks: bool = True) -> None:
        self._text = text = text.replace("\r\n", "\n")
        self._marks = marks
        self._kept: list[str] = []
        self._outside: list[str] = []
        self._regions: list[str] = []
        self._in_region = False
        self._seen = False
        self._thought = False
        self._line = ""
        """The beginning of the current line."""
        self._hidden_end = -1
        """The place behind the last mark inside a code block that may be the end of thinking."""
        self._unclosed: dict[str, int] = {}
        """By the sign of a fence, the length for which no closing fence follows."""
        place = 0
        while place >= 0:
            place = self._step(place)
        self._end_part()
        outside = "\n".join(self._outside)
        self.result: Visible = Regions(tuple(self._regions), outside) if self._regions else outside

    def _step(self, place: int) -> int:
        """Keep the text up to the next mark or code; return the place behind it, or -1 at the end of the reply."""
        text = self._text
        found = _STEP.search(text, place)
        if found is None:
            self._keep(text[place:])
            return -1
        self._keep(text[place : found.start()])
        token, tag = found[0], found["tag"]
        if found["code"]:
            return self._inline(found)
        if token[0] in "`~":
            return self._block(found)
        if not self._marks:
            self._keep(token)
            return found.end()
        if token in _TURN:
            if self._seen:
                return -1
            return _behind(_ROLE, text, found.end())
        opens = not found["shut"] if tag else token in _THINKING or token in _ANSWER
        if _IS_ANSWER_TAG.fullmatch(tag) if tag else token in _ANSWER or token in _ANSWER.values():
            if opens and self._in_region:
                self._kept = []  # an opening mark without its end was only mentioned
            elif opens or self._in_region:
                self._end_part()
            self._in_region = opens
        elif opens:
            self._thought = True
            place = _end_of_thinking(text, found)
            self._keep("\n" if self._seen and place < len(text) else "")
            return _behind(_BLANK_LINES, text, place)
        elif not self._thought:
            self._forget()
        return _behind(_BLANK_LINES, text, found.end())

    def _keep(self, part: str) -> None:
        """Add to the visible text."""
        if part:
            self._kept.append(part)
            self._seen = self._seen or not part.isspace()
            line = part[part.rfind("\n") + 1 :]
            self._line = (line if len(line) < len(part) else self._line + part)[:LONGEST_PREFIX]

    def _end_part(self) -> None:
        """End a region, or the text before or behind a region."""
        text = "".join(self._kept)
        self._kept = []
        if not self._in_region:
            self._outside.append(text)
        elif text.strip():
            self._regions.append(text)

    def _forget(self) -> None:
        """Take all text up to here as thinking."""
        self._kept, self._outside, self._regions = [], [], []
        self._in_region, self._seen, self._thought = False, False, True
        self._unclosed = {}

    def _inline(self, found: re.Match[str]) -> int:
        """Keep inline code. Code between three backticks that fills its line becomes a block."""
        fills = self._text[found.end() : found.end() + 1] in ("", "\n") and _CONTAINER.fullmatch(self._line)
        self._keep(f"```\n{found['code']}\n```" if len(found["more"]) == 2 and fills else found[0])
        return found.end()

    def _block(self, found: re.Match[str]) -> int:
        """Keep a code block, with each fence on a line of its own."""
        text, line, fence = self._text, self._line, found[0]
        end_of_line = text.find("\n", found.end())
        opened = len(text) if end_of_line < 0 else end_of_line
        info = text[found.end() : opened]
        if "`" in info if fence[0] == "`" else not _CONTAINER.fullmatch(line):
            self._keep(fence)  # no fence in CommonMark
            return found.end()
        closing = self._closing(fence, opened)
        if closing is None:
            if not self._thought and self._hidden_end >= 0:
                # Fences do not pair up: a fence before the end of thinking has no partner.
                self._forget()
                return self._hidden_end
            mark = _MARK.search(text, found.end()) if self._marks else None
            self._marks = mark is not None
            ends = mark.start() if mark else len(text)
            if not text[found.end() : ends].strip():
                return found.end()
        else:
            ends = closing.start("run" if closing["run"] else "tail")
            for mark in _MARK.finditer(text, opened, ends) if self._marks else ():
                if mark["shut"] or mark[0] in _THINKING.values():
                    self._hidden_end = mark.end()
        opened = min(opened, ends)
        info, inside = text[found.end() : opened], text[opened:ends]
        if closing and closing["run"]:
            prefix = closing["prefix"]
            inside = inside.removesuffix(prefix)
        else:
            prefix = line[: _behind(_QUOTE, line, 0)]
        if info.strip() and not _INFO.match(info):
            info, inside = "", f"\n{info}{inside}"  # the block begins on the line of its fence
        inside = _without_prefix(inside, prefix)
        self._keep("\n" if line else "")
        self._keep(f"{fence}{info}{inside}{'' if inside.endswith(chr(10)) else chr(10)}{fence}\n")
        return closing.end() if closing else ends

    def _closing(self, fence: str, place: int) -> re.Match[str] | None:
        """The closing fence of a block from a place on."""
        if len(fence) >= self._unclosed.get(fence[0], len(self._text) + 1):
            return None
        found = _closing_fence(fence[0], len(fence)).search(self._text, place)
        if found is None:
            self._unclosed[fence[0]] = len(fence)
        return found


def _behind(pattern: re.Pattern[str], text: str, place: int) -> int:
    """The place behind a pattern that may be empty."""
    found = pattern.match(text, place)
    return found.end() if found else place


def _without_prefix(text: str, prefix: str) -> str:
    """The lines of a block without the marks of quotes and the indentation of its fence."""
    quotes = prefix.count(">")
    indent = len(prefix) - prefix.rfind(">") - 1
    if not quotes and not indent:
        return text
    # One space belongs to the mark of a quote.
    marks = re.compile(rf"^(?:[ \t]*> ?){{0,{quotes}}}[ \t]{{0,{max(indent - (quotes > 0), 0)}}}", re.MULTILINE)
    return marks.sub("", text)


@lru_cache(maxsize=64)
def _closing_fence(sign: str, length: int) -> re.Pattern[str]:
    """Closing fences: on a line of their own, followed by text that is no language, or behind the last line."""
    run = rf"{sign}{{{length},}}"
    alone = rf"(?P<prefix>^[ \t>]*)(?P<run>{run})(?![\w{sign}{{+#-]|\.\w)"
    behind_text = rf"|(?<!`)(?P<tail>{run})(?=[ \t]*(?:$|[<\[\u25c1]))" if sign == "`" else ""
    return re.compile(alone + behind_text, re.MULTILINE)


def _end_of_thinking(text: str, opening: re.Match[str]) -> int:
    """The place behind the end of thinking; the end of the text if it is unclosed."""
    depth, last = 1, -1
    for mark in _kind(opening["tag"].lower() if opening["tag"] else opening[0]).finditer(text, opening.end()):
        depth += -1 if mark["shut"] else 1
        if mark["shut"]:
            last = mark.end()
        if not depth:
            break
    if last < 0 and opening["tag"] and (other := _END_OF_THINKING.search(text, opening.end())):
        return other.end()
    return last if last >= 0 else len(text)


@lru_cache(maxsize=64)
def _kind(mark: str) -> re.Pattern[str]:
    """The marks of the same kind as an opening mark."""
    if mark in _THINKING:
        return re.compile(f"{re.escape(mark)}|(?P<shut>{re.escape(_THINKING[mark])})")
    return re.compile(rf"<(?P<shut>/)?{re.escape(mark)}{_ATTRIBUTES}>", re.IGNORECASE)
