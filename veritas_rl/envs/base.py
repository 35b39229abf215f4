"""The protocol of all environments, for every player and every trainer.

A `Task` (envs/task.py) describes a problem in plain values. An `Environment` starts a `Session` of a task. The session
shows `Turn`s, takes `Reply`s and ends with a `Score` for each seat. A `Player` answers turns, a batch at a time. `play`
runs sessions with players. `shape` computes the training reward from a score; nothing else does.

A single answer is a session of one step, and a whole game a session of many steps. In self-play one player plays every
seat.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from veritas_rl.envs.task import Task

Message = dict[str, str]
"""One chat message: {"role": ..., "content": ...}."""


class Reason(StrEnum):
    """The reason of a session's end. A mistake of the model has the value 0."""

    WON = "won"
    LOST = "lost"
    DRAWN = "drawn"
    LEGAL = "legal"
    """A legal single move; the score's value is its quality."""
    CORRECT = "correct"
    WRONG = "wrong"
    """A readable answer that is not right; it may still earn a part of the value."""
    EMPTY = "empty"
    """The reply is empty, or has only thinking."""
    UNPARSEABLE = "unparseable"
    """The reply has no answer in the documented format."""
    AMBIGUOUS = "ambiguous"
    """The reply has several answers."""
    ILLEGAL = "illegal"
    """The reply has one answer, which is not legal."""
    TRUNCATED = "truncated"
    """The reply was cut at the token limit."""
    OVERLONG = "overlong"
    """The prompt was too long, or the reply was longer than any answer can be."""
    FORFEITED = "forfeited"
    """Another seat's mistake ended the game."""
    UNFINISHED = "unfinished"
    """The game reached the limit of moves. The value is 0, so that delay gains nothing."""
    WITHHELD = "withheld"
    """A provider's filter withheld a reply, so the game is left out of all figures."""

    @property
    def is_mistake(self) -> bool:
        return self in _MISTAKES

    @property
    def is_cut(self) -> bool:
        """Whether the mistake is an exceeded length."""
        return self in _CUT


_CUT = frozenset({Reason.TRUNCATED, Reason.OVERLONG})
_MISTAKES = _CUT | {Reason.EMPTY, Reason.UNPARSEABLE, Reason.AMBIGUOUS, Reason.ILLEGAL}


class Missing(StrEnum):
    """Why the server of a model sent no text. All but the last are mistakes of the model."""

    REFUSED = "refused"
    TOOL_CALL = "tool call"
    """The model called a tool, although it was offered none."""
    THOUGHT = "only thinking"
    NOTHING = "no text"
    WITHHELD = "withheld"
    """A filter of the provider withheld the prompt or the reply, so the game is left out of all figures."""


@dataclass(frozen=True)
class Turn:
    """A question to one seat.

    Attributes:
        seat: The seat to move.
        messages: The messages for a model. They contain all information of this seat, and nothing else. In a
            conversation they are the whole chat of this seat, with its earlier replies.
        answers: A complete reply for each legal answer, in the order of `view`; empty if answers cannot be listed.
        opening: In a conversation, the number of messages before the seat's first reply; 0 if the turn is a new chat.
        dice: The task's chance seed, the ply and the seat. Together with the player's own seed they seed the player's
            random choices, so a repeated task has the same random choices.
        solution: A reply with the full value, if the environment has one; else "". A model never sees it.
        view: The game for bots and solvers. A model never sees it.
    """

    seat: int
    messages: tuple[Message, ...]
    answers: tuple[str, ...]
    opening: int = 0
    dice: tuple[str | int, ...] = ()
    solution: str = field(repr=False, compare=False, default="")
    view: Any = field(repr=False, compare=False, default=None)

    def chat_after(self, reply: str, content: str) -> tuple[Message, ...]:
        """The chat that goes on with a reply to this turn, and then with a message of the user."""
        return (*self.messages, {"role": "assistant", "content": reply}, {"role": "user", "content": content})


@runtime_checkable
class DrawsReplies(Protocol):
    """A turn's view that can draw a legal answer, although the answers cannot be listed."""

    def draw(self, drawing: Random) -> str:
        """A random reply. It may be a mistake if no legal answer is found."""
        ...


@dataclass(frozen=True)
class Reply:
    """A player's reply to one turn.

    Attributes:
        text: The unchanged text of the reply.
        truncated: Whether the reply was cut at a token limit.
        overlong: Whether the prompt was too long, so that no reply was requested.
        prompt_tokens: The number of prompt tokens; 0 for players without tokens.
        tokens: The number of generated tokens; 0 for players without tokens.
        token_ids: The generated tokens; empty if they are not known.
        missing: Why a server sent no text; None if it did, or if the reply was cut.
    """

    text: str
    truncated: bool = False
    overlong: bool = False
    prompt_tokens: int = field(default=0, compare=False)
    tokens: int = field(default=0, compare=False)
    token_ids: tuple[int, ...] = field(default=(), compare=False, repr=False)
    missing: Missing | None = None


MEASURE = "measure/"
"""The prefix of a game's own measures in the details of a score."""

FAULT = "fault"
"""The key of the details of a score that has the environment's error, if an error has ended the game."""

MOST_OF_AN_ERROR = 200
"""The most characters of an error in the details of a score."""


