"""The one protocol through which every environment is played, whatever plays it and whatever trains it.

A `Task` (envs/task.py) names what is to be solved, in plain values. An `Environment` turns it into a `Session`. The
session shows `Turn`s, takes `Reply`s and ends with a `Score` for each seat. A `Player` answers turns, a batch at a
time, and `play` is the driver that brings sessions and players together. `shape` makes the training reward from a
score, and is the only place that does.

A single answer is a session of one step, a whole game a session of many; self-play is one player bound to every seat.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol

from veritas_rl.envs.task import Task

Message = dict[str, str]
"""One chat message: {"role": ..., "content": ...}."""


class Reason(StrEnum):
    """Why a session ended as it did. The mistakes are a model's; each pays nothing."""

    WON = "won"
    LOST = "lost"
    DRAWN = "drawn"
    LEGAL = "legal"
    """A single move that may be played; how good it is stands in the score's value."""
    CORRECT = "correct"
    WRONG = "wrong"
    """An answer that could be read, and is not the right one; it may still earn a part of the value."""
    EMPTY = "empty"
    """Nothing was answered, or nothing but thinking."""
    UNPARSEABLE = "unparseable"
    """Something was answered, but not in the documented format."""
    AMBIGUOUS = "ambiguous"
    """Several answers were given."""
    ILLEGAL = "illegal"
    """One answer was given, and it is not among the legal ones."""
    TRUNCATED = "truncated"
    """The reply was cut at the token limit before it ended."""
    OVERLONG = "overlong"
    """The prompt did not fit, or the reply was larger than any answer can be."""
    FORFEITED = "forfeited"
    """Another seat's mistake ended the game."""
    UNFINISHED = "unfinished"
    """The game was not over after the most moves that it may have. It pays nothing: nobody gains by delay."""

    @property
    def is_mistake(self) -> bool:
        return self in _MISTAKES

    @property
    def is_cut(self) -> bool:
        """Whether the mistake is one of length."""
        return self in _CUT


_CUT = frozenset({Reason.TRUNCATED, Reason.OVERLONG})
_MISTAKES = _CUT | {Reason.EMPTY, Reason.UNPARSEABLE, Reason.AMBIGUOUS, Reason.ILLEGAL}


@dataclass(frozen=True)
class Turn:
    """What one seat must answer now.

    Attributes:
        seat: Who is asked.
        messages: What a model is shown: all that this seat may know, and nothing else.
        answers: A whole reply for each legal answer, in the order in which `view` lists them; empty where the
            answers cannot be listed.
        update: What a model is shown instead of `messages` where these stand before it already, in a chat that grows.
        dice: What a player that draws lots seeds them with, beside its own seed: the task's chance seed, the ply and
            the seat, so that a task that is played again meets the same opponent's dice.
        solution: A reply that earns the whole value, where the environment has one at hand; "" where it has none. A
            model never sees it.
        view: The game for bots and solvers. A model never sees it.
    """

    seat: int
    messages: tuple[Message, ...]
    answers: tuple[str, ...]
    update: str = ""
    dice: tuple[str | int, ...] = ()
    solution: str = field(repr=False, compare=False, default="")
    view: Any = field(repr=False, compare=False, default=None)


@dataclass(frozen=True)
class Reply:
    """What a player says to one turn.

    Attributes:
        text: The reply, as it was written.
        truncated: Whether it was cut at a token limit.
        overlong: Whether the prompt did not fit, so that nothing was asked.
        prompt_tokens: How many tokens its player read; 0 for a player that reads none.
        tokens: How many tokens its player wrote; 0 for a player that writes none.
    """

    text: str
    truncated: bool = False
    overlong: bool = False
    prompt_tokens: int = field(default=0, compare=False)
    tokens: int = field(default=0, compare=False)


MEASURE = "measure/"
"""Before the name of what a game itself counts, among the details of a score."""


@dataclass(frozen=True)
class Score:
    """How a session ended for one seat.

    Attributes:
        value: In [0, 1]; 0 for every mistake.
        success: Whether the task counts as solved.
        reason: Why.
        details: Plain values for logs, such as the action that was read.
    """

    value: float
    success: bool
    reason: Reason
    details: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:
            raise ValueError(f"a score's value lies in [0, 1], got {self.value}")
        if (self.value or self.success) and self.reason.is_mistake:
            raise ValueError(f"a mistake ({self.reason}) pays nothing, got {self.value}")

    @property
    def legal(self) -> bool:
        """Whether every answer of this seat was a legal one."""
        return not self.reason.is_mistake

    @property
    def measures(self) -> dict[str, float]:
        """What the game itself counts, such as its points: the details whose names begin with `MEASURE`."""
        return {
            name.removeprefix(MEASURE): float(value) for name, value in self.details.items() if name.startswith(MEASURE)
        }


