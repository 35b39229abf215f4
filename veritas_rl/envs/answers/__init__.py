"""Reads replies for every environment: separates thinking and finds the one answer that counts.

`visible_part` removes thinking (`visible.py`), and `one_answer` finds the answer in what is left. `FORMS` is the table
of the forms of an answer, with the sentence in which prompts state which answer counts. The rule:

- A box or an answer mark is the final answer. If there are several, all must say the same.
- A code block, or inline code, is the answer if it is the only one that can be. Of several, these do not count: blocks
  that repeat the question or show a program, and work. Work is whatever stands before code that "Answer:" labels, and
  code with words of its own if other code is announced by words such as "Output:", or a box holds the answer.
- Whatever is left must say the same, otherwise the reply is ambiguous and earns nothing. Words such as "or", "maybe"
  and "draft" before any of the code, and words such as "wait" and "sorry" before the answer or behind it, leave it
  open.

So a list of candidates gains nothing: either it is ambiguous, or exactly one of them counts. LaTeX in an answer is
converted to plain text: `\\text{A}` is A, `\\frac{1}{2}` is ((1)/(2)), `\\times` is *. Answers are never found by
searching for a substring, and every step is linear in the reply's length.
"""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from veritas_rl.envs.answers import parts
from veritas_rl.envs.answers.latex import plain_math
from veritas_rl.envs.answers.parts import Part
from veritas_rl.envs.answers.visible import Regions, Visible, visible, with_fences_alone
from veritas_rl.envs.base import Reason, Reply

MAX_CHARACTERS = 100_000
"""The most characters of a reply; a longer reply is not parsed."""

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Form:
    """A form of an answer.

    Attributes:
        find: Finds all texts of the form.
        rule: The sentence of a prompt, by language, that states which answer counts; empty where only one can exist.
        code: Finds code with the words before it, for forms whose answer is found among work; None for other forms.
    """

    find: Callable[[str], Sequence[str]]
    rule: Mapping[str, str]
    code: Callable[[str], list[Part]] | None = None


_NO_RULE: Mapping[str, str] = {"en": "", "zh": ""}
_WORK_FIRST = {
    "en": 'You may show work in other {these} before it; then write "Answer:" directly before the answer.',
    "zh": "之前可以在其他{these}中写过程;这时请紧挨着答案之前写上“答案:”。",
}

FORMS: Mapping[str, Form] = {
    "box": Form(
        parts.boxes,
        {
            "en": "Several boxes must hold the same answer, otherwise none counts.",
            "zh": "如果有多个 \\boxed{},内容必须相同,否则都不算。",
        },
    ),
    "statement": Form(
        parts.statements,
        {
            "en": "Several such lines must give the same answer, otherwise none counts.",
            "zh": "如果有多行这样的话,内容必须相同,否则都不算。",
        },
    ),
    "block": Form(
        lambda text: [block.text for block in parts.code_blocks(text)],
        {"en": _WORK_FIRST["en"].format(these="code blocks"), "zh": _WORK_FIRST["zh"].format(these="代码块")},
        parts.code_blocks,
    ),
    "inline": Form(
        parts.inline_code,
        {"en": _WORK_FIRST["en"].format(these="backticks"), "zh": _WORK_FIRST["zh"].format(these="反引号")},
        parts.introduced_code,
    ),
    "line": Form(parts.last_line, _NO_RULE),
    "paragraph": Form(parts.last_paragraph, _NO_RULE),
    "text": Form(lambda text: [text], _NO_RULE),
}
"""The forms of an answer, in the order in which they are tried after the form that the prompt asks for."""

_PROGRAM = re.compile(r"(?:python|py|pycon|ipython|java|javascript|js|c|cpp|c\+\+|rust|go)[0-9]*", re.IGNORECASE)
_WORDS = re.compile(r"[^\W\d_]")
_LABEL = re.compile(
    r"[\W\d_]*(?:the |my |so |thus |therefore )*(?:(?:final|correct|complete) )?(?:answer[\W_]*(?:is)?|output)[\W_]*"
    r"|[\W\d_]*(?:最终|正确)?(?:答案(?:是|为)?|输出)[\W_]*",
    re.IGNORECASE,
)
_LABEL_WITHIN = re.compile(r"\s*(?:final )?(?:answer|expression|solution|result|答案)(?: is)?\s*:\s*", re.IGNORECASE)
_ANSWER = re.compile(
    r"\banswers?\b|\b(?:final|full|complete|entire|whole|total) (?:outputs?|results?|solution)\b"
    r"|答案|最终(?:输出|结果)",
    re.IGNORECASE,
)
_RESULT = re.compile(
    r"\b(?:outputs?|prints?|printed|results?|solutions?|completed?|stdout|gives?)\b|输出|打印|结果|解是", re.IGNORECASE
)
_PARTIAL = re.compile(
    r"\b(?:steps?|iterations?|rounds?|so far|partial|intermediate|at this point|lines? [0-9]+|first|second|third|next"
    r"|each|[0-9]+(?:st|nd|rd|th)|loop)\b|步|轮|次|目前|中间",
    re.IGNORECASE,
)
_CANDIDATE = re.compile(
    r"\b(?:maybe|perhaps|possibly|alternative(?:ly)?|options?|candidates?|guess|draft)\b|^\W*(?:or|either)\b.{0,20}$"
    r"|^\W*或.{0,8}$|可能|也许|候选|猜|草稿",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"\b(?:wait|wrong|incorrect|mistaken?|oops|actually|instead|rather|correct(?:ion|ed)|sorry|scratch|retract|meant|ignore"
    r"|never ?mind|second thought|no(?=[,.:;!\u2014])|(?:is|was|are|does|do|did)(?: not|n't))\b|不对|错|抱歉|更正",
    re.IGNORECASE,
)


