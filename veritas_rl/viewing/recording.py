"""What a played game was, move by move, so that a person can look at it later.

`RecordedSession` stands around any session, whatever drives it: `veritas_rl.envs.base.play` or the agent loop of a
training run. It changes nothing of the game. `games_page` writes what it recorded.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from veritas_rl.envs.base import Message, Reply, Score, Session, Turn


@dataclass(frozen=True)
class PlayedTurn:
    """One reply of one seat.

    Attributes:
        seat: Who was asked.
        role: What the seat is called in its prompt, such as "x".
        player: Who sat there.
        board: What the seat saw, drawn as text; "" where there is no board.
        messages: What the seat was shown: in a chat that grows, what was new.
        reply: The reply, as it was written.
        accepted: Whether it was a legal answer.
        action: The name of the action that was played, or the reason why there is none.
    """

    seat: int
    role: str
    player: str
    board: str
    messages: tuple[Message, ...]
    reply: str
    accepted: bool
    action: str


@dataclass(frozen=True)
class Ending:
    """How a game ended for one seat.

    Attributes:
        seat: It.
        role: What the seat is called.
        player: Who sat there.
        value: The score's value in [0, 1].
        success: Whether the task counts as solved.
        reason: Why.
        board: What the seat saw at the end.
    """

    seat: int
    role: str
    player: str
    value: float
    success: bool
    reason: str
    board: str


@dataclass(frozen=True)
class PlayedGame:
    """A finished game.

    Attributes:
        task_id: The task's id, which rebuilds the game.
        game: The case that was played.
        seat: Whose game it is: the seat that was trained or judged.
        opponent: Who sat on the other seats; "" in a game for one.
        turns: All replies, in their order; those of one step by seat.
        endings: How it ended, by seat.
    """

    task_id: str
    game: str
    seat: int
    opponent: str
    turns: tuple[PlayedTurn, ...]
    endings: tuple[Ending, ...]

    def to_dict(self) -> dict[str, Any]:
        """The game as plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The game that `to_dict` wrote."""
        turns = (PlayedTurn(**{**turn, "messages": tuple(turn["messages"])}) for turn in values["turns"])
        endings = (Ending(**ending) for ending in values["endings"])
        return cls(**{**values, "turns": tuple(turns), "endings": tuple(endings)})


class RecordedSession(Session):
    """A session that writes down what is said in it.

    Args:
        session: A fresh session.
        player: Who sits on a seat, by a name that a person reads.
    """

    def __init__(self, session: Session, player: Callable[[int], str]) -> None:
        self.task = session.task
        self._session = session
        self._player = player
        self._played: list[PlayedTurn] = []

    def turns(self) -> Sequence[Turn]:
        return self._session.turns()

    def step(self, replies: Mapping[int, Reply]) -> None:
        asked = [(turn, self.board(turn.seat)) for turn in self.turns()]
        self._session.step(replies)
        self.rejected, self.actions = self._session.rejected, self._session.actions
        self._played += [self._turn(turn, board, replies[turn.seat]) for turn, board in asked]

    def scores(self) -> dict[int, Score]:
        return self._session.scores()

    def board(self, seat: int) -> str:
        return self._session.board(seat)

    def role(self, seat: int) -> str:
        return self._session.role(seat)

    @property
    def played(self) -> Sequence[PlayedTurn]:
        """The replies so far."""
        return self._played

    def game(self) -> PlayedGame:
        """What was played. Only after the end: a `RuntimeError` before."""
        scores = self.scores()
        seat = self.task.manner.seat if self.task.manner.seat in scores else min(scores)
        others = dict.fromkeys(self._player(other) for other in sorted(scores) if other != seat)
        return PlayedGame(
            task_id=self.task.id,
            game=self.task.case,
            seat=seat,
            opponent=", ".join(others),
            turns=tuple(self._played),
            endings=tuple(
                Ending(
                    seat=seat,
                    role=self.role(seat),
                    player=self._player(seat),
                    value=score.value,
                    success=score.success,
                    reason=str(score.reason),
                    board=self.board(seat),
                )
                for seat, score in sorted(scores.items())
            ),
        )

    def _turn(self, turn: Turn, board: str, reply: Reply) -> PlayedTurn:
        seat = turn.seat
        grows = self.task.manner.context == "conversation" and any(played.seat == seat for played in self._played)
        accepted = seat not in self.rejected
        return PlayedTurn(
            seat=seat,
            role=self.role(seat),
            player=self._player(seat),
            board=board,
            messages=({"role": "user", "content": turn.update},) if grows else turn.messages,
            reply=reply.text,
            accepted=accepted,
            action=self.actions.get(seat, "") if accepted else str(self.rejected[seat]),
        )
