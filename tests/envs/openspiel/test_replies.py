"""Replies are read as meant: `replies/` has right and wrong ways to write answers for each game with a description.

`replies/GAME.jsonl` has positions of a game, then the meaning of boxes in them: the name of a legal action, or null if
no action may be accepted. `replies/any_game.jsonl` has ways for every game; <name> and <number> are placeholders for a
legal action, <other> and <other number> for a different legal action, <unused> for a number that no legal action has.

Hostile replies combine these ways with thinking and noise. `--fuzzed-replies N` reads N hostile replies, such as
3000000 before a release.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.envs.base import Reason, Reply
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import GAMES, State
from veritas_rl.envs.openspiel.parsing import read_action
from veritas_rl.envs.openspiel.playing import replay
from veritas_rl.envs.openspiel.session import OpenSpielSession
from veritas_rl.envs.openspiel.task import OpenSpielManner, OpenSpielTask

FOLDER = Path(__file__).with_name("replies")
FEWEST = 200
"""The least number of ways to write answers that are written down for each game, right and wrong ones together."""


@dataclass(frozen=True)
class Position:
    """A position in which a reply is read.

    Attributes:
        case: The case.
        history: OpenSpiel's actions that lead to the position.
        seat: The seat that replies.
    """

    case: str
    history: tuple[int, ...]
    seat: int

    @cached_property
    def state(self) -> State:
        return replay(load(self.case), self.history)

    @cached_property
    def names(self) -> dict[int, str]:
        return load(self.case).action_names(self.state, self.seat)

    def read(self, reply: Reply) -> int | Reason:
        game = load(self.case)
        return read_action(reply, game, self.state, self.seat, game.listed(self.names))


@dataclass(frozen=True)
class Way:
    """A reply, and the action that it means; None if the reply must not be accepted."""

    position: Position
    reply: str
    means: int | None


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


@cache
def positions_of(game: str) -> list[Position]:
    rows = [row for row in lines(game) if "case" in row]
    return [Position(row["case"], tuple(map(int, row["history"].split())), row["seat"]) for row in rows]


def own_ways(game: str) -> Iterator[Way]:
    """The ways in the game's file."""
    for row in lines(game):
        if "case" in row:
            continue
        position = positions_of(game)[row["position"]]
        actions = {name: action for action, name in position.names.items()}
        for box in row["boxes"]:
            yield Way(position, f"\\boxed{{{box}}}", None if row["means"] is None else actions[row["means"]])


@cache
def shared_replies() -> dict[str, bool]:
    """The replies for every game, with placeholders, and whether each is right."""
    rows = lines("any_game")
    return {row["reply"] if "reply" in row else f"\\boxed{{{row['box']}}}": row["right"] for row in rows}


def shared_ways(game: str) -> Iterator[Way]:
    """The ways for every game, with the first and the last legal action of each position."""
    numbered = load(positions_of(game)[0].case).number
    for position in positions_of(game):
        names = position.names
        for action, other in ((min(names), max(names)), (max(names), min(names))):
            number, other_number = numbered(action), numbered(other)
            unused = next(n for n in range(7, 10_000, 11) if n not in map(numbered, names))
            values = {
                "name": names[action],
                "number": number,
                "other": names[other],
                "other number": other_number,
                "unused": unused,
                "wide number": str(number).translate({ord("0") + digit: 0xFF10 + digit for digit in range(10)}),
            }
            for reply, right in shared_replies().items():
                for key, value in values.items():
                    reply = reply.replace(f"<{key}>", str(value))
                yield Way(position, reply, action if right else None)


def test_every_described_game_has_replies() -> None:
    assert {path.stem for path in FOLDER.glob("*.jsonl")} == {*GAMES, "any_game"}


@pytest.mark.parametrize("game", GAMES)
def test_enough_ways_are_written_down(game: str) -> None:
    """A way for every game counts once, whatever the positions, and a game's own box only if no such way makes it."""
    made = {way.reply for way in shared_ways(game)}
    own = {way.reply: way.means is not None for way in own_ways(game) if way.reply not in made}
    counts = Counter([*shared_replies().values(), *own.values()])
    assert counts.total() >= FEWEST
    assert min(counts[True], counts[False]) >= FEWEST // 4


@pytest.mark.parametrize("game", GAMES)
def test_replies_are_read_as_they_are_meant(game: str) -> None:
    ways = list(dict.fromkeys([*own_ways(game), *shared_ways(game)]))
    faults = []
    for way in ways:
        got = way.position.read(Reply(way.reply))
        right = isinstance(got, Reason) and got.is_mistake if way.means is None else got == way.means
        if not right:
            faults.append((way.reply, way.means, got))
    assert not faults