def visible_part(reply: Reply, most: int = MAX_CHARACTERS) -> Visible | Reason:
    """The visible part of a reply, or the reason why there is none.

    Args:
        reply: Any reply.
        most: The most characters of a reply; a longer reply is not parsed.
    """
    if reply.overlong or len(reply.text) > most:
        return Reason.OVERLONG
    if reply.truncated:
        return Reason.TRUNCATED
    said = visible(reply.text)
    if isinstance(said, str):
        return said if said.strip() else Reason.EMPTY
    return said


def marked(said: Visible) -> list[str] | Reason:
    """The contents of all marks of a final answer: of the boxes, and of answer marks without a box inside."""
    if isinstance(said, str):
        return parts.balanced_boxes(said)
    found = parts.balanced_boxes(said.outside)
    for region in said.inside:
        boxes = parts.balanced_boxes(region)
        if isinstance(boxes, Reason) or isinstance(found, Reason):
            return Reason.UNPARSEABLE
        found += boxes or [region]
    return found


def boxed(reply: Reply, clean: Callable[[str], str] = str.strip, whole: bool = False) -> str | Reason:
    """The content of the box or the answer mark of a reply; several must have equal contents.

    This is the simplest way to read an answer.

    Args:
        reply: Any reply.
        clean: Takes off what does not belong to a content. Contents are compared without it.
        whole: Whether a reply without boxes and answer marks is the answer itself.
    """
    said = visible_part(reply)
    found = said if isinstance(said, Reason) else marked(said)
    if isinstance(found, Reason):
        return found
    if whole and not found and isinstance(said, str):
        found = [said]
    contents = {clean(content) for content in found}
    if len(contents) > 1:
        return Reason.AMBIGUOUS
    return (contents.pop() if contents else "") or Reason.UNPARSEABLE


def one_answer(said: Visible, read: Callable[[str], T | None], asked: str, question: str = "") -> T | Reason:
    """The answer of a reply.

    Args:
        said: The visible part of the reply.
        read: Parses the content of a box, a block or a line, in which LaTeX is already converted. Equal results mean
            equal answers, and None means no answer.
        asked: The form that the prompt asks for, a key of `FORMS`. It is tried first, then the other forms. The form
            "text", the whole reply, is tried only if the prompt asks for it, and for the content of an answer mark.
        question: What the prompt shows; a code block that repeats lines of it does not count beside others.

    Returns:
        The answer in the first form that has one; `AMBIGUOUS` if that form leaves open which answer is meant;
        `UNPARSEABLE` if no form has an answer.
    """

    if isinstance(said, str):
        return _answer_of(said, read, asked, question)

    def inside(text: str) -> T | Reason:
        return _answer_of(text, read, asked, question, parts.unmarked(text.strip()))

    return agreed(said, inside, lambda box: _read_part(box, read))


def _answer_of(
    text: str, read: Callable[[str], T | None], asked: str, question: str, whole: str | None = None
) -> T | Reason:
    """The answer of a text; see `one_answer`.

    Args:
        text: The text.
        read: See `one_answer`.
        asked: See `one_answer`.
        question: See `one_answer`.
        whole: The text without marks of bold text, for the content of an answer mark, which is the whole answer.
    """
    text = with_fences_alone(text)
    for name in (asked, *FORMS):
        if (name == "text" and asked != "text") if whole is None else name in ("line", "paragraph"):
            continue
        form = FORMS[name]
        texts = form.find(text) if name != "text" or whole is None else (whole,)
        boxes = parts.boxes(parts.prose(text)) if form.code and "\\boxed" in text else ()
        found = {answer for part in (*texts, *boxes) if (answer := _read_text(part, read)) is not None}
        if len(found) == 1:
            (answer,) = found
            return Reason.AMBIGUOUS if _is_denied(answer, text, name, read) else answer
        if found and form.code:
            given = [*form.code(text), *(Part(box, marked=True) for box in boxes)]
            return settled(given, lambda part: _read_part(part, read), question) or Reason.UNPARSEABLE
        if found:
            return Reason.AMBIGUOUS
    return Reason.UNPARSEABLE


