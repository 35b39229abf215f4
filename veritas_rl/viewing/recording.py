"""Records played games move by move.

`RecordedSession` wraps any session, in `veritas_rl.envs.base.play` and in the agent loop of a training run, and does
not change the game. `games_page` writes the records to files.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from veritas_rl.envs.base import Message, Reply, Score, Session, Turn


@dataclass(frozen=True)
class PlayedTurn:
    """One reply of one seat.

    Attributes:
        seat: The seat to move.
        role: The name of the seat in its prompt, such as "x".
        player: The player of the seat.
        board: The seat's view as text; "" without a board.
        messages: The messages of the seat; in a growing chat only the new messages.
        reply: The reply as it was written.
        accepted: Whether the reply was a legal answer.
        action: The name of the played action, or the reason why there is none.
        goes_on: Whether the messages follow the seat's earlier messages and replies.
    """

    seat: int
    role: str
    player: str
    board: str
    messages: tuple[Message, ...]
    reply: str
    accepted: bool
    action: str
    goes_on: bool = False


@dataclass(frozen=True)
class Ending:
    """The end of a game for one seat.

    Attributes:
        seat: The seat.
        role: The name of the seat.
        player: The player of the seat.
        value: The score's value in [0, 1].
        success: Whether the task counts as solved.
        reason: The reason of the end.
        board: The seat's view at the end.
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
        task_id: The task's id, from which the game can be rebuilt.
        game: The case.
        seat: The trained or judged seat.
        opponent: The player of the other seats; "" in a game without opponent.
        turns: All replies in order; the replies of one step by seat.
        endings: The end for each seat.
    """

    task_id: str
    game: str
    seat: int
    opponent: str
    turns: tuple[PlayedTurn, ...]
    endings: tuple[Ending, ...]

    def chats(self, seat: int) -> Iterator[tuple[PlayedTurn, tuple[Message, ...]]]:
        """The replies of a seat, each with all messages before it."""
        chat: tuple[Message, ...] = ()
        for turn in self.turns:
            if turn.seat == seat:
                chat = (*chat, *turn.messages) if turn.goes_on else turn.messages
                yield turn, chat
                chat = (*chat, {"role": "assistant", "content": turn.reply})

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
    """A session that records its messages and replies.

    Args:
        session: A new session.
        player: Returns the display name of a seat's player.
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
        """The finished game.

        Raises:
            RuntimeError: The game is not over.
        """
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
        before = [message for played in self._played if played.seat == seat for message in played.messages]
        replies = sum(played.seat == seat for played in self._played)
        goes_on = turn.opening > 0 and replies > 0
        accepted = seat not in self.rejected
        return PlayedTurn(
            seat=seat,
            role=self.role(seat),
            player=self._player(seat),
            board=board,
            messages=turn.messages[len(before) + replies :] if goes_on else turn.messages,
            reply=reply.text,
            accepted=accepted,
            action=self.actions.get(seat, "") if accepted else str(self.rejected[seat]),
            goes_on=goes_on,
        )
