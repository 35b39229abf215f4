"""Hostile replies of all environments: marks of thinking and of turns around their parts."""

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

import pytest

T = TypeVar("T")
Disguise = Callable[[Random, Sequence[T], Callable[[T], str]], tuple[str, list[T]]]

THINKING = (
    *(("<think>", "</think>"), ("<THINK>", "</think>"), ("<thinking>", "</thinking>"), ("<thought>", "</thought>")),
    *(("<seed:think>", "</seed:think>"), ("<reasoning>", "</reasoning>"), ("[THINK]", "[/THINK]")),
    *(("\u25c1think\u25b7", "\u25c1/think\u25b7"), ("<|channel>thought\n", "<channel|>")),
    *(("<|START_THINKING|>", "<|END_THINKING|>"), ("<think a='1'>", "</think>"), ("<unused94>", "<unused95>")),
)
ENDS = (
    "<|im_end|>",
    "</s>",
    "<|eot_id|>",
    "<end_of_turn>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "[EOS]",
    "<|return|>",
)


def disguised(random: Random, parts: Sequence[T], text_of: Callable[[T], str]) -> tuple[str, list[T]]:
    """A reply that hides some of its parts by the marks of a model family.

    Args:
        random: The random generator.
        parts: The parts, without marks, backticks and tildes.
        text_of: The text of a part.

    Returns:
        The reply, and the parts that are visible, found from how the reply is made and without reading it.
    """
    one, two = sorted(random.randrange(len(parts) + 1) for _ in range(2))
    first, middle, last = list(parts[:one]), list(parts[one:two]), list(parts[two:])
    texts = ["".join(map(text_of, some)) for some in (first, middle, last)]
    opening, closing = random.choice(THINKING)
    end = random.choice(ENDS)
    match random.randrange(10):
        case 0:
            return f"{texts[0]}{opening}{texts[1]}{closing}{texts[2]}", first + last
        case 1:
            return f"{texts[0]}{opening}{texts[1]}{texts[2]}", first
        case 2:
            return f"{texts[0]}{closing}{texts[1]}{texts[2]}{end}", middle + last
        case 3:
            return f"{opening}{texts[0]}{closing}{texts[1]}{closing}{texts[2]}", middle + last
        case 4:
            return f"{opening}{texts[0]}{opening}{texts[1]}{closing}{closing}{texts[2]}", last
        case 5:
            message = (
                f"<|channel|>analysis<|message|>{texts[0]}<|end|><|start|>assistant<|channel|>commentary<|message|>"
            )
            return f"{message}{texts[1]}<|end|><|start|>assistant<|channel|>final<|message|>{texts[2]}<|return|>", last
        case 6:
            return f"analysisA {texts[0]}{texts[1]}assistantfinal{texts[2]}", last
        case 7:
            return f"Here is my thought process: {texts[0]} Here is my response: {texts[1]}{texts[2]}", middle + last
        case 8:
            return f"A {texts[0]}{texts[1]}{end}\n<|im_start|>assistant\n{texts[2]}", first + middle
        case _:
            return f"<|im_start|>assistant\n{''.join(texts)}{end}", list(parts)


@pytest.fixture
def disguise() -> Disguise[object]:
    """`disguised`."""
    return disguised


@pytest.fixture
def fuzzed_replies(request: pytest.FixtureRequest) -> int:
    """The number of hostile replies to read, the option `--fuzzed-replies`."""
    return int(request.config.getoption("--fuzzed-replies") or 0)