def _is_denied(answer: T, text: str, form: str, read: Callable[[str], T | None]) -> bool:
    """Whether a statement behind the last box or block gives another answer."""
    if form not in ("box", "block"):
        return False
    said = text[max(text.rfind("\\boxed"), text.rfind("```") + 3) :]
    if "nswer" not in said and "答案" not in said:
        return False
    others = (_read_text(statement, read) for statement in parts.statements(said))
    return any(other not in (None, answer) for other in others)


def _read_text(text: str, read: Callable[[str], T | None]) -> T | None:
    """Parse a text, also behind a label such as "Answer:"."""
    plain = plain_math(text)
    answer = read(plain)
    if answer is None and (label := _LABEL_WITHIN.match(plain)):
        answer = read(plain[label.end() :])
    return answer


def _read_part(part: Part, read: Callable[[str], T | None]) -> T | None:
    return _read_text(parts.unmarked(part.text) if part.marked else part.text, read)


def agreed(said: Regions, answer_of: Callable[[str], T | Reason], read: Callable[[Part], T | None]) -> T | Reason:
    """The answer that all answer marks of a reply give, and the boxes beside them.

    Args:
        said: The visible part of the reply.
        answer_of: Reads the content of an answer mark.
        read: Reads a box.
    """
    found = {answer_of(text) for text in said.inside}
    beside = parts.balanced_boxes(said.outside)
    boxes = [] if isinstance(beside, Reason) else [Part(box, marked=True) for box in beside]
    found |= {answer for box in boxes if (answer := read(box)) is not None}
    return found.pop() if len(found) == 1 else Reason.AMBIGUOUS


def settled(found: Sequence[Part], read: Callable[[Part], T | None], question: str = "") -> T | Reason | None:
    """The answer that counts among code and boxes; None if none can be read, `AMBIGUOUS` if it is left open.

    Args:
        found: The code and the boxes.
        read: Parses one of them, see `one_answer`.
        question: See `one_answer`.
    """
    if len(found) == 1:
        return read(found[0])
    answers = [(part, answer) for part in found if (answer := read(part)) is not None]
    shown = _bare_lines(question)
    for counts in (
        lambda part: not _repeats(part, shown),
        lambda part: not _PROGRAM.fullmatch(part.info.split(" ")[0]),
    ):
        if len({answer for _, answer in answers}) > 1:
            answers = [(part, answer) for part, answer in answers if counts(part)] or answers
    if len({answer for _, answer in answers}) > 1:
        answers = _final(answers)
    different = {answer for _, answer in answers}
    return different.pop() if len(different) == 1 else Reason.AMBIGUOUS if different else None


def _final(answers: list[tuple[Part, T]]) -> list[tuple[Part, T]]:
    """The answers among several different ones that may be meant as the final one."""
    ranks = [_rank(part) for part, _ in answers]
    top = max(ranks)
    if top < _OUTPUT or any(_CANDIDATE.search(part.before) for part, _ in answers):
        return answers
    if any(part.marked for part, _ in answers):
        return [pair for pair, rank in zip(answers, ranks, strict=True) if rank != _WORK]
    first = ranks.index(top)
    if any(_TAKEN_BACK.search(part.before) for part, _ in answers[first:]):
        return answers
    before = [] if top == _LABELLED else [pair for pair, rank in zip(answers, ranks, strict=True) if rank == _SILENT]
    behind = [pair for pair, rank in zip(answers[first:], ranks[first:], strict=True) if rank != _WORK]
    return before + behind


_SILENT, _WORK, _OUTPUT, _ANNOUNCED, _LABELLED = range(5)


def _rank(part: Part) -> int:
    """How much the form of a part and the words before it make it the answer."""
    if part.marked or _LABEL.fullmatch(part.before):
        return _LABELLED
    if _ANSWER.search(part.before):
        return _ANNOUNCED
    if part.info.lower() in ("output", "stdout") or (_RESULT.search(part.before) and not _PARTIAL.search(part.before)):
        return _OUTPUT
    return _WORK if _WORDS.search(part.before) else _SILENT


def announced(part: Part) -> bool:
    """Whether a part is given as the answer, by its form or by the words before it."""
    return _rank(part) >= _OUTPUT


def _repeats(part: Part, shown: str) -> bool:
    """Whether a block shows consecutive lines of the question (as `_bare_lines`)."""
    return _bare_lines(part.text.strip()) in shown


def _bare_lines(text: str) -> str:
    """The lines of a text without white space around them, each between two line breaks."""
    return "\n".join(["", *map(str.strip, text.split("\n")), ""])