@pytest.mark.parametrize("game", GAMES)
def test_no_wrong_reply_is_paid(game: str) -> None:
    wrong = [way for way in dict.fromkeys([*own_ways(game), *shared_ways(game)]) if way.means is None]
    assert len(wrong) >= FEWEST // 4
    for way in wrong:
        position, manner = way.position, OpenSpielManner(prompt="brief")
        task = OpenSpielTask("openspiel", load(position.case).case, 0, manner=manner)
        session = OpenSpielSession(task, load(position.case), (position.state, position.seat))
        session.step({position.seat: Reply(way.reply)})
        (score,) = session.scores().values()
        assert not score.value, way.reply
        assert not score.success
        assert score.reason.is_mistake


NEUTRAL = (
    *(
        "",
        "",
        " ",
        "\n",
        "I think ",
        "3 ",
        "a1 ",
        "boxed{0",
        "\\",
        "\\boxed",
        "\\boxed (0)",
        "\\Boxed(0)",
        "$$",
        "<b>",
        "# 1\n",
    ),
    *(
        "\u2028",
        "\u202e",
        "\ud83d",
        "\x00",
        "\ufeff",
        "\u200b",
        "é" * 50,
        "x" * 300,
        "Answer: 3",
        "</div >",
        "< think>",
        "```",
    ),
)
"""Texts without an answer, which close no box."""
HOSTILE = (
    "\\boxed{",
    "}",
    "{",
    "\\boxed{}",
    "\\boxed{\ud800}",
    "\\text{",
    "\\boxed{\\boxed{",
    "}}}}",
    "\\boxed{{",
    "${$",
)
"""Texts that may open or close boxes: the result must be the action of one of the boxes, or no action."""
MOST_BOXES = 3


class Pool:
    """The complete boxes of one position, each with its meaning."""

    def __init__(self, ways: list[Way]) -> None:
        self.position = ways[0].position
        boxes = [way for way in ways if way.reply.startswith("\\boxed{") and way.reply.endswith("}")]
        boxes = [way for way in boxes if way.reply.count("\\boxed") == 1 and balanced(way.reply)]
        self.right = [way for way in boxes if way.means is not None]
        self.wrong = [way for way in boxes if way.means is None]


def balanced(text: str) -> bool:
    return text.count("{") == text.count("}")


def pools() -> list[Pool]:
    found = []
    for game in GAMES:
        ways = [*own_ways(game), *shared_ways(game)]
        found += [Pool([way for way in ways if way.position == position]) for position in positions_of(game)]
    return found


def text_of(part: Way | str) -> str:
    return part.reply if isinstance(part, Way) else part


def test_hostile_replies_raise_nothing_and_are_paid_for_nothing(fuzzed_replies: int, disguise: Any) -> None:
    rng = random.Random(7)
    made, taken, reasons = pools(), 0, set()
    for index in range(fuzzed_replies):
        pool = rng.choice(made)
        parts: list[Way | str] = [rng.choice(NEUTRAL)]
        same = rng.choice(pool.right)
        for _ in range(rng.choice((0, 1, 1, 1, 2, MOST_BOXES))):
            draw = rng.random()
            parts.append(same if draw < 0.4 else rng.choice(pool.right if draw < 0.6 else pool.wrong))
            parts.append(rng.choice(NEUTRAL))
        hostile = rng.random() < 0.3
        if hostile:
            parts.insert(rng.randrange(len(parts) + 1), rng.choice(HOSTILE))
        truncated = index % 50 == 0
        text, shown = "".join(map(text_of, parts)), parts
        if not hostile and "`" not in text and rng.random() < 0.6:
            text, shown = disguise(rng, parts, text_of)
        got = pool.position.read(Reply(text, truncated=truncated))
        meant = {way.means for way in shown if isinstance(way, Way)}
        if isinstance(got, Reason):
            assert got.is_mistake
            reasons.add(got)
        else:
            taken += 1
            assert not truncated
            assert got in (meant if hostile else meant if len(meant) == 1 else ()), (pool.position.case, text, got)
        if not hostile and not truncated and len(meant) == 1 and meant != {None}:
            assert got == meant.pop(), (pool.position.case, text, got)
    assert taken > fuzzed_replies / 5  # the fuzzing also reaches the accepting branch
    assert reasons == {Reason.EMPTY, Reason.UNPARSEABLE, Reason.AMBIGUOUS, Reason.ILLEGAL, Reason.TRUNCATED}
