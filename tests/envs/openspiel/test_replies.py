"""Replies are read as they are meant: `replies/` holds right and wrong ways to write answers, for every described game.

`replies/GAME.jsonl` has positions of a game, then what boxes mean in them: the name of a legal action, or null where
none may be taken. `replies/any_game.jsonl` has ways that every game shares; <name> and <number> stand for a legal
action, <other> and <other number> for another one, <unused> for a number that no legal action has.
"""

import json
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
from veritas_rl.envs.openspiel.positions import replay
from veritas_rl.envs.openspiel.session import OpenSpielSession
from veritas_rl.envs.openspiel.task import OpenSpielTask

FOLDER = Path(__file__).with_name("replies")
FEWEST = 200
"""Ways to write answers, right and wrong ones together, that each game has."""


@dataclass(frozen=True)
class Position:
    """Where a reply is read.

    Attributes:
        case: The case.
        history: OpenSpiel's actions that lead there.
        seat: Who is asked.
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


@dataclass(frozen=True)
class Way:
    """A reply, and the action that it means; None where it means none."""

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
    """What the game's file says."""
    for row in lines(game):
        if "case" in row:
            continue
        position = positions_of(game)[row["position"]]
        actions = {name: action for action, name in position.names.items()}
        for box in row["boxes"]:
            yield Way(position, f"\\boxed{{{box}}}", None if row["means"] is None else actions[row["means"]])


def shared_ways(game: str) -> Iterator[Way]:
    """The ways of any game, for the first and the last legal action of each position."""
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
            for row in lines("any_game"):
                reply = row["reply"] if "reply" in row else f"\\boxed{{{row['box']}}}"
                for key, value in values.items():
                    reply = reply.replace(f"<{key}>", str(value))
                yield Way(position, reply, action if row["right"] else None)


def read(way: Way) -> int | Reason:
    position = way.position
    return read_action(Reply(way.reply), load(position.case), position.state, position.seat, position.names)


def test_every_described_game_has_replies() -> None:
    assert {path.stem for path in FOLDER.glob("*.jsonl")} == {*GAMES, "any_game"}


@pytest.mark.parametrize("game", GAMES)
def test_replies_are_read_as_they_are_meant(game: str) -> None:
    ways = list(dict.fromkeys([*own_ways(game), *shared_ways(game)]))
    counts = Counter(way.means is None for way in ways)
    assert sum(counts.values()) >= FEWEST
    assert min(counts.values()) >= FEWEST // 4
    faults = []
    for way in ways:
        got = read(way)
        right = isinstance(got, Reason) and got.is_mistake if way.means is None else got == way.means
        if not right:
            faults.append((way.reply, way.means, got))
    assert not faults


@pytest.mark.parametrize("game", GAMES)
def test_no_wrong_reply_is_paid(game: str) -> None:
    """Through a session, which pays; the first ten of each position."""
    for position in positions_of(game):
        wrong = [way for way in own_ways(game) if way.means is None and way.position == position][:10]
        assert wrong or game in ("othello", "go")
        for way in wrong:
            task = OpenSpielTask("openspiel", load(position.case).case, 0)
            session = OpenSpielSession(task, load(position.case), (position.state.clone(), position.seat))
            session.step({position.seat: Reply(way.reply)})
            (score,) = session.scores().values()
            assert not score.value
            assert not score.success
            assert score.reason.is_mistake