def error_detail(error: Exception) -> str:
    """An error as the details of a score have it: its type and its text, cut at `MOST_OF_AN_ERROR`."""
    return f"{type(error).__name__}: {error}"[:MOST_OF_AN_ERROR]


@dataclass(frozen=True)
class Score:
    """The end of a session for one seat.

    Attributes:
        value: The value in [0, 1]; 0 for every mistake.
        success: Whether the task counts as solved.
        reason: The reason of the end.
        details: Plain values for logs, such as the parsed action.
    """

    value: float
    success: bool
    reason: Reason
    details: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:
            raise ValueError(f"a score's value must be in [0, 1], got {self.value}")
        if (self.value or self.success) and self.reason.is_mistake:
            raise ValueError(f"a mistake ({self.reason}) must have the value 0 and be no success, got {self.value}")

    @property
    def legal(self) -> bool:
        """Whether every answer of this seat was legal."""
        return not self.reason.is_mistake

    @property
    def measures(self) -> dict[str, float]:
        """The game's own measures, such as points: the details whose names begin with `MEASURE`."""
        return {
            name.removeprefix(MEASURE): float(value) for name, value in self.details.items() if name.startswith(MEASURE)
        }


@dataclass(frozen=True)
class Choice:
    """A legal answer for a person.

    Attributes:
        name: The name of the answer.
        reply: A complete reply that gives this answer.
        cells: The cells of the board that select this answer, in order, such as ("e2", "e4").
    """

    name: str
    reply: str
    cells: tuple[str, ...] = ()


@dataclass(frozen=True)
class Hint:
    """The value of a choice.

    Attributes:
        name: The name of the choice.
        value: The value in [0, 1].
        good: Whether the choice counts as a success.
    """

    name: str
    value: float
    good: bool


class Session(ABC):
    """One play of a task. A session is played once and has no reset."""

    task: Task

    rejected: Mapping[int, Reason] = MappingProxyType({})
    """The mistakes of the last step by seat, whether they ended the session or may be corrected."""

    actions: Mapping[int, str] = MappingProxyType({})
    """The names of the actions of the last step, by seat, without mistakes."""

    @abstractmethod
    def turns(self) -> Sequence[Turn]:
        """The turns that wait for a reply: one, or several for simultaneous moves; none at the end."""

    @abstractmethod
    def step(self, replies: Mapping[int, Reply]) -> None:
        """Answer every waiting turn, by seat. A bad reply raises no error, but leads to a score with its reason."""

    @abstractmethod
    def scores(self) -> dict[int, Score]:
        """The score of each seat that had a turn.

        Raises:
            RuntimeError: The session is not over.
        """

    def anticipate(self) -> None:  # noqa: B027
        """Compute what the scores depend on whatever the waiting turns' replies are, into caches of this process."""

    def board(self, seat: int) -> str:
        """The seat's view of the board as text, also after the end; "" without a board."""
        return ""

    def role(self, seat: int) -> str:
        """The name of a seat in its prompt, such as "x"."""
        return f"seat {seat}"

    def rules(self, seat: int) -> str:
        """The rules for a person who plays a seat."""
        return ""

    @property
    def hides(self) -> bool:
        """Whether seats have different information."""
        return True

    def choices(self, seat: int) -> Sequence[Choice]:
        """The choices of a person on a waiting seat; empty if they cannot be listed."""
        return ()

    def reply_of(self, seat: int, text: str) -> str:
        """The reply for a person's typed move on a waiting seat; "" if the text is no legal move."""
        return next((choice.reply for choice in self.choices(seat) if choice.name == text), "")

    def hints(self, seat: int) -> tuple[str, Sequence[Hint]]:
        """The source of the values of a waiting seat's choices, and the values; empty if they are unknown.

        The values use only the seat's information.
        """
        return "", ()


class Player(Protocol):
    """A player. Models read a turn's messages; bots and solvers read its view."""

    def act(self, turns: Sequence[Turn]) -> Sequence[Reply]:
        """One reply for each turn, in order."""
        ...


def play(
    sessions: Sequence[Session], players: Mapping[int, Player] | Player | Sequence[Mapping[int, Player]]
) -> list[dict[int, Score]]:
    """Play sessions to their ends, with one batch of all waiting turns for each player.

    Args:
        sessions: New sessions.
        players: The player of each seat, or a single player for every seat. A sequence has an entry for each session.

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
    """The training reward of one reply. Only this function computes rewards, and only a `CustomReward` changes them.

    Args:
        score: The seat's score at the end of the session.
        task: The task with its `Pay`. The reward "legal" pays 1 for legal answers; every other reward pays the score's
            value, discounted by `gamma` for each of `moves_left`. `legal_share` is paid for the legality of the reply.
        moves_left: The number of later accepted moves of this seat; 0 for a single move.
        accepted: Whether the reply was a legal answer; by default whether all replies of the seat were legal. A mistake
            that was corrected later still has the reward 0.

    Returns:
        A reward in [0, 1]; 0 for every mistake.
    """
    if not (score.legal if accepted is None else accepted):
        return 0.0
    value = float(score.legal) if task.pay.reward == "legal" else score.value * task.pay.gamma**moves_left
    return task.pay.legal_share + (1 - task.pay.legal_share) * value