@dataclass(frozen=True)
class Choice:
    """A legal answer as a person sees it.

    Attributes:
        name: How it is called.
        reply: A whole reply that gives it.
        cells: The cells of the board by which a person points at it, in their order, such as ("e2", "e4").
    """

    name: str
    reply: str
    cells: tuple[str, ...] = ()


@dataclass(frozen=True)
class Hint:
    """What a choice is worth.

    Attributes:
        name: The choice.
        value: In [0, 1].
        good: Whether it counts as a success.
    """

    name: str
    value: float
    good: bool


class Session(ABC):
    """One task being played. It is thrown away after one play, and has no reset."""

    task: Task

    rejected: Mapping[int, Reason] = MappingProxyType({})
    """The replies of the last step that were mistakes, by seat, whether they ended the session or may be repeated."""

    actions: Mapping[int, str] = MappingProxyType({})
    """The actions of the last step, by seat, by the names that a person reads; no mistake is one."""

    @abstractmethod
    def turns(self) -> Sequence[Turn]:
        """The turns that wait for an answer now: one, or several where moves are simultaneous; none at the end."""

    @abstractmethod
    def step(self, replies: Mapping[int, Reply]) -> None:
        """Answer every waiting turn, by seat. A bad reply is never an error: it ends in a score with a reason."""

    @abstractmethod
    def scores(self) -> dict[int, Score]:
        """The score of each seat that was asked. Only after the end: a `RuntimeError` before."""

    def board(self, seat: int) -> str:
        """What a seat sees now, drawn for a person who looks on, after the end too; "" where there is no board."""
        return ""

    def role(self, seat: int) -> str:
        """What a seat is called in its prompt, such as "x"."""
        return f"seat {seat}"

    def rules(self, seat: int) -> str:
        """The rules, for a person who plays a seat."""
        return ""

    @property
    def hides(self) -> bool:
        """Whether one seat may not see what another one sees."""
        return True

    def choices(self, seat: int) -> Sequence[Choice]:
        """What a person on a seat that waits may choose; empty where it cannot be listed."""
        return ()

    def reply_of(self, seat: int, text: str) -> str:
        """The reply that gives what a person typed for a seat that waits; "" where it is no legal answer."""
        return next((choice.reply for choice in self.choices(seat) if choice.name == text), "")

    def hints(self, seat: int) -> tuple[str, Sequence[Hint]]:
        """What the choices of a seat that waits are worth, by what it knows, and how that was found; empty where nobody
        can say it."""
        return "", ()


class Player(Protocol):
    """Who plays. Models read a turn's messages; bots and solvers read its view."""

    def act(self, turns: Sequence[Turn]) -> Sequence[Reply]:
        """One reply for each turn, in order."""
        ...


def play(
    sessions: Sequence[Session], players: Mapping[int, Player] | Player | Sequence[Mapping[int, Player]]
) -> list[dict[int, Score]]:
    """Play sessions to their ends, asking each player for all its waiting turns in one batch.

    Args:
        sessions: Fresh sessions.
        players: Who sits where; one player alone takes every seat. A sequence says it for each session.

    Returns:
        The scores of each session, by seat.
    """
    each = players if isinstance(players, Sequence) else [players] * len(sessions)
    live = list(zip(sessions, each, strict=True))
    while live:
        asked_now = [(session, seating, list(session.turns())) for session, seating in live]
        live = [(session, seating) for session, seating, turns in asked_now if turns]
        waiting = [(session, turns) for session, _, turns in asked_now]
        batches: dict[int, tuple[Player, list[tuple[int, Turn]]]] = {}
        for index, (_, seating, turns) in enumerate(asked_now):
            for turn in turns:
                player = seating[turn.seat] if isinstance(seating, Mapping) else seating
                batches.setdefault(id(player), (player, []))[1].append((index, turn))
        replies: list[dict[int, Reply]] = [{} for _ in waiting]
        for player, asked in batches.values():
            for (index, turn), reply in zip(asked, player.act([turn for _, turn in asked]), strict=True):
                replies[index][turn.seat] = reply
        for (session, turns), said in zip(waiting, replies, strict=True):
            if turns:
                session.step(said)
    return [session.scores() for session in sessions]


def shape(score: Score, task: Task, moves_left: int = 0, accepted: bool | None = None) -> float:
    """The training reward of one reply: the only place where one is made.

    Args:
        score: How the session ended for the seat.
        task: Its `Pay` says what is paid: the reward "legal" pays 1 for staying legal, every other one the value that
            the session has found. `gamma` discounts, and `legal_share` is paid for the reply's own legality.
        moves_left: How many accepted moves of this seat followed the rewarded one; 0 for a single move.
        accepted: Whether the reply was a legal answer; by default whether all of the seat's were. A mistake that was
            made good later pays nothing all the same.

    Returns:
        A reward in [0, 1]; 0 for every mistake.
    """
    if not (score.legal if accepted is None else accepted):
        return 0.0
    value = float(score.legal) if task.pay.reward == "legal" else score.value * task.pay.gamma**moves_left
    return task.pay.legal_share + (1 - task.pay.legal_share) * value
