"""Makes replies that must never pay: empty replies, noise, several answers, near misses of legal answers."""

import re
from collections.abc import Iterator, Sequence

from veritas_rl.envs.base import Reply, Turn
from veritas_rl.seeding import generator

HUGE = 1_000_000
"""The length of a reply that is longer than any answer can be."""
MOST_NEAR_MISSES = 6

_BOX = re.compile(r"\\boxed\{(.*)\}", re.DOTALL)
_OTHER_DIGITS = str.maketrans("0123456789", "\uff10\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18\uff19")


def hostile(turn: Turn, spellings: Sequence[str]) -> Iterator[tuple[str, Reply]]:
    """Replies that must pay nothing, each with its name.

    Args:
        turn: The turn whose prompt is echoed and whose answers are changed.
        spellings: All documented replies that are legal answers; empty if they cannot be listed.
    """
    random = generator("hostile", turn.seat, *turn.dice)
    prompt = "\n".join(message["content"] for message in turn.messages)
    yield "an empty answer", Reply("")
    yield "white space", Reply(" \n\t\u00a0")
    yield "noise", Reply("".join(chr(random.randrange(32, 0x3000)) for _ in range(300)))
    yield "null characters", Reply("\x00" * 20)
    yield "lone surrogates", Reply("\ud800\\boxed{\ud800}")
    yield "a huge answer", Reply("x" * HUGE)
    yield "an empty box", Reply("\\boxed{}")
    yield "the prompt", Reply(prompt)
    right = turn.answers or ((turn.solution,) if turn.solution else ())
    if right:
        first, last = right[0], right[-1]
        yield "a truncated answer", Reply(first, truncated=True)
        yield "an answer that is only thought", Reply(f"<think>{first}")
        yield "a huge legal answer", Reply(first + " " * HUGE)
        if len(right) > 1:
            yield "two answers", Reply(f"{first} {last}")
            yield "all legal answers", Reply("\n".join(turn.answers))
    inside = inside_of(spellings)
    if inside:
        yield from _boxes(inside, prompt)


def inside_of(spellings: Sequence[str]) -> list[str]:
    """The content of each reply that is a single box."""
    return [match[1] for spelling in spellings if (match := _BOX.fullmatch(spelling))]


def _boxes(inside: Sequence[str], prompt: str) -> Iterator[tuple[str, Reply]]:
    """Replies with a wrong box, or without the required box."""
    known = {said.casefold() for said in inside}

    def boxed(said: str) -> Reply:
        return Reply(f"\\boxed{{{said}}}")

    yield "an answer without its box", Reply(inside[0])
    yield "a box that is not closed", Reply(f"\\boxed{{{inside[0]}")
    yield "the prompt in a box", boxed(prompt)
    yield "a huge number", boxed("9" * 50_000)
    if len(inside) > 2:  # the first two are the same answer, by number and by name
        for mark in (", ", " ", "\n"):
            yield "all legal answers in one box", boxed(mark.join(inside))
    numbers = [said for said in inside if said.isascii() and said.isdigit()]
    if numbers:
        yield "a number out of range", boxed("-1")
        yield "a number out of range", boxed(str(max(map(int, numbers)) + 1_000))
        yield "digits of another script", boxed(numbers[-1].translate(_OTHER_DIGITS))
        if (fraction := f"{numbers[-1]}.0") not in known:
            yield "a number with a point", boxed(fraction)
    # Near misses contain a legal answer or are a part of one, but are not legal. Two changes are excluded because the
    # answer may stay legal: a zero before a number, and the removal of a final sign, such as the sign for check.
    near = [changed for said in inside for changed in (said + "0", "9" + said, said[1:])]
    near += [said[:-1] for said in inside if said[-1:].isalnum()]
    near = [said.strip() for said in dict.fromkeys(near)]
    near = [said for said in near if said and not {said.casefold(), said.lstrip("0") or "0"} & known]
    for said in near[:: max(1, len(near) // MOST_NEAR_MISSES)][:MOST_NEAR_MISSES]:
        yield "a near miss", boxed(said)
